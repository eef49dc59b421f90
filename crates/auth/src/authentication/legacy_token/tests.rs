use corten_api::value;

use super::*;

const TOKEN: &str = "the token";

fn claims() -> Value {
    value!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:n:a",
        "kubernetes.io/serviceaccount/namespace": "n",
        "kubernetes.io/serviceaccount/secret.name": "s",
        "kubernetes.io/serviceaccount/service-account.name": "a",
        "kubernetes.io/serviceaccount/service-account.uid": "u"
    })
}

fn read(claims: &Value) -> Result<Claims, Refusal> {
    Claims::read(claims, &Registered::read(claims)?)
}

fn secret() -> Value {
    let data = STANDARD.encode(TOKEN);
    value!({"metadata": {"name": "s"}, "data": {"token": data}})
}

fn account() -> Value {
    value!({"metadata": {"name": "a", "uid": "u"}})
}

fn check(secret: Option<&Value>, account: Option<&Value>) -> Result<Accepted, String> {
    read(&claims()).unwrap().check(TOKEN, secret, account).map_err(|refusal| refusal.to_string())
}

#[test]
fn incomplete_claims_are_refused() {
    for (claim, name) in [
        ("sub", "sub"),
        ("kubernetes.io/serviceaccount/namespace", "namespace"),
        ("kubernetes.io/serviceaccount/secret.name", "secretName"),
        ("kubernetes.io/serviceaccount/service-account.name", "serviceAccountName"),
        ("kubernetes.io/serviceaccount/service-account.uid", "serviceAccountUID"),
    ] {
        let mut without = claims();
        without.remove(&[claim]);
        assert_eq!(read(&without), Err(Refusal::MissingClaim(name)));
    }
    let mut other = claims();
    other.set(&["sub"], "system:serviceaccount:kube-system:a");
    assert_eq!(read(&other), Err(Refusal::Subject));
}

#[test]
fn a_token_is_valid_while_its_secret_contains_it() {
    let accepted = check(Some(&secret()), Some(&account())).unwrap();
    assert_eq!(accepted.user.name, "system:serviceaccount:n:a");
    assert!(accepted.user.extra.is_empty() && !accepted.auto_generated);
    let mut own = account();
    own.set(&["secrets"], vec![value!({"name": "s"})]);
    assert!(check(Some(&secret()), Some(&own)).unwrap().auto_generated);
    assert_eq!(check(None, Some(&account())).unwrap_err(), "Token has been invalidated");
    let mut deleting = secret();
    deleting.set(&["metadata", "deletionTimestamp"], "2024-01-01T00:00:00Z");
    assert_eq!(check(Some(&deleting), Some(&account())).unwrap_err(), "Token has been invalidated");
    let mut other = secret();
    other.set(&["data", "token"], STANDARD.encode("another"));
    assert_eq!(check(Some(&other), Some(&account())).unwrap_err(), "Token does not match server's copy");
    other.remove(&["data"]);
    assert_eq!(check(Some(&other), Some(&account())).unwrap_err(), "Token does not match server's copy");
}

#[test]
fn the_service_account_must_be_the_same() {
    assert_eq!(check(Some(&secret()), None).unwrap_err(), "serviceaccounts \"a\" not found");
    let mut found = account();
    found.set(&["metadata", "uid"], "v");
    let refused = check(Some(&secret()), Some(&found)).unwrap_err();
    assert_eq!(refused, "ServiceAccount UID (v) does not match claim (u)");
    found.set(&["metadata", "deletionTimestamp"], "2024-01-01T00:00:00Z");
    assert_eq!(check(Some(&secret()), Some(&found)).unwrap_err(), "ServiceAccount n/a has been deleted");
}

#[test]
fn tokens_marked_invalid_are_refused() {
    let mut marked = secret();
    marked.set(&["metadata", "labels", INVALID_SINCE], "2024-01-01");
    let refused = check(Some(&marked), Some(&account())).unwrap_err();
    assert!(
        refused.starts_with("the token in secret n/s for service account n/a has been marked invalid. Use")
    );
}

#[test]
fn use_is_recorded_once_a_day() {
    let now: Timestamp = "2024-02-28T23:00:00Z".parse().unwrap();
    let on = |day: &str| {
        let mut secret = secret();
        secret.set(&["metadata", "labels", LAST_USED], day);
        last_used(&secret, now)
    };
    assert_eq!(last_used(&secret(), now).as_deref(), Some("2024-02-28"));
    assert_eq!(on("2024-02-27").as_deref(), Some("2024-02-28"));
    assert_eq!(on("2024-02-28"), None);
    assert_eq!(on("2024-02-29"), None);
}
