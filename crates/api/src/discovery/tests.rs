//! Discovery compared with the responses of an upstream server.

use super::*;

fn served() -> Vec<&'static Resource> {
    resources::all().iter().filter(|r| r.stable()).collect()
}

fn parsed(document: &Document) -> Value {
    json::parse(&document.body).unwrap()
}

fn entry<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.items_at(&["resources"]).iter().find(|r| r.str_at(&["name"]) == Some(name)).unwrap()
}

#[test]
fn groups_come_in_order_of_priority() {
    let list = api_group_list(&served());
    let names: Vec<_> = list.items_at(&["groups"]).iter().map(|g| g.str_at(&["name"]).unwrap()).collect();
    let first =
        ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"];
    assert_eq!(names[..5], first);
    assert_eq!(names[5..8], ["autoscaling", "batch", "certificates.k8s.io"]);
    let autoscaling = api_group(&served(), "autoscaling").unwrap();
    assert_eq!(
        json::write_to_string(&autoscaling),
        "{\"apiVersion\":\"v1\",\"kind\":\"APIGroup\",\"name\":\"autoscaling\",\
         \"preferredVersion\":{\"groupVersion\":\"autoscaling/v2\",\"version\":\"v2\"},\
         \"versions\":[{\"groupVersion\":\"autoscaling/v2\",\"version\":\"v2\"},\
         {\"groupVersion\":\"autoscaling/v1\",\"version\":\"v1\"}]}"
    );
    assert_eq!(api_group(&served(), ""), None);
    assert_eq!(api_group(&served(), "example.com"), None);
}

#[test]
fn the_core_group_has_its_own_root() {
    assert_eq!(
        json::write_to_string(&api_versions(&served(), "10.0.0.1:6443")),
        "{\"kind\":\"APIVersions\",\"serverAddressByClientCIDRs\":[{\"clientCIDR\":\"0.0.0.0/0\",\
         \"serverAddress\":\"10.0.0.1:6443\"}],\"versions\":[\"v1\"]}"
    );
}

#[test]
fn resources_are_listed_with_their_subresources() {
    let core = api_resource_list(&served(), "", "v1").unwrap();
    assert_eq!(core.get("apiVersion"), None);
    assert_eq!(core.str_at(&["groupVersion"]), Some("v1"));
    let names: Vec<_> = core.items_at(&["resources"]).iter().map(|r| r.str_at(&["name"]).unwrap()).collect();
    assert!(names.is_sorted());
    assert_eq!(
        json::write_to_string(entry(&core, "pods")),
        "{\"categories\":[\"all\"],\"kind\":\"Pod\",\"name\":\"pods\",\"namespaced\":true,\"shortNames\":[\"po\"],\
         \"singularName\":\"pod\",\"storageVersionHash\":\"xPOwRZ+Yhw8=\",\"verbs\":[\"create\",\"delete\",\
         \"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]}"
    );
    assert_eq!(
        json::write_to_string(entry(&core, "pods/eviction")),
        "{\"group\":\"policy\",\"kind\":\"Eviction\",\"name\":\"pods/eviction\",\"namespaced\":true,\
         \"singularName\":\"\",\"verbs\":[\"create\"],\"version\":\"v1\"}"
    );
    assert_eq!(api_resource_list(&served(), "apps", "v1beta1"), None);
    let apps = api_resource_list(&served(), "apps", "v1").unwrap();
    assert_eq!(apps.str_at(&["apiVersion"]), Some("v1"));
}

#[test]
fn hashes_name_the_stored_version() {
    let hash = |group: &str, version: &str, name: &str| {
        let list = api_resource_list(&served(), group, version).unwrap();
        entry(&list, name).str_at(&["storageVersionHash"]).map(str::to_owned)
    };
    assert_eq!(hash("", "v1", "events").as_deref(), Some("r2yiGXH7wu8="));
    assert_eq!(hash("events.k8s.io", "v1", "events").as_deref(), Some("r2yiGXH7wu8="));
    assert_eq!(hash("autoscaling", "v1", "horizontalpodautoscalers").as_deref(), Some("qwQve8ut294="));
    assert_eq!(hash("autoscaling", "v2", "horizontalpodautoscalers").as_deref(), Some("qwQve8ut294="));
    assert_eq!(hash("", "v1", "bindings"), None);
    for (group, name, _) in STORED_OLDER {
        assert!(resources::all().iter().any(|r| r.group == *group && r.name == *name), "{group} {name}");
    }
}

#[test]
fn the_aggregated_form_says_the_same_in_one_answer() {
    let v2 = aggregated_apis(&served());
    let list = parsed(&v2);
    assert_eq!(list.str_at(&["apiVersion"]), Some("apidiscovery.k8s.io/v2"));
    let groups: Vec<_> =
        list.items_at(&["items"]).iter().map(|g| g.str_at(&["metadata", "name"]).unwrap()).collect();
    assert_eq!(groups[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    let deployments = &list.items_at(&["items"])[1].items_at(&["versions"])[0].items_at(&["resources"])[2];
    assert_eq!(
        json::write_to_string(deployments),
        "{\"categories\":[\"all\"],\"resource\":\"deployments\",\"responseKind\":{\"group\":\"\",\
         \"kind\":\"Deployment\",\"version\":\"\"},\"scope\":\"Namespaced\",\"shortNames\":[\"deploy\"],\
         \"singularResource\":\"deployment\",\"subresources\":[{\"responseKind\":{\"group\":\"autoscaling\",\
         \"kind\":\"Scale\",\"version\":\"v1\"},\"subresource\":\"scale\",\"verbs\":[\"get\",\"patch\",\"update\"]},\
         {\"responseKind\":{\"group\":\"\",\"kind\":\"Deployment\",\"version\":\"\"},\"subresource\":\"status\",\
         \"verbs\":[\"get\",\"patch\",\"update\"]}],\"verbs\":[\"create\",\"delete\",\"deletecollection\",\"get\",\
         \"list\",\"patch\",\"update\",\"watch\"]}"
    );
    assert_eq!(v2.etag.len(), 130);
    assert!(v2.etag.starts_with('"') && v2.etag.ends_with('"'));
    assert_eq!(v2, aggregated_apis(&served()));

    let core = parsed(&aggregated_api(&served()));
    assert_eq!(core.str_at(&["apiVersion"]), Some("apidiscovery.k8s.io/v2"));
    let items = core.items_at(&["items"]);
    assert_eq!((items.len(), items[0].get("metadata")), (1, Some(&Value::object())));
}

#[test]
fn the_root_lists_every_path_once() {
    let paths = root_paths(&served(), ["/version", "/api", "/healthz"].into_iter().map(str::to_owned));
    let paths: Vec<_> = paths.items_at(&["paths"]).iter().map(|p| p.as_str().unwrap()).collect();
    assert!(paths.is_sorted_by(|a, b| a < b), "{paths:?}");
    for path in
        ["/api", "/api/v1", "/apis", "/apis/", "/apis/apps", "/apis/autoscaling/v2", "/healthz", "/version"]
    {
        assert!(paths.contains(&path), "{path}");
    }
}
