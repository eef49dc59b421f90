//! Kubeconfig files: writing ours, and reading them back.
//!
//! A kubeconfig made here has one cluster, one user and one context, with all key material inline, so it can
//! be copied to another machine. Reading follows `current-context` and understands certificates and tokens, inline
//! or in files; exec plugins are for real clients.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use crate::files::{self, Access};
use crate::{Error, Result};

/// The names of a kubeconfig's entries.
#[derive(Clone, Copy, Debug)]
pub struct KubeconfigNames<'a> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// The user's name.
    pub user: &'a str,
    /// The context's name, which becomes the current one.
    pub context: &'a str,
}

impl Default for KubeconfigNames<'static> {
    fn default() -> Self {
        KubeconfigNames { cluster: "corten", user: "system:admin", context: "corten" }
    }
}

/// A server's address and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `https://host:port`.
    pub server: String,
    /// The authority that signed the server's certificate.
    pub ca_pem: String,
    /// The client's certificate.
    pub cert_pem: String,
    /// The client's key.
    pub key_pem: String,
    /// The bearer token. A client with one has neither certificate nor key.
    pub token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The text of a kubeconfig.
pub fn kubeconfig(credentials: &Credentials, names: KubeconfigNames<'_>) -> String {
    let (cluster, user, context) = (scalar(names.cluster), scalar(names.user), scalar(names.context));
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: {cluster}\n  cluster:\n    server: {server}\n    certificate-authority-data: {ca}\n\
         users:\n\
         - name: {user}\n  user:\n    client-certificate-data: {cert}\n    client-key-data: {key}\n\
         contexts:\n\
         - name: {context}\n  context:\n    cluster: {cluster}\n    user: {user}\n\
         current-context: {context}\n\
         preferences: {{}}\n",
        server = scalar(&credentials.server),
        ca = BASE64.encode(&credentials.ca_pem),
        cert = BASE64.encode(&credentials.cert_pem),
        key = BASE64.encode(&credentials.key_pem),
    )
}

/// Writes a kubeconfig that only its owner can read, replacing `path` in one step.
pub fn write_kubeconfig(path: &Path, credentials: &Credentials, names: KubeconfigNames<'_>) -> Result<()> {
    files::write(path, &kubeconfig(credentials, names), Access::Owner)?;
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => files::sync_directory(dir),
        _ => files::sync_directory(Path::new(".")),
    }
}

/// Reads the server and the credentials of a kubeconfig's current context.
pub fn parse_kubeconfig(text: &str) -> Result<Credentials> {
    let config: Config = serde_saphyr::from_str(text)
        .map_err(|error| Error::Kubeconfig(format!("it is not valid YAML of that kind: {error}")))?;
    let context = find(&config.contexts, &config.current_context, "context")?;
    let cluster = find(&config.clusters, &context.context.cluster, "cluster")?;
    let user = find(&config.users, &context.context.user, "user")?;
    let (cluster, user) = (&cluster.cluster, &user.user);
    let ca = (&cluster.certificate_authority_data, &cluster.certificate_authority);
    let cert = (&user.client_certificate_data, &user.client_certificate);
    let key = (&user.client_key_data, &user.client_key);
    let token = match &user.token_file {
        Some(path) => Some(read(path)?.trim().to_owned()),
        None => user.token.clone(),
    };
    let shown = |given: (&Option<String>, &Option<String>), field: &str| match (&token, given) {
        (Some(_), (None, None)) => Ok(String::new()),
        _ => material(given, field),
    };
    Ok(Credentials {
        server: cluster.server.clone(),
        ca_pem: material(ca, "certificate-authority-data")?,
        cert_pem: shown(cert, "client-certificate-data")?,
        key_pem: shown(key, "client-key-data")?,
        token,
    })
}

/// The certificate authority of a kubeconfig with one cluster and no users, such as the one in `kube-public/cluster-info`.
pub fn authority_in_kubeconfig(text: &str) -> Result<String> {
    let config: Clusters = serde_saphyr::from_str(text)
        .map_err(|error| Error::Kubeconfig(format!("it is not valid YAML of that kind: {error}")))?;
    match config.clusters.as_slice() {
        [only] => decode(only.cluster.certificate_authority_data.as_deref(), "certificate-authority-data"),
        _ => Err(Error::Kubeconfig("it does not name one cluster".to_owned())),
    }
}

#[derive(Deserialize)]
struct Clusters {
    clusters: Vec<NamedCluster>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
    contexts: Vec<NamedContext>,
    current_context: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: Option<String>,
    certificate_authority: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: Option<String>,
    client_certificate: Option<String>,
    client_key_data: Option<String>,
    client_key: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

trait Named {
    fn name(&self) -> &str;
}

impl Named for NamedCluster {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for NamedUser {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for NamedContext {
    fn name(&self) -> &str {
        &self.name
    }
}

fn find<'a, T: Named>(entries: &'a [T], name: &str, what: &str) -> Result<&'a T> {
    entries
        .iter()
        .find(|entry| entry.name() == name)
        .ok_or_else(|| Error::Kubeconfig(format!("it has no {what} named {name:?}")))
}

/// The inline value or, without one, the content of the file.
fn material((data, file): (&Option<String>, &Option<String>), field: &str) -> Result<String> {
    match (data, file) {
        (None, Some(path)) => read(path),
        _ => decode(data.as_deref(), field),
    }
}

fn read(path: &str) -> Result<String> {
    let path = Path::new(path);
    std::fs::read_to_string(path).map_err(Error::file("read", path))
}

fn decode(data: Option<&str>, field: &str) -> Result<String> {
    let unusable = |problem: &str| Error::Kubeconfig(format!("{field} {problem}"));
    let data = data.map(str::trim).filter(|data| !data.is_empty()).ok_or_else(|| unusable("is missing"))?;
    let bytes = BASE64.decode(data).map_err(|_| unusable("is not base64"))?;
    String::from_utf8(bytes).map_err(|_| unusable("is not PEM"))
}

/// A YAML scalar: plain where that is safe, else double-quoted.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:/@".contains(c);
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if starts_well && !text.ends_with(':') && text.chars().all(plain) && !reserved(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Words that YAML 1.1 readers take for something else than text.
fn reserved(text: &str) -> bool {
    ["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(text))
}
