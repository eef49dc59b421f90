use corten_api::value;

use super::*;

const TOKEN: &str = "abcdef.0123456789abcdef";

fn secret(changes: &[(&str, Option<&str>)]) -> Value {
    let mut secret =
        value!({"type": "bootstrap.kubernetes.io/token", "metadata": {"name": "bootstrap-token-abcdef"}});
    let standard = [
        ("token-id", Some("abcdef")),
        ("token-secret", Some("0123456789abcdef")),
        ("usage-bootstrap-authentication", Some("true")),
    ];
    for (key, value) in standard.iter().chain(changes) {
        match value {
            Some(value) => secret.set(&["data", key], STANDARD.encode(value)),
            None => drop(secret.remove(&["data", key])),
        }
    }
    secret
}

fn user(secret: &Value) -> Option<User> {
    let now = "2024-06-01T00:00:00Z".parse().unwrap();
    BootstrapToken::parse(TOKEN).unwrap().user(secret, now)
}

#[test]
fn only_the_exact_format_is_a_token() {
    assert!(BootstrapToken::parse(TOKEN).is_some());
    for other in [
        "abcdef.0123456789abcde",
        "abcdef0123456789abcdef",
        "ABCDEF.0123456789abcdef",
        "",
        ".",
        "abcde.0123456789abcdef0",
        "abcdef.0123456789abcdef ",
        "abcdef.0123456789abcdef.x",
        "abcd\u{e9}.0123456789abcdef",
    ] {
        assert_eq!(BootstrapToken::parse(other), None, "{other}");
    }
}

#[test]
fn a_valid_token_is_a_bootstrapper() {
    let found = user(&secret(&[])).unwrap();
    assert_eq!(found.name, "system:bootstrap:abcdef");
    assert_eq!(found.groups, ["system:bootstrappers", "system:authenticated"]);
    let extra = "system:bootstrappers:z,system:bootstrappers:a:b,system:bootstrappers:z";
    let found = user(&secret(&[("auth-extra-groups", Some(extra))])).unwrap();
    let expected = [
        "system:bootstrappers",
        "system:bootstrappers:a:b",
        "system:bootstrappers:z",
        "system:authenticated",
    ];
    assert_eq!(found.groups, expected);
    assert!(user(&secret(&[("expiration", Some("2024-06-01T00:00:01Z"))])).is_some());
}

#[test]
fn invalid_tokens_have_no_user() {
    for change in [
        ("token-secret", Some("0123456789abcdeX")),
        ("token-secret", None),
        ("token-id", Some("abcdeg")),
        ("token-id", None),
        ("usage-bootstrap-authentication", Some("false")),
        ("usage-bootstrap-authentication", Some("True")),
        ("usage-bootstrap-authentication", None),
        ("expiration", Some("2024-06-01T00:00:00Z")),
        ("expiration", Some("never")),
        ("auth-extra-groups", Some("system:masters")),
        ("auth-extra-groups", Some("system:bootstrappers:")),
        ("auth-extra-groups", Some("system:bootstrappers:a,system:masters")),
        ("auth-extra-groups", Some("system:bootstrappers:a-")),
        ("auth-extra-groups", Some("system:bootstrappers:A")),
    ] {
        assert_eq!(user(&secret(&[change])), None, "{change:?}");
    }
    let mut other = secret(&[]);
    other.set(&["type"], "Opaque");
    assert_eq!(user(&other), None);
    let mut deleting = secret(&[]);
    deleting.set(&["metadata", "deletionTimestamp"], "2024-06-01T00:00:00Z");
    assert_eq!(user(&deleting), None);
}

#[test]
fn signatures_equal_upstreams() {
    let content = "Hello from the other side. I must have called a thousand times.";
    let expected = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8";
    assert_eq!(sign(content, "joshua", "my voice is my passcode"), expected);
}
