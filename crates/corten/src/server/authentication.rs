//! The flags of authentication.
//!
//! Settings without a flag come from the cluster's own key material.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use corten_apiserver::{AuthenticationOptions, go_duration};
use corten_auth::authentication::{Anonymous, PublicKeys, SigningKey, TokenFile, configuration};
use corten_pki::{ServerPki, pem_certificates};

/// The bounds of `--service-account-max-token-expiration`, in seconds.
const MAX_EXPIRATION: std::ops::RangeInclusive<i64> = 3600..=1 << 32;

#[derive(clap::Args)]
#[command(next_help_heading = "Authentication")]
pub(super) struct Flags {
    /// File of static tokens: lines of token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Allow anonymous requests (user system:anonymous) [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    anonymous_auth: Option<bool>,
    /// File with an AuthenticationConfiguration; only its field anonymous is supported.
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// Allow authentication with bootstrap tokens (Secrets of type bootstrap.kubernetes.io/token).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    enable_bootstrap_token_auth: bool,
    /// File of additional CAs in PEM that sign client certificates of users.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// File of CAs in PEM that sign client certificates of front proxies [default: the cluster's own].
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Allowed common names of front proxies; if empty, any certificate signed by one of these CAs is allowed.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    requestheader_allowed_names: Option<Vec<String>>,
    /// Headers with the user name of a proxied request.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "X-Remote-User")]
    requestheader_username_headers: Vec<String>,
    /// Headers with the user's UID of a proxied request.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "X-Remote-Uid")]
    requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups of a proxied request.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "X-Remote-Group")]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes of the user of a proxied request.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "X-Remote-Extra-")]
    requestheader_extra_headers_prefix: Vec<String>,
    /// File of keys in PEM that verify service account tokens; may be repeated.
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// File with the private key in PEM that signs service account tokens [default: the cluster's own].
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Issuer of service account tokens. The first of several issues tokens; all are accepted.
    #[arg(long, value_name = "URL")]
    service_account_issuer: Vec<String>,
    /// URI of the JSON Web Key Set that verifies service account tokens [default: on this server].
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,
    /// Maximum lifetime of a service account token, such as 24h.
    #[arg(long, value_name = "DURATION")]
    service_account_max_token_expiration: Option<String>,
    /// Extend the lifetime of projected tokens to a year, for clients that do not reload them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    service_account_extend_token_expiration: bool,
    /// Audiences of the API server in tokens [default: the issuers].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    api_audiences: Vec<String>,
}

impl Flags {
    pub(super) fn options(&self, pki: &ServerPki) -> anyhow::Result<AuthenticationOptions> {
        let mut options = AuthenticationOptions::of(pki).context("cannot read the service account keys")?;
        if let Some(path) = &self.token_auth_file {
            let about = || format!("--token-auth-file {}", path.display());
            options.token_file = TokenFile::parse(&read(path)?).with_context(about)?;
        }
        options.anonymous = self.anonymous()?;
        options.bootstrap_tokens = self.enable_bootstrap_token_auth;
        options.api_audiences = given(&self.api_audiences);
        options.client_ca_pem = self.client_authorities(&options.client_ca_pem)?;
        self.front_proxy(&mut options)?;
        self.service_accounts(&mut options)?;
        Ok(options)
    }

    /// The CAs of client certificates: those of the cluster, and those of `--client-ca-file`.
    pub(super) fn client_authorities(&self, own: &str) -> anyhow::Result<String> {
        match &self.client_ca_file {
            Some(path) => Ok(format!("{own}{}", authorities(path)?)),
            None => Ok(own.to_owned()),
        }
    }

    fn anonymous(&self) -> anyhow::Result<Anonymous> {
        if let Some(path) = &self.authentication_config {
            let about = || format!("--authentication-config {}", path.display());
            if let Some(anonymous) = configuration(&read(path)?).with_context(about)? {
                if self.anonymous_auth.is_some() {
                    bail!(
                        "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file"
                    );
                }
                return Ok(anonymous);
            }
        }
        Ok(if self.anonymous_auth.unwrap_or(true) { Anonymous::Allowed } else { Anonymous::Denied })
    }

    fn front_proxy(&self, options: &mut AuthenticationOptions) -> anyhow::Result<()> {
        let proxy = &mut options.front_proxy;
        proxy.username_headers = headers("username-headers", &self.requestheader_username_headers)?;
        proxy.uid_headers = headers("uid-headers", &self.requestheader_uid_headers)?;
        proxy.group_headers = headers("group-headers", &self.requestheader_group_headers)?;
        proxy.extra_header_prefixes =
            headers("extra-headers-prefix", &self.requestheader_extra_headers_prefix)?;
        if let Some(path) = &self.requestheader_client_ca_file {
            options.front_proxy_ca_pem = authorities(path)?;
            proxy.allowed_names.clear();
        }
        if let Some(names) = &self.requestheader_allowed_names {
            proxy.allowed_names = headers("allowed-names", names)?;
        }
        let clients = pem_certificates(&options.client_ca_pem)?;
        let proxies = pem_certificates(&options.front_proxy_ca_pem)?;
        if proxy.allowed_names.is_empty() && proxies.iter().any(|authority| clients.contains(authority)) {
            bail!(
                "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
                 --requestheader-allowed-names must be specified to ensure regular client certificates cannot \
                 set authenticating proxy headers for arbitrary users"
            );
        }
        Ok(())
    }

    /// The key that signs service account tokens.
    pub(super) fn signing_key(&self, pki: &ServerPki) -> anyhow::Result<SigningKey> {
        match self.given_signing_key()? {
            Some(key) => Ok(key),
            None => SigningKey::from_pem(&pki.service_account_key_pem)
                .context("cannot read the service account key"),
        }
    }

    fn given_signing_key(&self) -> anyhow::Result<Option<SigningKey>> {
        let Some(path) = &self.service_account_signing_key_file else { return Ok(None) };
        let about = || format!("--service-account-signing-key-file {}", path.display());
        SigningKey::from_pem(&read(path)?).with_context(about).map(Some)
    }

    fn service_accounts(&self, options: &mut AuthenticationOptions) -> anyhow::Result<()> {
        let accounts = &mut options.service_accounts;
        if let Some(key) = self.given_signing_key()? {
            accounts.signing_key = key;
        }
        if !self.service_account_key_file.is_empty() {
            accounts.keys = PublicKeys::default();
        }
        for path in &self.service_account_key_file {
            let about = || format!("--service-account-key-file {}", path.display());
            accounts.keys.extend(PublicKeys::from_pem(&read(path)?).with_context(about)?);
        }
        if !self.service_account_issuer.is_empty() {
            accounts.issuers = issuers(&self.service_account_issuer)?;
        }
        if let Some(uri) = &self.service_account_jwks_uri {
            if !uri.starts_with("https://") {
                bail!("--service-account-jwks-uri requires https scheme, parsed as: {uri}");
            }
            accounts.keys_uri = Some(uri.clone());
        }
        accounts.lifetimes.extend = self.service_account_extend_token_expiration;
        if let Some(text) = &self.service_account_max_token_expiration {
            accounts.lifetimes.longest = max_expiration(text)?;
        }
        Ok(())
    }
}

/// A maximum lifetime in seconds; zero for no limit.
fn max_expiration(text: &str) -> anyhow::Result<i64> {
    let seconds = go_duration(text).map_err(anyhow::Error::msg);
    let seconds = seconds.context("--service-account-max-token-expiration")? as i64;
    if seconds != 0 && !MAX_EXPIRATION.contains(&seconds) {
        bail!("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds");
    }
    Ok(seconds)
}

fn issuers(given: &[String]) -> anyhow::Result<Vec<String>> {
    let mut issuers: Vec<String> = Vec::new();
    for issuer in given {
        if issuer.is_empty() {
            bail!("--service-account-issuer should not be an empty string");
        }
        if issuers.contains(issuer) {
            bail!("--service-account-issuer {issuer:?} is already specified");
        }
        issuers.push(issuer.clone());
    }
    Ok(issuers)
}

/// The values of a list flag: `--flag=` is an empty list.
fn given(values: &[String]) -> Vec<String> {
    if values.len() == 1 && values[0].is_empty() { Vec::new() } else { values.to_vec() }
}

fn headers(flag: &str, values: &[String]) -> anyhow::Result<Vec<String>> {
    let values = given(values);
    if values.iter().any(|value| value.trim().is_empty()) {
        bail!("empty value in \"requestheader-{flag}\"");
    }
    Ok(values)
}

fn authorities(path: &Path) -> anyhow::Result<String> {
    let text = read(path)?;
    let found = pem_certificates(&text).with_context(|| format!("cannot read {}", path.display()))?;
    if found.is_empty() {
        bail!("{} has no certificate", path.display());
    }
    Ok(text)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_bounded() {
        assert_eq!(max_expiration("24h").unwrap(), 86_400);
        assert_eq!(max_expiration("0").unwrap(), 0);
        assert_eq!(max_expiration("1h").unwrap(), 3600);
        for bad in ["59m", "-1h", "1193047h", "1", "x"] {
            assert!(max_expiration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn issuers_are_named_once() {
        let list = |items: &[&str]| items.iter().map(|i| (*i).to_owned()).collect::<Vec<String>>();
        assert_eq!(issuers(&list(&["a", "b"])).unwrap(), ["a", "b"]);
        assert!(issuers(&list(&["a", "a"])).is_err());
        assert!(issuers(&list(&[""])).is_err());
    }

    #[test]
    fn an_empty_list_is_not_a_list_of_nothing() {
        let list = |items: &[&str]| items.iter().map(|i| (*i).to_owned()).collect::<Vec<String>>();
        assert!(headers("allowed-names", &list(&[""])).unwrap().is_empty());
        assert!(headers("allowed-names", &list(&["a", " "])).is_err());
        assert_eq!(headers("allowed-names", &list(&["a"])).unwrap(), ["a"]);
    }
}
