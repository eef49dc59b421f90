//! The identity headers of forwarded requests: `X-Remote-User`, `-Uid`, `-Group` and `-Extra-*`.

use corten_auth::User;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA_PREFIX: &str = "x-remote-extra-";

/// Replaces every header that tells an identity by those of the authenticated user. `None` if the user cannot be told:
/// such a request must not be forwarded, because it would be that of another user.
pub(super) fn set(headers: &mut HeaderMap, user: &User) -> Option<()> {
    // Some servers take an underscore for a dash.
    let told = |name: &str| {
        let name = name.replace('_', "-");
        matches!(name.as_str(), "x-remote-user" | "x-remote-uid" | "x-remote-group")
            || name.starts_with(EXTRA_PREFIX)
            || name.starts_with("impersonate-")
    };
    let old: Vec<HeaderName> = headers.keys().filter(|name| told(name.as_str())).cloned().collect();
    for name in old.iter().chain([&AUTHORIZATION]) {
        headers.remove(name);
    }
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).ok();
    headers.insert(USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::from_bytes(format!("{EXTRA_PREFIX}{}", escaped(key)).as_bytes()).ok()?;
        for text in values {
            headers.append(name.clone(), value(text)?);
        }
    }
    Some(())
}

/// A key as part of a header name: every byte that may not occur in one, and `%`, is percent-encoded.
fn escaped(key: &str) -> String {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    let escape = |byte: u8| match is_legal(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    key.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        let mut user = User {
            name: "jane".into(),
            uid: "42".into(),
            groups: vec!["a".into(), "b".into()],
            ..User::default()
        };
        user.extra.insert("example.com/scope%".into(), vec!["x".into(), "y".into()]);
        user
    }

    #[test]
    fn claims_of_the_client_are_replaced() {
        let mut headers = HeaderMap::new();
        for (name, text) in [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "0"),
            ("x-remote-extra-scope", "all"),
            ("impersonate-user", "root"),
            ("x_remote_user", "root"),
            ("x-remote_group", "system:masters"),
            ("accept", "application/json"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(text));
        }
        set(&mut headers, &user()).unwrap();
        let mut found: Vec<(String, String)> =
            headers.iter().map(|(name, v)| (name.to_string(), v.to_str().unwrap().to_owned())).collect();
        found.sort();
        let expected = [
            ("accept", "application/json"),
            ("x-remote-extra-example.com%2fscope%25", "x"),
            ("x-remote-extra-example.com%2fscope%25", "y"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-uid", "42"),
            ("x-remote-user", "jane"),
        ];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn a_user_that_headers_cannot_tell_is_not_forwarded() {
        let mut headers = HeaderMap::new();
        for name in ["a\nX-Remote-Group: system:masters", "a\0"] {
            assert_eq!(set(&mut headers, &User { name: name.into(), ..User::default() }), None);
        }
    }
}
