//! Authentication at a registry: challenges and credentials.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::config::HostConfig;
use crate::AuthConfig;

/// The challenge of a registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: String, scope: String },
}

/// Credentials for a registry.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) username: String,
    pub(super) password: String,
    /// Exchanged for a token.
    pub(super) refresh_token: String,
    /// A token that is used unchanged.
    pub(super) token: String,
}

impl Identity {
    /// The credentials of the pull, or else those that are configured for the host.
    pub(super) fn choose(given: Option<&AuthConfig>, host: Option<&HostConfig>) -> Option<Identity> {
        if let Some(given) = given {
            let (username, password) = plain(given);
            return Some(Identity {
                username,
                password,
                refresh_token: given.identity_token.clone(),
                token: given.registry_token.clone(),
            });
        }
        host?.auth.as_ref().map(|auth| Identity {
            username: auth.username.clone(),
            password: auth.password.clone(),
            refresh_token: auth.identity_token.clone(),
            token: String::new(),
        })
    }

    /// The header of basic authentication; `None` without a name.
    pub(super) fn basic(&self) -> Option<String> {
        let text = format!("{}:{}", self.username, self.password);
        (!self.username.is_empty()).then(|| format!("Basic {}", STANDARD.encode(text)))
    }
}

/// Name and password, which may be combined in one field.
fn plain(given: &AuthConfig) -> (String, String) {
    if !given.username.is_empty() || given.auth.is_empty() {
        return (given.username.clone(), given.password.clone());
    }
    let decoded = STANDARD.decode(&given.auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = decoded.unwrap_or_default();
    let (username, password) = text.split_once(':').unwrap_or_default();
    (username.to_owned(), password.trim_end_matches('\0').to_owned())
}

/// Parses `WWW-Authenticate`.
pub(super) fn challenge(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service, mut scope) = (String::new(), String::new(), String::new());
    for (key, value) in parameters(rest) {
        match key {
            "realm" => realm = value,
            "service" => service = value,
            "scope" => scope = value,
            _ => {}
        }
    }
    (!realm.is_empty()).then_some(Challenge::Bearer { realm, service, scope })
}

/// `key="value"`, separated by commas, which may also be in values.
fn parameters(mut text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    while let Some((key, rest)) = text.split_once('=') {
        let key = key.trim_start_matches([',', ' ']).trim_end();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        found.push((key, value.to_owned()));
        text = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let header = r#"Bearer realm="https://auth.x/token",service="x",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.x/token".to_owned(),
            service: "x".to_owned(),
            scope: "repository:a/b:pull,push".to_owned(),
        };
        assert_eq!(challenge(header), Some(expected));
        assert_eq!(challenge("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(challenge("Bearer service=\"x\""), None);
        assert_eq!(challenge("Negotiate"), None);
    }

    #[test]
    fn credentials_come_in_two_forms() {
        let split = AuthConfig { auth: STANDARD.encode("me:se:cret"), ..AuthConfig::default() };
        assert_eq!(plain(&split), ("me".to_owned(), "se:cret".to_owned()));
        let identity = Identity::choose(Some(&split), None).unwrap();
        assert_eq!(identity.basic().unwrap(), format!("Basic {}", STANDARD.encode("me:se:cret")));
        assert!(Identity::choose(None, None).is_none());
    }
}
