use super::super::AuthorizationModes;
use super::*;
use corten_store::{Expect, Op, Options, Store};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The rules of each user: a cluster role and a binding of the user's name.
const RULES: [(&str, &str); 5] = [
    (
        "helpdesk",
        r#"{"verbs":["impersonate"],"apiGroups":[""],"resources":["users"],"resourceNames":["bob"]}"#,
    ),
    (
        "deputy",
        r#"{"verbs":["impersonate"],"apiGroups":["","authentication.k8s.io"],"resources":["users","groups","serviceaccounts","uids","userextras/acme.io/scope"]}"#,
    ),
    (
        "narrow",
        r#"{"verbs":["impersonate:user-info"],"apiGroups":["authentication.k8s.io"],"resources":["users","groups"]},{"verbs":["impersonate-on:user-info:list"],"apiGroups":[""],"resources":["pods"]}"#,
    ),
    (
        "noded",
        r#"{"verbs":["impersonate:arbitrary-node"],"apiGroups":["authentication.k8s.io"],"resources":["nodes"]},{"verbs":["impersonate-on:arbitrary-node:list"],"apiGroups":[""],"resources":["pods"]}"#,
    ),
    (
        "system:serviceaccount:kube-system:agent",
        r#"{"verbs":["impersonate:associated-node"],"apiGroups":["authentication.k8s.io"],"resources":["nodes"]},{"verbs":["impersonate-on:associated-node:list"],"apiGroups":[""],"resources":["pods"]}"#,
    ),
];

async fn authorizer(directory: &std::path::Path) -> Authorizer {
    let store = Store::open(directory, Options::default()).unwrap();
    let authorizer = Authorizer::start(AuthorizationModes::parse("Node,RBAC").unwrap(), &store);
    for (user, rules) in RULES {
        let role = format!(r#"{{"metadata":{{"name":"{user}"}},"rules":[{rules}]}}"#);
        let subject = format!(r#"{{"kind":"User","name":"{user}"}}"#);
        let binding = format!(
            r#"{{"metadata":{{"name":"{user}"}},"roleRef":{{"kind":"ClusterRole","name":"{user}"}},"subjects":[{subject}]}}"#
        );
        for (kind, text) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let key = format!("/registry/{kind}/{user}").into();
            let (expect, value, lease) = (Expect::Any, text.into_bytes().into(), None);
            store.commit(Op::Put { key, expect, value, lease }.into()).await.unwrap();
        }
    }
    authorizer
}

fn headers(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.split(", ").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').unwrap();
        let name = HeaderName::from_bytes(format!("impersonate-{name}").as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn requestor(name: &str) -> User {
    let mut user = User { name: name.into(), groups: vec![AUTHENTICATED.into()], ..User::default() };
    if name.ends_with(":agent") {
        user.extra.insert(NODE_NAME.into(), vec!["n1".into()]);
    }
    user
}

/// The impersonated user of a pod list with these headers, or the error.
fn outcome(authorizer: &Authorizer, who: &str, text: &str) -> String {
    let user = requestor(who);
    let asked = Attributes { namespace: "ns", ..Attributes::resource(&user, "list", "", "pods") };
    match impersonate(authorizer, &headers(text), &asked) {
        Ok(None) => "themselves".to_owned(),
        Ok(Some(user)) => format!("{} {:?} {} {:?}", user.name, user.groups, user.uid, user.extra),
        Err(status) => format!("{} {}", status.code, status.message),
    }
}

#[tokio::test]
async fn plain_impersonation_needs_a_right_to_each_part() {
    let directory = tempfile::tempdir().unwrap();
    let authorizer = authorizer(directory.path()).await;
    for (who, text, expected) in [
        ("jane", "", "themselves"),
        ("jane", "user=", "themselves"),
        ("helpdesk", "user=bob", r#"bob ["system:authenticated"]  {}"#),
        (
            "jane",
            "user=bob",
            r#"403 pods is forbidden: User "jane" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "ns""#,
        ),
        (
            "helpdesk",
            "user=bob, group=system:masters",
            r#"403 groups "system:masters" is forbidden: User "helpdesk" cannot impersonate resource "groups" in API group "" at the cluster scope"#,
        ),
        ("deputy", "user=bob, group=devs, group=ops", r#"bob ["devs", "ops", "system:authenticated"]  {}"#),
        (
            "deputy",
            "user=bob, uid=7, extra-acme.io%2fscope=a",
            r#"bob ["system:authenticated"] 7 {"acme.io/scope": ["a"]}"#,
        ),
        ("deputy", "user=system:anonymous", r#"system:anonymous ["system:unauthenticated"]  {}"#),
        ("deputy", "user=bob, group=system:unauthenticated", r#"bob ["system:unauthenticated"]  {}"#),
        (
            "deputy",
            "user=system:serviceaccount:ns:bot",
            r#"system:serviceaccount:ns:bot ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]  {}"#,
        ),
    ] {
        assert_eq!(outcome(&authorizer, who, text), expected, "{who} {text}");
    }
}

#[tokio::test]
async fn constrained_impersonation_is_for_one_purpose() {
    let directory = tempfile::tempdir().unwrap();
    let authorizer = authorizer(directory.path()).await;
    let agent = "system:serviceaccount:kube-system:agent";
    for (who, text, expected) in [
        ("narrow", "user=bob, group=devs", r#"bob ["devs", "system:authenticated"]  {}"#),
        (
            "narrow",
            "user=bob, group=system:masters",
            r#"403 groups.authentication.k8s.io "system:masters" is forbidden: User "narrow" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#,
        ),
        ("noded", "user=system:node:n9", r#"system:node:n9 ["system:nodes", "system:authenticated"]  {}"#),
        (agent, "user=system:node:n1", r#"system:node:n1 ["system:nodes", "system:authenticated"]  {}"#),
    ] {
        assert_eq!(outcome(&authorizer, who, text), expected, "{who} {text}");
    }
    for (who, text) in [
        (agent, "user=system:node:n2"),
        (agent, "user=bob"),
        ("noded", "user=bob"),
        ("noded", "user=system:node:n9, group=system:masters"),
        ("narrow", "user=system:node:n1"),
        ("narrow", "user=system:serviceaccount:ns:bot"),
        ("jane", "user=jane"),
    ] {
        assert!(outcome(&authorizer, who, text).starts_with("403 "), "{who} {text}");
    }
    let user = requestor("narrow");
    let other = Attributes { namespace: "ns", ..Attributes::resource(&user, "delete", "", "pods") };
    assert!(impersonate(&authorizer, &headers("user=bob"), &other).is_err(), "only to list");
}

#[test]
fn impersonation_headers_require_a_user() {
    let refused = wanted(&headers("group=g, extra-a=b, extra-a=c")).unwrap_err();
    assert_eq!(
        refused.message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, Extra:map[string][]string{\"a\":[]string{\"b\", \"c\"}}} without impersonating a user name"
    );
    let refused = wanted(&headers("uid=1")).unwrap_err();
    assert_eq!(
        refused.message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"1\", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name"
    );
    let mut odd = HeaderMap::new();
    odd.insert("impersonate-user", HeaderValue::from_bytes(b"\xff").unwrap());
    assert!(wanted(&odd).unwrap().is_some(), "what is not text is not nothing");
}

#[test]
fn the_remote_address_cannot_be_impersonated() {
    for key in ["corten.dev/remote-address", "corten.dev%2fremote-address", "corten.dev%2Fremote%2daddress"] {
        let mut headers = headers("user=system:node:n1, group=system:nodes");
        let name = format!("impersonate-extra-{key}").to_ascii_lowercase();
        // A header's name cannot contain a slash.
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        headers.append(name, HeaderValue::from_static("192.0.2.1"));
        assert!(wanted(&headers).is_err_and(|refused| refused.code == 400), "{key}");
    }
    assert!(wanted(&headers("user=system:node:n1, extra-acme.io%2fscope=a")).is_ok());
}
