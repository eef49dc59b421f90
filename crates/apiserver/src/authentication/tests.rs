use super::*;

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
fn credentials_go_no_further() {
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
fn only_proxies_are_believed_to_speak_for_others() {
    let jane = Arc::new(User { name: "jane".into(), ..User::default() });
    let client = Certificate { user: Some(jane), is_proxy: false, expires: Timestamp::MAX };
    let spoken = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];
    assert_eq!(user(&client, &spoken).unwrap().name, "jane");
    assert!(user(&Certificate::worthless(), &spoken).is_none());
    let proxy = Certificate { is_proxy: true, ..Certificate::worthless() };
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
