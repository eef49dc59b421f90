use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

#[track_caller]
fn check(rest: &str, expected: Option<Anonymous>) {
    assert_eq!(configuration(&format!("{HEAD}{rest}")), Ok(expected), "{rest}");
}

#[track_caller]
fn refused(text: &str, sentence: &str) {
    let error = configuration(text).unwrap_err().to_string();
    assert!(error.contains(sentence), "{error}");
}

#[test]
fn anonymous_requests() {
    check("", None);
    check("jwt: []\n", None);
    check("anonymous: {}\n", Some(Anonymous::Denied));
    check("anonymous:\n  enabled: true\n", Some(Anonymous::Allowed));
    let paths = Anonymous::Paths(vec!["/livez".into(), "/readyz".into()]);
    check(
        "anonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n  - path: /readyz\n",
        Some(paths.clone()),
    );
    assert!(paths.allows("/livez"));
    assert!(!paths.allows("/livez/") && !paths.allows("/api") && !paths.allows("/livez/../api"));
    assert!(Anonymous::Allowed.allows("/api") && !Anonymous::Denied.allows("/livez"));
}

#[test]
fn invalid_files_are_refused() {
    refused("kind: AuthenticationConfiguration\n", "must be apiserver.config.k8s.io/v1");
    refused(&format!("{HEAD}jwt:\n- issuer: {{}}\n"), "jwt:");
    refused(&format!("{HEAD}webhook: true\n"), "webhook:");
    refused(&format!("{HEAD}anonymous:\n  enabled: maybe\n"), "true or false");
    refused(&format!("{HEAD}anonymous:\n  paths: []\n"), "anonymous.paths");
    refused(&format!("{HEAD}anonymous:\n  conditions:\n  - path: /livez\n"), "enabled should be set to true");
    refused(&format!("{HEAD}anonymous: 1\n"), "an object");
    refused(&format!("{HEAD}{HEAD}"), "duplicate field");
}
