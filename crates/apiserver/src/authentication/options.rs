//! What authentication is set up with.

use corten_auth::authentication::token_request::LifetimeRules;
use corten_auth::authentication::{Anonymous, FrontProxy, KeyError, PublicKeys, SigningKey, TokenFile};
use corten_pki::ServerPki;

/// The issuer of clusters that name none.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The proxies of clusters that name none.
const PROXY: &str = "front-proxy-client";

/// How users are told from one another.
pub struct AuthenticationOptions {
    pub anonymous: Anonymous,
    pub token_file: TokenFile,
    /// Whether secrets of type `bootstrap.kubernetes.io/token` are believed.
    pub bootstrap_tokens: bool,
    /// The authorities of client certificates, in PEM.
    pub client_ca_pem: String,
    pub front_proxy: FrontProxy,
    /// The authorities of front proxies, in PEM; without any no proxy is believed.
    pub front_proxy_ca_pem: String,
    pub service_accounts: ServiceAccountOptions,
    /// What the API server calls itself in tokens; its issuers, if empty.
    pub api_audiences: Vec<String>,
}

/// How service-account tokens are made and verified.
pub struct ServiceAccountOptions {
    /// Further keys whose tokens are believed.
    pub keys: PublicKeys,
    pub signing_key: SigningKey,
    /// The first makes new tokens, all are believed.
    pub issuers: Vec<String>,
    /// Where others find the keys, if not at the server's own address.
    pub keys_uri: Option<String>,
    pub lifetimes: LifetimeRules,
}

impl AuthenticationOptions {
    /// What a cluster's own key material makes possible.
    pub fn of(pki: &ServerPki) -> Result<AuthenticationOptions, KeyError> {
        Ok(AuthenticationOptions {
            anonymous: Anonymous::Everybody,
            token_file: TokenFile::default(),
            bootstrap_tokens: true,
            client_ca_pem: pki.ca_pem.clone(),
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
