use super::*;

fn user(headers: &[(&str, &str)]) -> Option<User> {
    FrontProxy::standard(Vec::new()).user(headers)
}

#[test]
fn headers_name_the_user() {
    assert_eq!(user(&[]), None);
    assert_eq!(user(&[("x-remote-user", "")]), None);
    assert_eq!(user(&[("x-remote-group", "system:masters")]), None);
    let found = user(&[
        ("X-Remote-User", "jane"),
        ("x-remote-user", "other"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "a"),
        ("x-remote-group", ""),
        ("X-REMOTE-GROUP", "b"),
        ("x-remote-extra-Acme.com%2fProject", "one"),
        ("x-remote-extra-acme.com%2Fproject", "two"),
        ("x-remote-extra-bad%zz", "kept"),
        ("x-other", "ignored"),
    ])
    .unwrap();
    assert_eq!((found.name.as_str(), found.uid.as_str()), ("jane", "7"));
    assert_eq!(found.groups, ["a", "b"]);
    let extra: Vec<(&str, Vec<&str>)> =
        found.extra.iter().map(|(k, v)| (k.as_str(), v.iter().map(String::as_str).collect())).collect();
    assert_eq!(extra, [("acme.com/project", vec!["one", "two"]), ("bad%zz", vec!["kept"])]);
}

#[test]
fn only_allowed_names_are_front_proxies() {
    assert!(FrontProxy::standard(Vec::new()).allows("any-name"));
    let proxy = FrontProxy::standard(vec!["front-proxy-client".into()]);
    assert!(proxy.allows("front-proxy-client"));
    assert!(!proxy.allows("jane") && !proxy.allows(""));
}

#[test]
fn header_names_are_case_insensitive() {
    let proxy = FrontProxy::standard(Vec::new());
    for header in ["x-remote-user", "X-Remote-Group", "x-remote-uid", "X-REMOTE-EXTRA-a", "x-remote-extra-"] {
        assert!(proxy.owns(header), "{header}");
    }
    for header in
        ["x-remote", "x-remote-users", "authorization", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}"]
    {
        assert!(!proxy.owns(header), "{header}");
    }
}
