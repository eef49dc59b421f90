//! Pieces of the documents as an upstream server publishes them, without descriptions: a row for every class of
//! difference that there once was.

use super::*;

/// Compares the piece of a document at a place with upstream's; `None` is a piece that must not be there.
fn check(document: &Value, place: &[&str], expected: Option<&str>) {
    assert_eq!(document.at(place).map(text).as_deref(), expected, "{place:?}");
}

#[test]
fn properties_are_upstreams() {
    const NO: Option<&str> = None;
    let document = v3("api/v1", &NoDescriptions);
    for (name, property, key, expected) in [
        ("io.k8s.api.core.v1.ContainerPort", "protocol", "enum", Some(r#"["SCTP","TCP","UDP"]"#)),
        (
            "io.k8s.api.core.v1.Container",
            "imagePullPolicy",
            "enum",
            Some(r#"["Always","IfNotPresent","Never"]"#),
        ),
        (
            "io.k8s.api.core.v1.Taint",
            "effect",
            "enum",
            Some(r#"["NoExecute","NoSchedule","PreferNoSchedule"]"#),
        ),
        (
            "io.k8s.api.core.v1.PersistentVolumeClaimSpec",
            "accessModes",
            "items",
            Some(
                r#"{"enum":["ReadOnlyMany","ReadWriteMany","ReadWriteOnce","ReadWriteOncePod"],"type":"string"}"#,
            ),
        ),
        ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", "accessModes", "enum", NO),
        ("io.k8s.api.core.v1.ConfigMapKeySelector", "name", "default", Some(r#""""#)),
        ("io.k8s.api.core.v1.GRPCAction", "service", "default", Some(r#""""#)),
        ("io.k8s.api.core.v1.ContainerPort", "containerPort", "default", Some("0")),
        ("io.k8s.api.core.v1.ContainerPort", "hostIP", "default", NO),
        ("io.k8s.api.core.v1.PodStatus", "hostIPs", "x-kubernetes-list-type", Some(r#""atomic""#)),
        (
            "io.k8s.api.core.v1.PersistentVolumeSpec",
            "claimRef",
            "x-kubernetes-map-type",
            Some(r#""granular""#),
        ),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.APIResource", "verbs", "x-kubernetes-list-type", NO),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", "type", "default", Some(r#""""#)),
    ] {
        check(&document, &["components", "schemas", name, "properties", property, key], expected);
    }
    let usages = ["properties", "usages", "items", "enum"];
    let document = v3("apis/certificates.k8s.io/v1", &NoDescriptions);
    let name = "io.k8s.api.certificates.v1.CertificateSigningRequestSpec";
    let spec = document.at(&["components", "schemas", name]).unwrap();
    assert!(text(spec.at(&usages).unwrap()).starts_with(r#"["any","cert sign","client auth","#));
}

#[test]
fn required_fields_are_in_the_order_of_declarations() {
    let document = v2();
    for (name, expected) in [
        ("io.k8s.api.core.v1.VolumeMount", r#"["name","mountPath"]"#),
        ("io.k8s.api.networking.v1.HTTPIngressPath", r#"["pathType","backend"]"#),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
            r#"["type","status","lastTransitionTime","reason","message"]"#,
        ),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference", r#"["apiVersion","kind","name","uid"]"#),
    ] {
        check(&document, &["definitions", name, "required"], Some(expected));
    }
}

#[test]
fn operations_are_upstreams() {
    let document = v2();
    let pods = "/api/v1/namespaces/{namespace}/pods";
    let pod = "/api/v1/namespaces/{namespace}/pods/{name}";
    let objects = r#"["application/json","application/yaml","application/vnd.kubernetes.protobuf"]"#;
    for (path, method, key, expected) in [
        (pods, "post", "produces", Some(objects)),
        (pods, "post", "consumes", Some(r#"["*/*"]"#)),
        ("/apis/apps/", "get", "consumes", Some(objects)),
        ("/openid/v1/jwks/", "get", "consumes", None),
        (
            pod,
            "patch",
            "consumes",
            Some(
                r#"["application/json-patch+json","application/merge-patch+json","application/strategic-merge-patch+json","application/apply-patch+yaml"]"#,
            ),
        ),
        (pod, "patch", "description", Some(r#""partially update the specified Pod""#)),
        (pods, "get", "description", Some(r#""list or watch objects of kind Pod""#)),
        ("/api/v1/namespaces/{namespace}/events", "post", "description", Some(r#""create an Event""#)),
        ("/api/v1/namespaces/{namespace}/endpoints", "post", "description", Some(r#""create Endpoints""#)),
    ] {
        check(&document, &["paths", path, method, key], expected);
    }
    let common = r##"[{"$ref":"#/parameters/namespace-vgWSWtn3"},{"$ref":"#/parameters/pretty-tJGM1-ng"}]"##;
    check(&document, &["paths", pods, "parameters"], Some(common));
    let first = |path: &str, method: &str| {
        let list = document.get("paths").unwrap().items_at(&[path, method, "parameters"]);
        list.first().map(text).unwrap_or_default()
    };
    assert_eq!(first(pods, "delete"), r##"{"$ref":"#/parameters/body-2Y1dVQaQ"}"##);
    assert_eq!(first(pod, "patch"), r##"{"$ref":"#/parameters/body-78PwaGsr"}"##);
    let delete = r##"{"in":"body","name":"body","schema":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"}}"##;
    check(&document, &["parameters", "body-2Y1dVQaQ"], Some(delete));
}

#[test]
fn shared_kinds_are_known_in_every_version_that_ever_was() {
    let document = v2();
    let place = [
        "definitions",
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        "x-kubernetes-group-version-kind",
    ];
    let kinds = document.at(&place).and_then(Value::as_array).unwrap();
    assert_eq!(kinds.len(), 62);
    assert_eq!(text(&kinds[1]), r#"{"group":"admission.k8s.io","kind":"DeleteOptions","version":"v1"}"#);
}
