//! Tests of stored forms: every kind comes back as it was.

use super::*;

fn new_value(tree: &Value, built_in: &BuiltIn) -> NewValue {
    let text = encoded::encode(tree, &built_in.kind, &built_in.api_version);
    NewValue { bytes: text.bytes, revision_at: Some(text.revision_at), note: None }
}

#[test]
fn every_built_in_kind_comes_back_as_it_was() {
    for media_type in [StorageMediaType::Protobuf, StorageMediaType::Json] {
        let forms = StoredForms::new(media_type);
        assert!(forms.built_in.len() > 50);
        for (prefix, built_in) in &forms.built_in {
            let mut tree = corten_api::value!({
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": {"l": "v"}},
            });
            conform(&mut tree, &built_in.schema, Extent::Whole, &mut Vec::new()).unwrap();
            (built_in.rules.default)(&mut tree);
            let key = format!("/registry/{prefix}/n/a");
            assert_eq!(forms.built_in(&key).map(|found| &*found.kind), Some(&*built_in.kind), "{key}");
            let value = new_value(&tree, built_in);
            let stored: Bytes = forms.store(&key, &value).unwrap().into();
            let is_protobuf = media_type == StorageMediaType::Protobuf && !built_in.always_json;
            assert_eq!(stored.starts_with(&protobuf::MAGIC), is_protobuf, "{key}");
            assert!(!String::from_utf8_lossy(&stored).contains("resourceVersion"), "{key}");
            let mut expected = value.bytes;
            let at = value.revision_at.unwrap();
            expected.splice(at..at, *b"7");
            let loaded = forms.load(&key, &stored, 7).unwrap();
            assert_eq!(String::from_utf8_lossy(&loaded), String::from_utf8_lossy(&expected), "{key}");
        }
    }
}

#[test]
fn custom_resources_are_json() {
    let forms = StoredForms::new(StorageMediaType::Protobuf);
    let text = br#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"w","resourceVersion":""},"spec":{}}"#;
    let at = text.windows(2).rposition(|pair| pair == b"\"\"").map(|at| at + 1);
    let value = NewValue { bytes: text.to_vec(), revision_at: at, note: None };
    let key = "/registry/example.com/widgets/n/w";
    let stored = forms.store(key, &value).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&stored),
        "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\"},\"spec\":{}}\n"
    );
    let loaded = forms.load(key, &stored.into(), 12).unwrap();
    let expected = String::from_utf8_lossy(text).replace("\"\"", "\"12\"");
    assert_eq!(String::from_utf8_lossy(&loaded), expected);
}

#[test]
fn old_versions_are_converted() {
    let forms = StoredForms::new(StorageMediaType::Protobuf);
    let stored = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"widgets.example.com"},
        "spec":{"group":"example.com","version":"v1","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
        "scope":"Namespaced","validation":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},
        "versions":[{"name":"v1","served":true,"storage":true}],
        "additionalPrinterColumns":[{"name":"Age","type":"date","JSONPath":".metadata.creationTimestamp"}],
        "conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"https://a"},"conversionReviewVersions":["v1"]},
        "preserveUnknownFields":false}}"#;
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com";
    let loaded = json::parse(&forms.load(key, &Bytes::from_static(stored.as_bytes()), 3).unwrap()).unwrap();
    assert_eq!(meta::api_version(&loaded), "apiextensions.k8s.io/v1");
    let version = &loaded.items_at(&["spec", "versions"])[0];
    assert_eq!(version.str_at(&["schema", "openAPIV3Schema", "type"]), Some("object"));
    assert!(version.at(&["subresources", "status"]).is_some());
    let column = &version.items_at(&["additionalPrinterColumns"])[0];
    assert_eq!(column.str_at(&["jsonPath"]), Some(".metadata.creationTimestamp"));
    let webhook = ["spec", "conversion", "webhook", "clientConfig", "url"];
    assert_eq!(loaded.str_at(&webhook), Some("https://a"));
    assert!(loaded.at(&["spec", "validation"]).is_none() && loaded.at(&["spec", "version"]).is_none());
}

#[test]
fn the_record_of_node_ports_comes_back_as_it_was() {
    let record =
        r#"{"apiVersion":"v1","data":"AgM=","kind":"RangeAllocation","metadata":{},"range":"30000-30019"}"#;
    let key = "/registry/ranges/servicenodeports";
    for media_type in [StorageMediaType::Protobuf, StorageMediaType::Json] {
        let forms = StoredForms::new(media_type);
        let stored = forms.store(key, &NewValue::from(record.as_bytes().to_vec())).unwrap();
        let loaded = forms.load(key, &stored.into(), 9).unwrap();
        assert_eq!(String::from_utf8_lossy(&loaded).trim(), record);
    }
}

#[test]
fn values_that_cannot_be_read_are_refused() {
    let forms = StoredForms::new(StorageMediaType::Protobuf);
    for stored in ["", "k8s:enc:aescbc:v1:key1:x", "k8s\0", "k8s\0\u{1}\u{2}", "{", "[1]x"] {
        let loaded = forms.load("/registry/pods/n/a", &Bytes::from_static(stored.as_bytes()), 1);
        assert!(loaded.is_err(), "{stored:?}");
    }
}
