//! Claims of devices: what a namespace's label, and permissions besides those of the claim, are required for.

use corten_testkit::{Request, Response, Server};
use serde_json::{Value, json};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

fn claim(name: &str, exactly: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    })
}

fn admin_claim() -> Value {
    claim("admin", &json!({"deviceClassName": "c", "adminAccess": true}))
}

#[test]
fn admin_access_requires_the_label_of_the_namespace() {
    let server = Server::start();
    let client = server.client();
    let label = "`resource.kubernetes.io/admin-access: true` label on the containing namespace";
    let message = client.post(CLAIMS, &admin_claim()).expect_failure(422, "Invalid");
    assert_eq!(
        message,
        format!(
            "ResourceClaim.resource.k8s.io \"admin\" is invalid: spec.devices.requests[0].adminAccess: Forbidden: admin access to \
             devices requires the {label}"
        )
    );
    let template = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "admin"},
        "spec": {"spec": admin_claim()["spec"]},
    });
    let templates = CLAIMS.replace("resourceclaims", "resourceclaimtemplates");
    let message = client.post(&templates, &template).expect_failure(422, "Invalid");
    assert!(message.ends_with(label), "{message}");

    // Nor does an allocation give it.
    client.post(CLAIMS, &claim("plain", &json!({"deviceClassName": "c"}))).expect(201);
    let message = allocate(&server, None, true).expect_failure(422, "Invalid");
    assert!(message.contains("status.allocation.devices.results[0].adminAccess: Forbidden"), "{message}");

    let labeled = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    client.patch("/api/v1/namespaces/default", "merge", &labeled).expect(200);
    client.post(CLAIMS, &admin_claim()).expect(201);
    client.post(&templates, &template).expect(201);
    allocate(&server, None, true).expect(200);
}

#[test]
fn allocations_and_reports_of_drivers_require_permissions_of_their_own() {
    let server = Server::start();
    let client = server.client();
    client.post(CLAIMS, &claim("plain", &json!({"deviceClassName": "c"}))).expect(201);
    let grant = |name: &str, rules: Value| {
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        let path = format!("/apis/{version}");
        let role =
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        client.post(format!("{path}/clusterroles"), &role).expect(201);
        let binding = json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "driver"}],
        });
        client.post(format!("{path}/clusterrolebindings"), &binding).expect(201);
    };
    let rule = |resource: &str, verbs: &[&str]| json!([{"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs}]);

    grant("status", rule("resourceclaims/status", &["update", "patch"]));
    let message = allocate(&server, Some("driver"), false).expect_failure(422, "Invalid");
    assert!(
        message.contains(
            "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires \
             resource=\"resourceclaims/binding\", verb=\"update\" permission: resourceclaims.resource.k8s.io is forbidden: User \
             \"driver\" cannot update resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope"
        ),
        "{message}"
    );
    grant("binding", rule("resourceclaims/binding", &["update"]));
    allocate(&server, Some("driver"), false).expect(200);

    let device = json!({"driver": "driver.example.com", "pool": "p", "device": "d", "data": {"a": 1}});
    let report = || {
        let patch = json!({"status": {"devices": [device]}});
        let request = Request::new("PATCH", format!("{CLAIMS}/plain/status"))
            .body("application/merge-patch+json", patch.to_string())
            .header("impersonate-user", "driver");
        client.send(&request)
    };
    let message = report().expect_failure(422, "Invalid");
    assert!(
        message.contains(
            "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
             verb=\"[arbitrary-node:patch]\" permission: resourceclaims.resource.k8s.io \"driver.example.com\" is forbidden"
        ),
        "{message}"
    );
    grant("driver", rule("resourceclaims/driver", &["arbitrary-node:patch"]));
    report().expect(200);
}

/// Allocates a device to the claim `plain`, as another user if one is given.
fn allocate(server: &Server, user: Option<&str>, admin: bool) -> Response {
    let path = format!("{CLAIMS}/plain");
    let client = server.client();
    let mut claim = client.get(&path).expect(200);
    let mut result = json!({"request": "r", "driver": "driver.example.com", "pool": "p", "device": "d"});
    if admin {
        result["adminAccess"] = true.into();
    }
    claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
    let mut request = Request::new("PUT", format!("{path}/status")).json(&claim);
    if let Some(user) = user {
        request = request.header("impersonate-user", user);
    }
    client.send(&request)
}
