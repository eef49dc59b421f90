//! Configuration of registries: mirrors, credentials and trust, by host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The configuration file of operators; its format is that of k3s' `registries.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistriesConfig {
    /// By the registry's name in images; `*` is every registry without an entry of its own.
    pub mirrors: BTreeMap<String, Mirror>,
    /// By host, with its port if it has one.
    pub configs: BTreeMap<String, HostConfig>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mirror {
    /// URLs to try before the registry itself; `http://` is without TLS.
    pub endpoint: Vec<String>,
}

#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    pub auth: Option<Credentials>,
    pub tls: TlsConfig,
}

#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credentials {
    pub username: String,
    pub password: String,
    pub identity_token: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// CA certificates to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    pub insecure_skip_verify: bool,
}

impl std::fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostConfig").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl RegistriesConfig {
    /// Reads the file; `None` if there is none.
    pub fn read(path: &Path) -> std::io::Result<Option<RegistriesConfig>> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        RegistriesConfig::parse(&text).map(Some)
    }

    pub(super) fn parse(text: &str) -> std::io::Result<RegistriesConfig> {
        serde_saphyr::from_str(text).map_err(std::io::Error::other)
    }

    /// The endpoints of a registry's images, in order.
    pub(super) fn endpoints(&self, domain: &str) -> Vec<String> {
        let mirror = self.mirrors.get(domain).or_else(|| self.mirrors.get("*"));
        let mirrors = mirror.into_iter().flat_map(|mirror| &mirror.endpoint);
        let mut endpoints: Vec<String> = mirrors.map(|url| url.trim_end_matches('/').to_owned()).collect();
        endpoints.push(itself(domain));
        endpoints
    }

    pub(super) fn host(&self, host: &str) -> Option<&HostConfig> {
        self.configs.get(host)
    }
}

/// The registry itself; one on this machine speaks plain HTTP, as with other runtimes.
fn itself(domain: &str) -> String {
    match domain {
        "docker.io" => "https://registry-1.docker.io".to_owned(),
        domain if is_local(domain) => format!("http://{domain}"),
        domain => format!("https://{domain}"),
    }
}

fn is_local(domain: &str) -> bool {
    let host = domain.rsplit_once(':').map_or(domain, |(host, _)| host);
    host == "localhost" || host.starts_with("127.") || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(domain: &str, expected: &[&str]) {
        let mirror = |urls: &[&str]| Mirror { endpoint: urls.iter().map(|&url| url.to_owned()).collect() };
        let mirrors = [
            ("docker.io".to_owned(), mirror(&["https://mirror/", "http://other:5000"])),
            ("*".to_owned(), mirror(&["https://any"])),
        ];
        let config = RegistriesConfig { mirrors: mirrors.into(), ..RegistriesConfig::default() };
        assert_eq!(config.endpoints(domain), expected);
    }

    #[test]
    fn mirrors_come_first() {
        check("docker.io", &["https://mirror", "http://other:5000", "https://registry-1.docker.io"]);
        check("quay.io", &["https://any", "https://quay.io"]);
        check("localhost:5000", &["https://any", "http://localhost:5000"]);
    }
}
