use corten_api::{Value, json, value};
use corten_auth::authentication::service_account_token::{Issue, Reference};
use corten_store::{Expect, Op, Store};

use super::*;
use crate::catalog::RuntimeConfig;

fn options() -> AuthenticationOptions {
    let directory = tempfile::tempdir().unwrap();
    let sans = corten_pki::Sans::default();
    let pki =
        corten_pki::ServerPki::load_or_create(directory.path(), &sans, std::time::SystemTime::now()).unwrap();
    AuthenticationOptions::of(&pki).unwrap()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, http::HeaderValue::from_static(value));
    }
    headers
}

#[test]
fn headers_hold_one_token() {
    let token = |header: &'static str| match Bearer::of(header) {
        Bearer::Nothing => "nothing",
        Bearer::Spaced => "spaced",
        Bearer::Token(token) => token,
    };
    assert_eq!(token("Bearer abc"), "abc");
    assert_eq!(token(" bEARER abc def "), "abc");
    assert_eq!(token("Bearer  abc"), "spaced");
    for other in ["", "Bearer", "Bearer ", "Basic abc", "abc", "Bearer\tabc", "Bearerabc x"] {
        assert_eq!(token(other), "nothing", "{other:?}");
    }
}

#[test]
fn credentials_are_removed_from_headers() {
    let authentication = Authentication::new(options());
    let sent = headers(&[
        ("authorization", "Bearer abc"),
        ("x-remote-user", "jane"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-a", "b"),
        ("x-remote-uid", "7"),
        ("user-agent", "test"),
    ]);
    let kept = authentication.without_credentials(&sent);
    assert_eq!(kept.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["user-agent"]);
}

/// The user of a request with a certificate and no token, if there is one.
#[track_caller]
fn user(certificate: &Certificate, pairs: &[(&'static str, &'static str)]) -> Option<Arc<User>> {
    let authentication = Authentication::new(options());
    let headers = headers(pairs);
    authentication.certified(certificate, &headers, Timestamp::now())
}

#[test]
fn only_front_proxies_may_name_another_user() {
    let jane = Arc::new(User { name: "jane".into(), ..User::default() });
    let client = Certificate { user: Some(jane), is_proxy: false, expires: Timestamp::MAX };
    let spoken = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];
    assert_eq!(user(&client, &spoken).unwrap().name, "jane");
    assert!(user(&Certificate::invalid(), &spoken).is_none());
    let proxy = Certificate { is_proxy: true, ..Certificate::invalid() };
    let root = user(&proxy, &spoken).unwrap();
    assert_eq!(
        (root.name.as_str(), root.groups.join(",")),
        ("root", "system:masters,system:authenticated".into())
    );
    assert!(user(&proxy, &[]).is_none());
    let anonymous = user(&proxy, &[("x-remote-user", ANONYMOUS)]).unwrap();
    assert!(anonymous.groups.is_empty());
    let expired = Certificate { expires: Timestamp::now(), ..proxy };
    assert!(user(&expired, &spoken).is_none());
    let expired = Certificate { expires: Timestamp::now(), ..client };
    assert!(user(&expired, &[]).is_none());
}

async fn put(store: &Store, key: &str, object: &Value) {
    let value = json::write_to_string(object).into_bytes().into();
    let op = Op::Put { key: key.into(), expect: Expect::Any, value, lease: None };
    store.commit(op.into()).await.unwrap();
}

#[tokio::test]
async fn a_cached_token_is_invalid_once_its_pod_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), corten_store::Options::default()).unwrap();
    let catalog = Catalog::load(&store, &RuntimeConfig::default(), false);
    let account = value!({"metadata": {"namespace": "n", "name": "a", "uid": "u"}});
    let pod = value!({"metadata": {"namespace": "n", "name": "p", "uid": "v"}});
    put(&store, "/registry/serviceaccounts/n/a", &account).await;
    put(&store, "/registry/pods/n/p", &pod).await;
    let authentication = Authentication::new(options());
    let issuer = &authentication.issuer;
    let issue = Issue {
        issuer: &issuer.name,
        account: &account,
        secret: None,
        pod: Some(Reference::to(&pod)),
        node: None,
        audiences: &issuer.audiences,
        id: "j",
        now: Timestamp::now(),
        lifetime: 3600,
        warn_after: None,
    };
    let header = format!("Bearer {}", issuer.key.token(&issue.claims()).unwrap());
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, header.parse().unwrap());
    let user =
        || authentication.authenticate(&catalog, &Peer::NoCertificate, &headers, "/", Timestamp::now()).0;
    for _ in 0..2 {
        assert_eq!(user().unwrap().name, "system:serviceaccount:n:a");
    }
    let mut changed = pod.clone();
    changed.set(&["metadata", "labels", "a"], "b");
    put(&store, "/registry/pods/n/p", &changed).await;
    assert!(user().is_ok());
    changed.set(&["metadata", "uid"], "w");
    put(&store, "/registry/pods/n/p", &changed).await;
    assert_eq!(user().unwrap_err().code, 401);
    put(&store, "/registry/pods/n/p", &pod).await;
    assert!(user().is_ok());
    changed = pod.clone();
    changed.set(&["metadata", "deletionTimestamp"], "2024-01-01T00:00:00Z");
    put(&store, "/registry/pods/n/p", &changed).await;
    assert_eq!(user().unwrap_err().code, 401);
}
