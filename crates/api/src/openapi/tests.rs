//! The documents are consistent, and contain what clients need.

mod custom;
mod upstream;

use std::collections::BTreeSet;

use super::*;
use crate::resources::{self, Resource};
use crate::{Map, Value, json};

struct Texts;

impl Descriptions for Texts {
    fn of_type(&self, openapi_name: &str) -> Option<String> {
        Some(format!("about {openapi_name}"))
    }

    fn of_field(&self, openapi_name: &str, field: &str) -> Option<String> {
        (field != "env").then(|| format!("about {field} of {openapi_name}"))
    }

    fn revision(&self) -> &str {
        "1"
    }
}

fn all() -> Vec<&'static Resource> {
    resources::all().iter().collect()
}

fn openapi<'a>(served: &'a [&'a Resource], descriptions: &'a dyn Descriptions) -> OpenApi<'a> {
    OpenApi { served, version: "1.37", descriptions, custom: &[], foreign: None }
}

fn v3(path: &str, descriptions: &dyn Descriptions) -> Value {
    json::parse(&openapi(&all(), descriptions).v3_document(path, Format::Json).unwrap()).unwrap()
}

fn v2() -> Value {
    json::parse(&openapi(&all(), &NoDescriptions).v2_document(Format::Json)).unwrap()
}

fn text(value: &Value) -> String {
    json::write_to_string(value)
}

/// Every `$ref` in a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(map) => {
            for (key, item) in map.iter() {
                match item.as_str() {
                    Some(target) if key == "$ref" => drop(found.insert(target.to_owned())),
                    _ => references(item, found),
                }
            }
        }
        // The value of a key that managed fields use as well is not parsed into a tree.
        Value::Raw(text) => references(&json::parse(text.as_bytes()).unwrap(), found),
        _ => {}
    }
}

/// Checks that every reference has a definition, and every definition a reference.
fn check_references(document: &Value, place: &[&str], prefix: &str) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    let members = document.at(place).and_then(Value::as_object);
    let defined: BTreeSet<String> =
        members.into_iter().flat_map(Map::keys).map(|name| format!("{prefix}{name}")).collect();
    let wanted: BTreeSet<String> = found.into_iter().filter(|target| target.starts_with(prefix)).collect();
    let difference: Vec<_> = wanted.symmetric_difference(&defined).collect();
    assert!(difference.is_empty(), "{difference:?}");
}

#[test]
fn every_reference_of_version_3_resolves() {
    let served = all();
    for path in openapi(&served, &NoDescriptions).v3_paths() {
        let document = v3(&path, &NoDescriptions);
        assert_eq!(document.str_at(&["openapi"]), Some("3.0.0"));
        check_references(&document, &["components", "schemas"], "#/components/schemas/");
        let operations = document.get("paths").and_then(Value::as_object).unwrap();
        assert!(!operations.is_empty(), "{path}");
    }
}

#[test]
fn every_reference_of_version_2_resolves() {
    let document = v2();
    check_references(&document, &["definitions"], "#/definitions/");
    check_references(&document, &["parameters"], "#/parameters/");
}

#[test]
fn every_resource_has_its_paths() {
    let document = v2();
    let paths = document.get("paths").unwrap();
    for resource in resources::all() {
        let root = if resource.group.is_empty() { "/api" } else { "/apis" };
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}/{}{scope}/{}", resource.api_version(), resource.name);
        let object = format!("{collection}/{{name}}");
        for (verb, path, method) in [
            ("list", &collection, "get"),
            ("create", &collection, "post"),
            ("deletecollection", &collection, "delete"),
            ("get", &object, "get"),
            ("update", &object, "put"),
            ("patch", &object, "patch"),
            ("delete", &object, "delete"),
        ] {
            assert_eq!(paths.at(&[path, method]).is_some(), resource.has_verb(verb), "{verb} {path}");
        }
        for subresource in &resource.subresources {
            let path = format!("{object}/{}", subresource.name);
            assert!(paths.get(&path).is_some(), "{path}");
        }
    }
}

#[test]
fn operations_are_named_once() {
    let document = v2();
    let mut ids = BTreeSet::new();
    for (path, item) in document.get("paths").and_then(Value::as_object).unwrap().iter() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
            let id = operation.str_at(&["operationId"]).unwrap();
            assert!(ids.insert(id.to_owned()), "{id}: {method} {path}");
        }
    }
    for id in [
        "createCoreV1NamespacedPod",
        "listAppsV1DeploymentForAllNamespaces",
        "deleteRbacAuthorizationV1CollectionClusterRole",
        "replaceCoreV1NamespaceFinalize",
        "createCoreV1NamespacedPodEviction",
        "connectCoreV1GetNamespacedPodProxyWithPath",
        "watchFlowcontrolApiserverV1FlowSchemaList",
        "getInternalApiserverV1alpha1APIResources",
        "getAppsAPIGroup",
    ] {
        assert!(ids.contains(id), "{id}");
    }
}

#[test]
fn lists_say_how_they_merge() {
    let pods = ["properties", "containers"];
    let expected = "\"type\":\"array\",\"x-kubernetes-list-map-keys\":[\"name\"],\"x-kubernetes-list-type\":\"map\",\
                    \"x-kubernetes-patch-merge-key\":\"name\",\"x-kubernetes-patch-strategy\":\"merge\"}";
    let document = v3("api/v1", &NoDescriptions);
    let spec = document.at(&["components", "schemas", "io.k8s.api.core.v1.PodSpec"]).unwrap();
    let reference = "{\"items\":{\"$ref\":\"#/components/schemas/io.k8s.api.core.v1.Container\"},";
    assert_eq!(text(spec.at(&pods).unwrap()), format!("{reference}{expected}"));
    let document = v2();
    let spec = document.at(&["definitions", "io.k8s.api.core.v1.PodSpec"]).unwrap();
    let reference = "{\"items\":{\"$ref\":\"#/definitions/io.k8s.api.core.v1.Container\"},";
    assert_eq!(text(spec.at(&pods).unwrap()), format!("{reference}{expected}"));
}

#[test]
fn references_with_company_are_wrapped_in_version_3_only() {
    let document = v3("api/v1", &Texts);
    let pod = document.at(&["components", "schemas", "io.k8s.api.core.v1.Pod"]).unwrap();
    assert_eq!(pod.str_at(&["description"]), Some("about io.k8s.api.core.v1.Pod"));
    assert_eq!(
        text(pod.at(&["properties", "spec"]).unwrap()),
        "{\"allOf\":[{\"$ref\":\"#/components/schemas/io.k8s.api.core.v1.PodSpec\"}],\"default\":{},\
         \"description\":\"about spec of io.k8s.api.core.v1.Pod\"}"
    );
    let port =
        document.at(&["components", "schemas", "io.k8s.api.core.v1.ServicePort", "properties"]).unwrap();
    assert_eq!(port.str_at(&["protocol", "default"]), Some("TCP"));
    assert_eq!(port.int_at(&["port", "default"]), Some(0));

    let v2 = json::parse(&openapi(&all(), &Texts).v2_document(Format::Json)).unwrap();
    let pod = v2.at(&["definitions", "io.k8s.api.core.v1.Pod"]).unwrap();
    assert_eq!(
        text(pod.at(&["properties", "spec"]).unwrap()),
        "{\"$ref\":\"#/definitions/io.k8s.api.core.v1.PodSpec\",\
         \"description\":\"about spec of io.k8s.api.core.v1.Pod\"}"
    );
}

#[test]
fn kinds_are_marked() {
    let document = v3("apis/apps/v1", &NoDescriptions);
    let kinds = |name: &str| {
        let schema = document.at(&["components", "schemas", name]).unwrap();
        schema.get("x-kubernetes-group-version-kind").map(text)
    };
    let one =
        |group: &str, kind: &str| format!("{{\"group\":\"{group}\",\"kind\":\"{kind}\",\"version\":\"v1\"}}");
    let deployment = kinds("io.k8s.api.apps.v1.Deployment");
    assert_eq!(deployment, Some(format!("[{}]", one("apps", "Deployment"))));
    let options = kinds("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    assert_eq!(options, Some(format!("[{},{}]", one("", "DeleteOptions"), one("apps", "DeleteOptions"))));
    assert_eq!(
        kinds("io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        Some(format!("[{}]", one("", "Status")))
    );
    assert_eq!(kinds("io.k8s.api.core.v1.TypedObjectReference"), None);
    assert_eq!(kinds("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"), None);
}

#[test]
fn clients_find_out_that_fields_are_validated() {
    let v3 = v3("api/v1", &NoDescriptions);
    let v2 = v2();
    for document in [&v3, &v2] {
        let patch = document.at(&["paths", "/api/v1/namespaces/{name}", "patch"]).unwrap();
        assert_eq!(patch.str_at(&["x-kubernetes-group-version-kind", "kind"]), Some("Namespace"));
        let names: Vec<_> =
            patch.items_at(&["parameters"]).iter().filter_map(|p| p.str_at(&["name"])).collect();
        assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"), "{names:?}");
    }
}

#[test]
fn parameters_common_to_a_path_stand_once() {
    let document = v3("api/v1", &NoDescriptions);
    let names = |path: &[&str]| {
        let list = document.get("paths").unwrap().items_at(path);
        list.iter().map(|p| p.str_at(&["name"]).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let pod = "/api/v1/namespaces/{namespace}/pods/{name}";
    assert_eq!(names(&[pod, "parameters"]), ["name", "namespace", "pretty"]);
    assert_eq!(names(&[pod, "patch", "parameters"]), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let log = format!("{pod}/log");
    let names = names(&[&log, "parameters"]);
    assert!(names.is_sorted_by(|a, b| a < b) && names.contains(&"tailLines".to_owned()), "{names:?}");
}

#[test]
fn hashes_change_with_what_is_described() {
    let (all, stable): (Vec<_>, Vec<_>) = (all(), resources::all().iter().filter(|r| r.stable()).collect());
    let (one, other) = (openapi(&all, &NoDescriptions), openapi(&stable, &NoDescriptions));
    assert_eq!(one.v3_hash("apis/apps/v1"), other.v3_hash("apis/apps/v1"));
    assert_ne!(one.v2_hash(), other.v2_hash());
    assert_ne!(one.v3_hash("apis/apps/v1"), openapi(&all, &Texts).v3_hash("apis/apps/v1"));
    assert_eq!(other.v3_hash("apis/storage.k8s.io/v1beta9"), None);
    assert_eq!(other.v3_document("apis/storage.k8s.io/v1beta9", Format::Json), None);

    let index = json::parse(&other.v3_index(std::iter::empty())).unwrap();
    let paths = index.get("paths").and_then(Value::as_object).unwrap();
    for path in ["api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version", "openid/v1/jwks"] {
        let url = format!("/openapi/v3/{path}?hash={}", other.v3_hash(path).unwrap());
        assert_eq!(paths.get(path).and_then(|p| p.str_at(&["serverRelativeURL"])), Some(url.as_str()));
    }
    assert!(!paths.contains_key("apis/resource.k8s.io/v1alpha3"));
}

/// The fields of a protobuf message: number and, for those with a length, content.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = message.split_first().expect("a varint ends");
            *message = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        match key & 7 {
            0 => {
                varint(&mut message);
                found.push((key >> 3, &[][..]));
            }
            2 => {
                let length = varint(&mut message) as usize;
                let (content, rest) = message.split_at(length);
                message = rest;
                found.push((key >> 3, content));
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

fn child(message: &[u8], number: u64) -> &[u8] {
    fields(message).into_iter().find(|(n, _)| *n == number).map(|(_, content)| content).unwrap()
}

/// A section of the document, whose occurrences a parser merges.
fn section(message: &[u8], number: u64) -> Vec<u8> {
    let found = fields(message).into_iter().filter(|(n, _)| *n == number);
    found.flat_map(|(_, content)| content.to_vec()).collect()
}

/// The value of the entry that is called `name` in a repeated message of names and values.
fn entry<'a>(message: &'a [u8], number: u64, name: &str) -> &'a [u8] {
    let entries = fields(message).into_iter().filter(|(n, _)| *n == number);
    let found = entries.map(|(_, entry)| entry).find(|entry| child(entry, 1) == name.as_bytes());
    child(found.unwrap_or_else(|| panic!("no {name}")), 2)
}

#[test]
fn protobuf_says_what_json_says() {
    let served = all();
    let encoded = openapi(&served, &Texts).v2_document(Format::Protobuf);
    let (paths, definitions) = (section(&encoded, 8), section(&encoded, 9));
    let document = v2();
    assert_eq!(child(&encoded, 1), b"2.0");
    assert_eq!(child(child(&encoded, 2), 2), b"1.37");
    let count = |number: u64| fields(&section(&encoded, number)).len();
    let members = |name: &str| document.get(name).and_then(Value::as_object).unwrap().len();
    assert_eq!(
        (count(8), count(9), count(10)),
        (members("paths"), members("definitions"), members("parameters"))
    );

    let spec = entry(&definitions, 1, "io.k8s.api.core.v1.PodSpec");
    let containers = entry(child(spec, 25), 1, "containers");
    assert_eq!(child(child(containers, 22), 1), b"array");
    let items = child(child(containers, 23), 1);
    assert_eq!(child(items, 1), b"#/definitions/io.k8s.api.core.v1.Container");
    assert_eq!(child(entry(containers, 31, "x-kubernetes-list-map-keys"), 2), b"- name\n");
    assert_eq!(child(entry(containers, 31, "x-kubernetes-patch-merge-key"), 2), b"name\n");

    let patch = child(entry(&paths, 2, "/api/v1/namespaces/{name}"), 8);
    let kind = child(entry(patch, 13, "x-kubernetes-group-version-kind"), 2);
    assert_eq!(kind, b"group: \"\"\nkind: Namespace\nversion: v1\n");
    let parameters = fields(patch).into_iter().filter(|(n, _)| *n == 8).map(|(_, p)| fields(p)[0]);
    let names: Vec<&[u8]> = parameters
        .filter(|(n, parameter)| *n == 1 && fields(parameter)[0].0 == 2)
        .map(|(_, parameter)| child(child(child(parameter, 2), 3), 4))
        .collect();
    assert_eq!(names, [&b"dryRun"[..], b"fieldValidation"]);
}
