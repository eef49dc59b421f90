//! Type checks in the status of policies.

use corten_e2e::eventually;
use corten_testkit::Server;
use serde_json::json;

use crate::{GROUP, policy, rule};

#[test]
fn type_checks_are_written_into_the_status() {
    let server = Server::start();
    let client = server.client();
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule("apps", "deployments")]},
        "validations": [{"expression": "object.spec.replicas > '1'"}, {"expression": "object.spec.replicas > 1"}],
    });
    client.post(format!("{GROUP}/validatingadmissionpolicies"), &policy("typed", &spec)).expect(201);
    let path = format!("{GROUP}/validatingadmissionpolicies/typed");
    eventually("it is checked", || client.get(path.clone()).json()["status"]["observedGeneration"] == 1);
    let status = client.get(path).expect(200)["status"].clone();
    let expected = "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n";
    assert_eq!(
        status["typeChecking"]["expressionWarnings"],
        json!([{"fieldRef": "spec.validations[0].expression", "warning": expected}])
    );
}
