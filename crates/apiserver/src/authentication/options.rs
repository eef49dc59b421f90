//! The options of authentication.

use corten_auth::authentication::token_request::LifetimeRules;
use corten_auth::authentication::{Anonymous, FrontProxy, KeyError, PublicKeys, SigningKey, TokenFile};
use corten_pki::ServerPki;

/// The default issuer.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The default common name of front proxies.
const PROXY: &str = "front-proxy-client";

/// The configuration of the authenticators.
pub struct AuthenticationOptions {
    pub anonymous: Anonymous,
    pub token_file: TokenFile,
    /// True to authenticate with secrets of type `bootstrap.kubernetes.io/token`.
    pub bootstrap_tokens: bool,
    /// The CAs of client certificates, in PEM.
    pub client_ca_pem: String,
    /// Earlier CAs of client certificates, in PEM, which are removed from what other servers read.
    pub retired_ca_pem: String,
    pub front_proxy: FrontProxy,
    /// The CAs of front proxies, in PEM; if empty, no front proxy is trusted.
    pub front_proxy_ca_pem: String,
    pub service_accounts: ServiceAccountOptions,
    /// The audiences of the API server; its issuers, if empty.
    pub api_audiences: Vec<String>,
}

/// The options of issuing and verifying service-account tokens.
pub struct ServiceAccountOptions {
    /// Further keys that verify tokens.
    pub keys: PublicKeys,
    pub signing_key: SigningKey,
    /// The first is in new tokens, all are accepted.
    pub issuers: Vec<String>,
    /// The URI of the public keys, if not at the server's own address.
    pub keys_uri: Option<String>,
    pub lifetimes: LifetimeRules,
}

impl AuthenticationOptions {
    /// The default options with a cluster's own key material.
    pub fn of(pki: &ServerPki) -> Result<AuthenticationOptions, KeyError> {
        Ok(AuthenticationOptions {
            anonymous: Anonymous::Allowed,
            token_file: TokenFile::default(),
            bootstrap_tokens: true,
            client_ca_pem: pki.ca_pem.clone(),
            retired_ca_pem: pki.retired_pem.clone(),
            front_proxy: FrontProxy::standard(vec![PROXY.to_owned()]),
            front_proxy_ca_pem: pki.front_proxy_authority.pem().to_owned(),
            service_accounts: ServiceAccountOptions {
                keys: PublicKeys::from_pem(&pki.service_account_public_keys_pem)?,
                signing_key: SigningKey::from_pem(&pki.service_account_key_pem)?,
                issuers: vec![ISSUER.to_owned()],
                keys_uri: None,
                lifetimes: LifetimeRules { longest: 0, extend: true },
            },
            api_audiences: Vec::new(),
        })
    }
}
