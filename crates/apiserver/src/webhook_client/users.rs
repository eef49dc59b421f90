//! The users of a kubeconfig, by the servers that their credentials are for: `kubeConfigFile` of the configuration of
//! admission webhooks.
//!
//! The name of a user is a server, `host:port` or `name.namespace.svc:port`; `*.` stands for any first labels, and `*` for
//! any server. The user of the current context is for all others. The rest of the kubeconfig has no meaning here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, meta, yaml};

use super::credentials::{Bearer, Certificate, Credentials, Pem};

/// The users of a kubeconfig.
#[derive(Debug, Clone, Default)]
pub(crate) struct KubeconfigUsers {
    users: BTreeMap<String, Arc<Credentials>>,
    /// The user of the current context.
    current: Option<String>,
}

impl KubeconfigUsers {
    /// Decodes a kubeconfig. Relative paths in it begin at its directory.
    pub(crate) fn parse(text: &[u8], directory: &Path) -> Result<KubeconfigUsers, String> {
        let mut duplicates = Vec::new();
        let config = yaml::to_value(text, &mut duplicates).map_err(|error| error.to_string())?;
        let (version, kind) = (meta::api_version(&config), meta::kind(&config));
        if !matches!(version, "" | "v1") || !matches!(kind, "" | "Config") {
            return Err(format!("no kind {kind:?} is registered for version {version:?}"));
        }
        let mut users = BTreeMap::new();
        for user in config.items_at(&["users"]) {
            let name = user.str_at(&["name"]).unwrap_or_default();
            let credentials = credentials(user.get("user").unwrap_or(&Value::Null), directory)
                .map_err(|why| format!("user {name:?}: {why}"))?;
            if users.insert(name.to_owned(), Arc::new(credentials)).is_some() {
                return Err(format!("duplicate name {name:?} in list of users"));
            }
        }
        let current = config.str_at(&["current-context"]).unwrap_or_default();
        let contexts = config.items_at(&["contexts"]);
        let context = contexts.iter().find(|context| context.str_at(&["name"]) == Some(current));
        let current = context.and_then(|context| context.str_at(&["context", "user"]));
        let current = current.filter(|name| users.contains_key(*name)).map(str::to_owned);
        Ok(KubeconfigUsers { users, current })
    }

    /// The credentials for a server, `host:port`.
    pub(super) fn of(&self, server: &str) -> Option<&Arc<Credentials>> {
        let without_port = server.strip_suffix(":443").map(|host| host.trim_matches(['[', ']']));
        std::iter::once(server)
            .chain(without_port)
            .find_map(|name| self.named(name))
            .or_else(|| self.users.get("*"))
            .or_else(|| self.users.get(self.current.as_ref()?))
    }

    /// The user of a server's name, or of the longest suffix of it.
    fn named(&self, server: &str) -> Option<&Arc<Credentials>> {
        let suffixes = server.match_indices('.').map(|(at, _)| format!("*{}", &server[at..]));
        std::iter::once(server.to_owned()).chain(suffixes).find_map(|name| self.users.get(&name))
    }
}

fn credentials(user: &Value, directory: &Path) -> Result<Credentials, String> {
    for (field, what) in [("auth-provider", "auth provider"), ("exec", "exec plugin")] {
        if user.get(field).is_some_and(|value| !value.is_null()) {
            return Err(format!("{what} not supported"));
        }
    }
    let text = |field: &str| user.str_at(&[field]).filter(|text| !text.is_empty()).map(str::to_owned);
    let path = |field: &str| text(field).map(|path| directory.join(path));
    let token = match (path("tokenFile"), text("token")) {
        (Some(file), inline) => Some(Bearer::file(file, inline)),
        (None, inline) => inline.map(Bearer::Fixed),
    };
    let basic = match (text("username"), text("password")) {
        (None, None) => None,
        (name, password) => Some((name.unwrap_or_default(), password.unwrap_or_default())),
    };
    if basic.is_some() && token.is_some() {
        return Err("username/password or bearer token may be set, but not both".to_owned());
    }
    let pem = |field: &str, file: Option<PathBuf>| -> Result<Option<Pem>, String> {
        match text(field) {
            Some(data) => {
                let decoded = STANDARD.decode(data).map_err(|error| format!("{field}: {error}"))?;
                Ok(Some(Pem::Inline(decoded)))
            }
            None => Ok(file.map(Pem::File)),
        }
    };
    let certificate = pem("client-certificate-data", path("client-certificate"))?;
    let key = pem("client-key-data", path("client-key"))?;
    let certificate = certificate.zip(key).map(|(chain, key)| Arc::new(Certificate::new(chain, key)));
    Ok(Credentials { token, basic, certificate, impersonation: impersonation(user) })
}

/// The headers of `as`, `as-uid`, `as-groups` and `as-user-extra`.
fn impersonation(user: &Value) -> Vec<(String, String)> {
    let Some(name) = user.str_at(&["as"]).filter(|name| !name.is_empty()) else { return Vec::new() };
    let mut headers = vec![("impersonate-user".to_owned(), name.to_owned())];
    if let Some(uid) = user.str_at(&["as-uid"]).filter(|uid| !uid.is_empty()) {
        headers.push(("impersonate-uid".to_owned(), uid.to_owned()));
    }
    let texts = |values: &[Value]| -> Vec<String> {
        values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for group in texts(user.items_at(&["as-groups"])) {
        headers.push(("impersonate-group".to_owned(), group));
    }
    for (key, values) in
        user.get("as-user-extra").and_then(Value::as_object).into_iter().flat_map(|map| map.iter())
    {
        for value in texts(values.as_array().unwrap_or_default()) {
            headers.push((format!("impersonate-extra-{}", escaped(key)), value));
        }
    }
    headers
}

/// A key as part of a header's name: what no header may have in its name is escaped as in a URL, as by upstream's clients.
fn escaped(key: &str) -> String {
    let is_kept = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(byte);
    key.bytes().fold(String::new(), |mut out, byte| {
        match is_kept(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str) -> Result<KubeconfigUsers, String> {
        KubeconfigUsers::parse(text.as_bytes(), Path::new("/etc/webhooks"))
    }

    #[test]
    fn the_most_specific_user_is_chosen_as_upstream_chooses_it() {
        let of = |names: &[&str], current: &str, server: &str| {
            let list: Vec<String> = names
                .iter()
                .map(|name| format!("{{name: \"{name}\", user: {{token: \"{name}\"}}}}"))
                .collect();
            let text = format!(
                "{{users: [{}], contexts: [{{name: c, context: {{user: \"{current}\"}}}}], current-context: c}}",
                list.join(",")
            );
            let users = users(&text).unwrap();
            users.of(server).map(|found| match &found.token {
                Some(Bearer::Fixed(token)) => token.clone(),
                _ => String::new(),
            })
        };
        let table: &[(&[&str], &str, &str, Option<&str>)] = &[
            (&["a.b.svc:443", "*.b.svc:443", "a.b.svc", "*"], "", "a.b.svc:443", Some("a.b.svc:443")),
            (&["*.b.svc:443", "a.b.svc", "*"], "", "a.b.svc:443", Some("*.b.svc:443")),
            (&["*.svc:443", "a.b.svc", "*"], "", "a.b.svc:443", Some("*.svc:443")),
            (&["a.b.svc", "*.b.svc", "*"], "", "a.b.svc:443", Some("a.b.svc")),
            (&["*.b.svc", "*.svc", "*"], "", "a.b.svc:443", Some("*.b.svc")),
            (&["a.b.svc", "*"], "", "a.b.svc:8443", Some("*")),
            (&["a.b.svc", "*.svc"], "", "a.b.svc:8443", None),
            (&["*.0.1:8443"], "", "10.0.0.1:8443", Some("*.0.1:8443")),
            (&["other", "mine"], "mine", "a.b.svc:443", Some("mine")),
            (&["other"], "none", "a.b.svc:443", None),
            (&["*", "mine"], "mine", "a.b.svc:443", Some("*")),
        ];
        for (names, current, server, expected) in table {
            assert_eq!(of(names, current, server).as_deref(), *expected, "{names:?} {server}");
        }
    }

    #[test]
    fn kubeconfigs_that_cannot_be_used_are_refused() {
        let table = [
            ("{kind: Secret, apiVersion: v1}", "no kind \"Secret\" is registered for version \"v1\""),
            ("{users: [{name: a}, {name: a}]}", "duplicate name \"a\" in list of users"),
            (
                "{users: [{name: a, user: {auth-provider: {name: x}}}]}",
                "user \"a\": auth provider not supported",
            ),
            ("{users: [{name: a, user: {exec: {command: x}}}]}", "user \"a\": exec plugin not supported"),
            (
                "{users: [{name: a, user: {token: t, username: u}}]}",
                "user \"a\": username/password or bearer token may be set, but not both",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(users(text).unwrap_err(), expected);
        }
        assert!(users("{").is_err());
        assert!(users("{users: [{name: a, user: {client-certificate-data: '!'}}]}").is_err());
    }

    #[test]
    fn impersonation_needs_a_user() {
        let of = |user: &str| {
            let users = users(&format!("{{users: [{{name: '*', user: {user}}}]}}")).unwrap();
            users.of("a:1").unwrap().impersonation.clone()
        };
        assert_eq!(of("{as-groups: [g]}"), []);
        let pairs = [
            ("impersonate-user", "u"),
            ("impersonate-uid", "1"),
            ("impersonate-group", "g"),
            ("impersonate-group", "h"),
            ("impersonate-extra-example.com%2Fk%25", "v"),
        ];
        let expected = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            of("{as: u, as-uid: '1', as-groups: [g, h], as-user-extra: {example.com/k%: [v]}}"),
            expected
        );
    }
}
