//! Authorization: roles, nodes, impersonation, escalation, and paths that try to look like others.

use corten_testkit::{Client, Request, Response, Server, Tool};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A user that the administrator impersonates.
struct As<'a> {
    client: &'a Client,
    user: &'a str,
    groups: &'a [&'a str],
}

impl As<'_> {
    fn send(&self, request: Request) -> Response {
        let request = request.header("impersonate-user", self.user);
        let request = self.groups.iter().fold(request, |r, group| r.header("impersonate-group", group));
        self.client.send(&request)
    }

    fn get(&self, path: &str) -> Response {
        self.send(Request::new("GET", path))
    }

    fn post(&self, path: &str, body: &Value) -> Response {
        self.send(Request::new("POST", path).json(body))
    }
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

fn role(kind: &str, name: &str, rules: &[Value]) -> Value {
    json!({"kind": kind, "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, name: &str, role_kind: &str, role: &str, user: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "kind": kind,
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    })
}

/// Grants a user rules in the whole cluster.
fn grant(server: &Server, user: &str, rules: &[Value]) {
    let client = server.client();
    client.post(format!("{RBAC}/clusterroles"), &role("ClusterRole", user, rules)).expect(201);
    let bound = binding("ClusterRoleBinding", user, "ClusterRole", user, user);
    client.post(format!("{RBAC}/clusterrolebindings"), &bound).expect(201);
}

#[test]
fn a_role_is_in_force_when_its_write_returns() {
    let server = Server::start();
    let client = server.client();
    let jane = As { client, user: "jane", groups: &[] };
    let pods = "/api/v1/namespaces/default/pods";
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let refusal = jane.get(pods).expect_failure(403, "Forbidden");
    assert_eq!(
        refusal,
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    client.post(&bindings, &binding("RoleBinding", "b", "Role", "reader", "jane")).expect(201);
    let refusal = jane.get(pods).expect_failure(403, "Forbidden");
    assert!(
        refusal.ends_with("rbac: RBAC: role.rbac.authorization.k8s.io \"reader\" not found"),
        "{refusal}"
    );
    let reader = role("Role", "reader", &[rule(&["list"], "", &["pods"])]);
    client.post(format!("{RBAC}/namespaces/default/roles"), &reader).expect(201);
    jane.get(pods).expect(200);
    jane.get("/api/v1/pods").expect_failure(403, "Forbidden");
    client.delete(format!("{bindings}/b")).expect(200);
    jane.get(pods).expect_failure(403, "Forbidden");
}

#[test]
fn the_bootstrap_policy_is_repaired_at_start_and_left_alone_otherwise() {
    // The role for metrics is aggregated into others shortly after the start.
    let parts = "--disable=agent,controller-manager,dns,metrics-server,scheduler";
    let mut server = Server::start_with(&[parts]);
    let roles = |server: &Server| {
        let own = "labelSelector=kubernetes.io/bootstrapping";
        let mut list = server.client().get(format!("{RBAC}/clusterroles?{own}")).expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), 73);
        list["items"].take()
    };
    let before = roles(&server);
    server.restart();
    assert_eq!(roles(&server), before, "nothing was written");
    let client = server.client();
    client.delete(format!("{RBAC}/clusterroles/view")).expect(200);
    let mut basic = client.get(format!("{RBAC}/clusterrolebindings/system:basic-user")).expect(200);
    basic["subjects"] = json!([]);
    client.put(format!("{RBAC}/clusterrolebindings/system:basic-user"), &basic).expect(200);
    let mut kept = client.get(format!("{RBAC}/clusterroles/system:discovery")).expect(200);
    kept["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = json!("false");
    kept["rules"] = json!([]);
    client.put(format!("{RBAC}/clusterroles/system:discovery"), &kept).expect(200);
    server.restart();
    let client = server.client();
    let view = client.get(format!("{RBAC}/clusterroles/view")).expect(200);
    assert!(view["rules"].as_array().unwrap().len() > 5, "{view}");
    assert_eq!(view["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
    let basic = client.get(format!("{RBAC}/clusterrolebindings/system:basic-user")).expect(200);
    assert_eq!(basic["subjects"][0]["name"], "system:authenticated");
    let kept = client.get(format!("{RBAC}/clusterroles/system:discovery")).expect(200);
    assert!(kept["rules"].as_array().is_none_or(Vec::is_empty), "{kept}");
}

#[test]
fn no_user_grants_more_than_they_have() {
    let server = Server::start();
    let own = rule(&["get", "list"], "", &["pods"]);
    let all = ["create", "update", "patch", "get"];
    let roles = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    grant(&server, "rita", &[own.clone(), rule(&all, "rbac.authorization.k8s.io", &roles)]);
    let rita = As { client: server.client(), user: "rita", groups: &[] };
    let (cluster_roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    rita.post(&cluster_roles, &role("ClusterRole", "same", std::slice::from_ref(&own))).expect(201);
    let more = role("ClusterRole", "more", &[rule(&["get", "delete", "watch"], "", &["pods", "secrets"])]);
    let refusal = rita.post(&cluster_roles, &more).expect_failure(403, "Forbidden");
    assert_eq!(
        refusal,
        "clusterroles.rbac.authorization.k8s.io \"more\" is forbidden: user \"rita\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\" \"watch\"]}"
    );
    let mut same = rita.get(&format!("{cluster_roles}/same")).expect(200);
    same["rules"][0]["verbs"] = json!(["*"]);
    let one = format!("{cluster_roles}/same");
    rita.send(Request::new("PUT", &one).json(&same)).expect_failure(403, "Forbidden");
    let patch = json!([{"op": "add", "path": "/rules/0/verbs/-", "value": "delete"}]).to_string();
    let patched = rita.send(Request::new("PATCH", &one).body("application/json-patch+json", patch));
    patched.expect_failure(403, "Forbidden");
    let applied = |name: &str, rule: &Value| {
        let body = role("ClusterRole", name, std::slice::from_ref(rule)).to_string();
        let path = format!("{cluster_roles}/{name}?fieldManager=m&force=true");
        rita.send(Request::new("PATCH", path).body("application/apply-patch+yaml", body))
    };
    applied("same", &rule(&["*"], "", &["pods"])).expect_failure(403, "Forbidden");
    applied("fresh", &rule(&["*"], "", &["pods"])).expect_failure(403, "Forbidden");
    applied("fresh", &own).expect(201);
    let mut gathering = role("ClusterRole", "gathering", &[]);
    gathering["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let refusal = rita.post(&cluster_roles, &gathering).expect_failure(403, "Forbidden");
    assert!(refusal.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{refusal}");
    let to_all = binding("ClusterRoleBinding", "mine", "ClusterRole", "cluster-admin", "rita");
    rita.post(&bindings, &to_all).expect_failure(403, "Forbidden");
    let to_none = binding("ClusterRoleBinding", "mine", "ClusterRole", "nowhere", "rita");
    let refusal = rita.post(&bindings, &to_none).expect_failure(404, "NotFound");
    assert_eq!(refusal, "clusterrolebindings.rbac.authorization.k8s.io \"nowhere\" not found");
    rita.post(&bindings, &binding("ClusterRoleBinding", "mine", "ClusterRole", "same", "rita")).expect(201);
    let local = format!("{RBAC}/namespaces/default/rolebindings");
    let admin = binding("RoleBinding", "mine", "ClusterRole", "admin", "rita");
    rita.post(&local, &admin).expect_failure(403, "Forbidden");
}

#[test]
fn escalate_and_bind_are_rights_of_their_own() {
    let server = Server::start();
    let write = |resource| rule(&["create", "update"], "rbac.authorization.k8s.io", &[resource]);
    let escalate = rule(&["escalate"], "rbac.authorization.k8s.io", &["clusterroles"]);
    grant(&server, "eve", &[write("clusterroles"), escalate]);
    let bind = rule(&["bind"], "rbac.authorization.k8s.io", &["clusterroles"]);
    grant(&server, "bo", &[write("clusterrolebindings"), bind]);
    let everything = rule(&["*"], "*", &["*"]);
    let eve = As { client: server.client(), user: "eve", groups: &[] };
    eve.post(&format!("{RBAC}/clusterroles"), &role("ClusterRole", "all", &[everything])).expect(201);
    let bo = As { client: server.client(), user: "bo", groups: &[] };
    let mine = binding("ClusterRoleBinding", "mine", "ClusterRole", "all", "bo");
    bo.post(&format!("{RBAC}/clusterrolebindings"), &mine).expect(201);
    bo.get("/api/v1/secrets").expect(200);
}

#[test]
fn impersonation_needs_permission() {
    let server = Server::start();
    let who = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let bot = As { client: server.client(), user: "system:serviceaccount:default:bot", groups: &[] };
    let seen = bot.post(reviews, &who).expect(201);
    assert_eq!(
        seen["status"]["userInfo"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let request = Request::new("POST", reviews).json(&who).header("impersonate-group", "system:masters");
    let refusal = server.client().send(&request).expect_failure(400, "BadRequest");
    assert!(refusal.ends_with("without impersonating a user name"), "{refusal}");
    // A user without roles cannot impersonate another.
    let leaf = leaf(&server, "jane");
    let jane =
        server.client_as(corten_testkit::Identity::Certificate { cert_pem: &leaf.0, key_pem: &leaf.1 });
    for (user, group) in [("admin", "system:masters"), ("system:node:n1", "system:nodes"), ("jane", "x")] {
        let request = Request::new("GET", "/api/v1/secrets")
            .header("impersonate-user", user)
            .header("impersonate-group", group);
        jane.send(&request).expect_failure(403, "Forbidden");
    }
}

/// Certificate and key of a user, signed by the server's own CA.
fn leaf(server: &Server, user: &str) -> (String, String) {
    use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
    let now = std::time::SystemTime::now();
    let directory = server.directory().path().join("pki");
    let authority =
        Authority::load_or_create(&directory, "ca", "kubernetes-ca", now).expect("the server's authority");
    let request = LeafRequest {
        common_name: user.to_owned(),
        organization: None,
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    let leaf = authority.issue(&request, now).expect("a certificate");
    (leaf.cert_pem, leaf.key_pem)
}

#[test]
fn a_node_reads_what_its_pods_need() {
    let server = Server::start();
    let client = server.client();
    let node = |name| As { client, user: name, groups: &["system:nodes"] };
    let (n1, n2) = (node("system:node:n1"), node("system:node:n2"));
    let secrets = "/api/v1/namespaces/default/secrets";
    for name in ["mine", "other"] {
        let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}});
        client.post(secrets, &secret).expect(201);
    }
    let refusal = n1.get(&format!("{secrets}/mine")).expect_failure(403, "Forbidden");
    assert_eq!(
        refusal,
        "secrets \"mine\" is forbidden: User \"system:node:n1\" cannot get resource \"secrets\" in API group \"\" in the namespace \"default\": node: no relationship found between node 'n1' and this object"
    );
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "bot"}});
    client.post("/api/v1/namespaces/default/serviceaccounts", &account).expect(201);
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"},
        "spec": {
            "nodeName": "n1",
            "serviceAccountName": "bot",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "mine"}}],
        },
    });
    client.post("/api/v1/namespaces/default/pods", &pod).expect(201);
    n1.get(&format!("{secrets}/mine")).expect(200);
    n1.get(&format!("{secrets}?fieldSelector=metadata.name%3Dmine")).expect(200);
    n1.get(&format!("{secrets}/other")).expect_failure(403, "Forbidden");
    n1.get(secrets).expect_failure(403, "Forbidden");
    n2.get(&format!("{secrets}/mine")).expect_failure(403, "Forbidden");
    n1.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").expect(200);
    n1.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn2").expect_failure(403, "Forbidden");
    n1.get("/api/v1/nodes/n2").expect_failure(403, "Forbidden");
    client.delete("/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0").expect(200);
    n1.get(&format!("{secrets}/mine")).expect_failure(403, "Forbidden");
}

#[test]
fn disguised_paths_are_refused() {
    let server = Server::start();
    grant(&server, "pia", &[rule(&["get", "list"], "", &["pods"])]);
    let pia = As { client: server.client(), user: "pia", groups: &[] };
    for path in [
        "/api/v1/namespaces/default/pods/../secrets",
        "/api/v1/namespaces/default/pods/%2e%2e/secrets",
        "/api/v1/namespaces/default/pods%2F..%2Fsecrets",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/secrets/",
        "/api/v1/namespaces/default/%73ecrets",
        "/api/v1/namespaces/default%2Fsecrets",
        "//api/v1/namespaces/default/secrets",
        "/api/v1//namespaces/default/secrets",
        "/api/v1/namespaces/default/Secrets",
        "/api/v1/secrets?resource=pods",
        "/api/v1/watch/secrets",
        "/api/v1/proxy/namespaces/default/pods/x",
        "/api/v1/namespaces/default/pods/x/log",
        "/metrics",
        "/healthz/../metrics",
        "/%6detrics",
    ] {
        pia.get(path).expect_failure(403, "Forbidden");
    }
    for (path, status) in [
        ("/api/v1/namespaces/default/pods", 200),
        ("/api/v1/namespaces/default/pods/", 200),
        ("/api/v1/namespaces/default%2Fpods", 200),
        ("/%61pi/v1/pods", 200),
        ("//api/v1/pods", 404),
        ("/api/v1/namespaces/default/pods/x/../y", 404),
        ("/api/v1/pods/%zz", 400),
        ("/api/v1/watch", 500),
    ] {
        let found = pia.get(path).status;
        assert!(found == status || (status == 404 && found == 403), "{path}: {found}");
    }
    let watched = Request::new("DELETE", "/api/v1/watch/namespaces/default/pods/x");
    server.client().send(&watched).expect_failure(405, "MethodNotAllowed");
}

#[test]
fn modes_are_asked_in_order() {
    let open = Server::start_with(&["--authorization-mode", "AlwaysAllow"]);
    As { client: open.client(), user: "jane", groups: &[] }.get("/api/v1/secrets").expect(200);
    let closed = Server::start_with(&["--authorization-mode=AlwaysDeny"]);
    let refusal = As { client: closed.client(), user: "jane", groups: &[] }.get("/version");
    let message = refusal.expect_failure(403, "Forbidden");
    assert!(message.ends_with(": alwaysdeny: Everything is forbidden."), "{message}");
    closed.client().get("/api/v1/secrets").expect(200);
    let directory = corten_testkit::DataDirectory::new();
    let refused = Server::try_start(&directory, &["--authorization-mode", "ABAC"]).err().expect("a refusal");
    assert!(refused.messages.contains("ABAC is not supported yet"), "{}", refused.messages);
}

#[test]
fn access_reviews_report_the_decision_and_its_reason() {
    let server = Server::start();
    let ask = |spec: Value| {
        let review =
            json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec});
        server.client().post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).expect(201)
    };
    let answer = ask(json!({
        "user": "jane", "groups": ["system:authenticated"],
        "nonResourceAttributes": {"path": "/api", "verb": "get"},
    }));
    assert_eq!(
        answer["status"],
        json!({
            "allowed": true,
            "reason": "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\"",
        })
    );
    assert_eq!(answer["metadata"]["managedFields"][0]["operation"], "Update");
    let answer = ask(json!({
        "user": "system:node:n", "groups": ["system:nodes"],
        "resourceAttributes": {
            "verb": "list", "resource": "pods",
            "fieldSelector": {"requirements": [
                {"key": "a", "operator": "Exists"},
                {"key": "spec.nodeName", "operator": "In", "values": ["n"]},
            ]},
            "labelSelector": {"rawSelector": "=,"},
        },
    }));
    assert_eq!(
        answer["status"],
        json!({
            "allowed": true,
            "evaluationError": "spec.resourceAttributes.fieldSelector partially ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error",
        })
    );
    let local = json!({
        "kind": "LocalSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "spec": {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}},
    });
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    let refusal = server.client().post(path, &local).expect_failure(422, "Invalid");
    assert!(refusal.ends_with("Invalid value: \"other\": must match metadata.namespace"), "{refusal}");
    let rules = json!({
        "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"namespace": "default"},
    });
    let node = As { client: server.client(), user: "system:node:n", groups: &["system:nodes"] };
    let answer = node.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).expect(201);
    assert_eq!(answer["status"]["incomplete"], true);
    assert_eq!(answer["status"]["evaluationError"], "node authorizer does not support user rule resolution");
    assert_eq!((&answer["spec"], &answer["metadata"]), (&json!({}), &json!({})));
}

#[test]
fn kubectl_auth_can_i() {
    let server = Server::start();
    let kubectl = Tool::new("kubectl", &server);
    let run = |command: &str| kubectl.run(&command.split_whitespace().collect::<Vec<_>>());
    run("create rolebinding ed --clusterrole=edit --user=ed").ok();
    assert_eq!(run("auth can-i create deployments --as ed").ok().trim(), "yes");
    assert_eq!(run("auth can-i create deployments --as ed -n kube-system").exited(1).trim(), "no");
    assert_eq!(run("auth can-i create rolebindings --as ed").exited(1).trim(), "no");
    assert_eq!(run("auth can-i * * --as jane --as-group system:masters").ok().trim(), "yes");
    let listed = run("auth can-i --list --as ed").ok();
    for expected in
        ["deployments.apps", "selfsubjectaccessreviews.authorization.k8s.io", "[/api/*]", "secrets"]
    {
        assert!(listed.contains(expected), "{expected} is not in\n{listed}");
    }
    let refusal = run("get secrets -A --as ed").exited(1);
    assert_eq!(refusal, "");
    assert_eq!(run("get pods --as ed").ok(), "");
    run("create clusterrole more --verb=get --resource=pods").ok();
}

#[test]
fn applying_or_updating_an_object_that_does_not_exist_needs_the_verb_create() {
    let server = Server::start();
    let client = server.client();
    grant(&server, "patcher", &[rule(&["get", "patch"], "", &["configmaps"])]);
    grant(&server, "updater", &[rule(&["get", "update"], "coordination.k8s.io", &["leases"])]);
    let patcher = As { client, user: "patcher", groups: &[] };
    let path = "/api/v1/namespaces/default/configmaps/c";
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    let apply = || {
        let request = Request::new("PATCH", format!("{path}?fieldManager=m&force=true"));
        patcher.send(request.body("application/apply-patch+yaml", applied.to_string()))
    };
    let refusal = apply().expect_failure(403, "Forbidden");
    assert!(refusal.contains("User \"patcher\" cannot create resource \"configmaps\""), "{refusal}");
    client.get(path).expect_failure(404, "NotFound");
    client.post("/api/v1/namespaces/default/configmaps", &applied).expect(201);
    apply().expect(200);

    let updater = As { client, user: "updater", groups: &[] };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
    let update = updater.send(Request::new("PUT", format!("{leases}/l")).json(&lease));
    let refusal = update.expect_failure(403, "Forbidden");
    assert!(refusal.contains("User \"updater\" cannot create resource \"leases\""), "{refusal}");
    client.put(format!("{leases}/l"), &lease).expect(201);
}

#[test]
fn policies_name_only_parameters_that_their_authors_may_read() {
    let server = Server::start();
    let client = server.client();
    let group = "admissionregistration.k8s.io";
    let resources = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
    grant(&server, "author", &[rule(&["create", "get", "update"], group, &resources)]);
    let author = As { client, user: "author", groups: &[] };
    let api = format!("/apis/{group}/v1");
    let policy = |name: &str, params: Value| {
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "paramKind": params,
                "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
                "validations": [{"expression": "false", "messageExpression": "string(params.data.a)"}],
            },
        })
    };
    let binding = |name: &str| {
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {
                "policyName": "p", "validationActions": ["Deny"],
                "paramRef": {"name": "top", "namespace": "kube-system", "parameterNotFoundAction": "Deny"},
            },
        })
    };
    let secrets = json!({"apiVersion": "v1", "kind": "Secret"});
    let refusal = author.post(&format!("{api}/{}", resources[0]), &policy("p", secrets.clone()));
    let refusal = refusal.expect_failure(422, "Invalid");
    assert!(
        refusal.contains("must have \"get\" permission on all objects of the referenced paramKind"),
        "{refusal}"
    );
    client.post(format!("{api}/{}", resources[0]), &policy("p", secrets)).expect(201);
    let refusal = author.post(&format!("{api}/{}", resources[1]), &binding("b"));
    let refusal = refusal.expect_failure(422, "Invalid");
    assert!(
        refusal.contains("does not have \"get\" permission on the object referenced by paramRef"),
        "{refusal}"
    );
    grant(&server, "reader", &[rule(&["get"], "", &["secrets"]), rule(&["create"], group, &resources)]);
    let reader = As { client, user: "reader", groups: &[] };
    reader.post(&format!("{api}/{}", resources[1]), &binding("c")).expect(201);
}
