//! The documents of custom resources: rows of schemas and what upstream's builder publishes for them.

use std::sync::Arc;

use super::*;
use crate::openapi::custom::{CustomVersion, definitions};

fn version(schema: &'static str) -> CustomVersion {
    CustomVersion {
        group: "stable.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Widget".to_owned(),
        list_kind: "WidgetList".to_owned(),
        plural: "widgets".to_owned(),
        namespaced: true,
        has_status: true,
        has_scale: true,
        selectable_fields: Vec::new(),
        preserve_unknown_fields: false,
        revision: "1".to_owned(),
        schema: Box::new(move || json::parse(schema.as_bytes()).ok()),
    }
}

fn document(custom: &[Arc<CustomVersion>], format: Format) -> Vec<u8> {
    let documents =
        OpenApi { served: &[], version: "1.37", descriptions: &NoDescriptions, custom, foreign: None };
    documents.v2_document(format)
}

/// Compares a property of the spec as both versions publish it; nothing is a property that is as it was written.
fn check(property: &str, v3: &str, v2: &str) {
    let whole = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{"x":{property}}}}}}}}}"#
    );
    let of = CustomVersion { schema: Box::new(move || json::parse(whole.as_bytes()).ok()), ..version("") };
    for (dialect, expected) in [(Dialect::V3, v3), (Dialect::V2, v2)] {
        let [(name, schema), _] = definitions(&of, dialect, &NoDescriptions);
        assert_eq!(name, "com.example.stable.v1.Widget");
        let found = schema.at(&["properties", "spec", "properties", "x"]).map(text).unwrap_or_default();
        let expected = if expected.is_empty() { property } else { expected };
        assert_eq!(found, expected, "{property}");
    }
}

#[test]
fn properties_are_published_as_each_version_can_express_them() {
    for (property, v3, v2) in [
        (r#"{"format":"int32","maximum":10,"minimum":0,"type":"integer"}"#, "", ""),
        (r#"{"default":3,"type":"integer"}"#, "", r#"{"type":"integer"}"#),
        (r#"{"default":false,"type":"boolean"}"#, "", r#"{"type":"boolean"}"#),
        (
            r#"{"default":null,"description":"","type":"string"}"#,
            r#"{"type":"string"}"#,
            r#"{"type":"string"}"#,
        ),
        (r#"{"enum":["a",null],"nullable":true,"type":"string"}"#, "", r#"{"enum":["a",null]}"#),
        (r#"{"items":{"type":"string"},"nullable":true,"type":"array"}"#, "", "{}"),
        (r#"{"additionalProperties":true,"type":"object"}"#, "", ""),
        (
            r#"{"additionalProperties":{"nullable":true,"type":"string"},"required":["q"],"type":"object"}"#,
            "",
            r#"{"additionalProperties":{},"type":"object"}"#,
        ),
        (
            r#"{"properties":{"a":{"nullable":true,"type":"string"},"b":{"type":"string"}},"required":["a","b"],"type":"object"}"#,
            "",
            r#"{"properties":{"a":{},"b":{"type":"string"}},"required":["b"],"type":"object"}"#,
        ),
        (
            r#"{"properties":{"a":{"type":"string"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
            "",
            r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
        ),
        (
            r#"{"items":{"type":"string"},"type":"array","x-kubernetes-preserve-unknown-fields":true}"#,
            "",
            r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
        ),
        (
            r#"{"anyOf":[{"required":["a"]}],"not":{"required":["c"]},"oneOf":[{"properties":{"a":{"minLength":3}}}],"type":"object"}"#,
            "",
            r#"{"type":"object"}"#,
        ),
        (
            r#"{"x-kubernetes-int-or-string":true}"#,
            r#"{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}"#,
            "",
        ),
        (
            r#"{"anyOf":[{"pattern":"^a"}],"x-kubernetes-int-or-string":true}"#,
            r#"{"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}],"anyOf":[{"pattern":"^a"}],"x-kubernetes-int-or-string":true}"#,
            r#"{"x-kubernetes-int-or-string":true}"#,
        ),
        (
            r#"{"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}],"x-kubernetes-int-or-string":true}"#,
            "",
            r#"{"x-kubernetes-int-or-string":true}"#,
        ),
        (
            r#"{"items":{"type":"object"},"type":"array","x-kubernetes-list-map-keys":["a"],"x-kubernetes-list-type":"map"}"#,
            "",
            "",
        ),
        (
            r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#,
            r##"{"properties":{"apiVersion":{"description":"apiVersion is the group and version of the embedded object's schema.","type":"string"},"kind":{"description":"kind is the type of the embedded object, in CamelCase.","type":"string"},"metadata":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},"required":["kind","apiVersion"],"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"##,
            r#"{"x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#,
        ),
        (r#"{"$ref":"x","id":"y","type":"string"}"#, r#"{"type":"string"}"#, r#"{"type":"string"}"#),
        (
            r#"{"properties":{"fieldsV1":{"id":"y","type":"string"}},"type":"object"}"#,
            r#"{"properties":{"fieldsV1":{"type":"string"}},"type":"object"}"#,
            r#"{"properties":{"fieldsV1":{"type":"string"}},"type":"object"}"#,
        ),
    ] {
        check(property, v3, v2);
    }
}

#[test]
fn objects_without_known_fields_say_nothing_but_their_kind() {
    let bare = r#"{"type":"object","x-kubernetes-group-version-kind":[{"group":"stable.example.com","kind":"Widget","version":"v1"}]}"#;
    let open = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#;
    let whole = |of: &CustomVersion, dialect| text(&definitions(of, dialect, &NoDescriptions)[0].1);
    assert_eq!(whole(&version("no schema"), Dialect::V2), bare);
    assert_eq!(whole(&version("no schema"), Dialect::V3), bare);
    assert_eq!(whole(&version(open), Dialect::V2), bare);
    assert!(whole(&version(open), Dialect::V3).contains("ObjectMeta"));
    let legacy = CustomVersion { preserve_unknown_fields: true, ..version(r#"{"type":"object"}"#) };
    assert_eq!(whole(&legacy, Dialect::V2), bare);
    let selectable = CustomVersion { selectable_fields: vec![".spec.color".to_owned()], ..version("") };
    let fields = r#""x-kubernetes-selectable-fields":[{"fieldPath":"spec.color"}]"#;
    assert!(whole(&selectable, Dialect::V2).contains(fields));
}

#[test]
fn operations_are_named_after_group_and_kind() {
    for (group, kind, path, method, id, tag, description) in [
        (
            "stable.example.com",
            "Widget",
            "",
            "delete",
            "deleteStableExampleComV1CollectionNamespacedWidget",
            "stableExampleCom_v1",
            "delete collection of Widget",
        ),
        (
            "stable.example.com",
            "Widget",
            "/{name}/scale",
            "put",
            "replaceStableExampleComV1NamespacedWidgetScale",
            "stableExampleCom_v1",
            "replace scale of the specified Widget",
        ),
        (
            "mygroup.k8s.io",
            "Index",
            "",
            "post",
            "createMygroupV1NamespacedIndex",
            "mygroup_v1",
            "create an Index",
        ),
        ("a-b.c9.io", "Buses", "", "post", "createABC9IoV1NamespacedBuses", "aBC9Io_v1", "create Buses"),
        (
            "1x.io",
            "Widget",
            "/{name}",
            "get",
            "readXIoV1NamespacedWidget",
            "XIo_v1",
            "read the specified Widget",
        ),
    ] {
        let of = CustomVersion { group: group.to_owned(), kind: kind.to_owned(), ..version("") };
        let document = json::parse(&document(&[Arc::new(of)], Format::Json)).unwrap();
        let path = format!("/apis/{group}/v1/namespaces/{{namespace}}/widgets{path}");
        let operation = document.at(&["paths", &path, method]).unwrap();
        assert_eq!(operation.str_at(&["operationId"]), Some(id));
        assert_eq!(operation.items_at(&["tags"]), [Value::from(tag)]);
        assert_eq!(operation.str_at(&["description"]), Some(description));
    }
}

#[test]
fn every_reference_resolves() {
    let custom = [Arc::new(version(r#"{"type":"object","properties":{"spec":{"type":"object"}}}"#))];
    let v2 = json::parse(&document(&custom, Format::Json)).unwrap();
    check_references(&v2, &["definitions"], "#/definitions/");
    check_references(&v2, &["parameters"], "#/parameters/");
    let documents = OpenApi {
        served: &[],
        version: "1.37",
        descriptions: &NoDescriptions,
        custom: &custom,
        foreign: None,
    };
    let v3 =
        json::parse(&documents.v3_document("apis/stable.example.com/v1", Format::Json).unwrap()).unwrap();
    check_references(&v3, &["components", "schemas"], "#/components/schemas/");
    assert_eq!(v3.str_at(&["info", "title"]), Some("Kubernetes CRD Swagger"));
    assert_eq!(v3.get("paths").and_then(Value::as_object).map(Map::len), Some(5));
}

#[test]
fn a_changed_crd_changes_its_own_hash_only() {
    let served = all();
    let hashes = |revision: &str| {
        let custom = [
            CustomVersion { revision: revision.to_owned(), ..version("") },
            CustomVersion { group: "other.example.com".to_owned(), ..version("") },
        ]
        .map(Arc::new);
        let documents = OpenApi {
            served: &served,
            version: "1.37",
            descriptions: &NoDescriptions,
            custom: &custom,
            foreign: None,
        };
        let of = |path: &str| documents.v3_hash(path).unwrap();
        [
            of("apis/stable.example.com/v1"),
            documents.v2_hash(),
            of("apis/other.example.com/v1"),
            of("apis/apps/v1"),
            of("api"),
        ]
    };
    let (one, two) = (hashes("1"), hashes("2"));
    assert_eq!([0, 1, 2, 3, 4].map(|i| one[i] == two[i]), [false, false, true, true, true]);
}

#[test]
fn a_schema_is_loaded_once_and_only_for_its_own_piece() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let loads = Arc::new(AtomicUsize::new(0));
    let custom: Vec<Arc<CustomVersion>> = (0..50)
        .map(|i| {
            let loads = loads.clone();
            let schema = Box::new(move || {
                loads.fetch_add(1, Relaxed);
                None
            });
            CustomVersion { kind: format!("Widget{i}"), plural: format!("widgets{i}"), schema, ..version("") }
        })
        .map(Arc::new)
        .collect();
    let documents = OpenApi {
        served: &[],
        version: "1.37",
        descriptions: &NoDescriptions,
        custom: &custom,
        foreign: None,
    };
    for format in [Format::Json, Format::Protobuf] {
        loads.store(0, Relaxed);
        let mut stream = V2Stream::new(&documents, format);
        let (mut largest, mut before) = (0, 0);
        while let Some(piece) = stream.next_piece(&documents) {
            largest = largest.max(piece.len());
            assert!(loads.load(Relaxed) <= before + 1);
            before = loads.load(Relaxed);
        }
        assert_eq!(before, 50);
        assert!(largest < 64 * 1024, "{largest}");
    }
}
