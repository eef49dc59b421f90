//! Authentication: the user that a request's credentials prove.
//!
//! Credentials are tried in order: a front proxy's headers, the client's certificate, then a bearer token, in its header or
//! as a WebSocket subprotocol, against the token file, service accounts and bootstrap tokens. The first that proves a user
//! counts. An invalid credential is a `401`, never ignored: only a request without credentials is anonymous.

mod cluster_trust;
mod legacy_tokens;
mod options;
mod peer;
pub(crate) mod subprotocol;
mod token_cache;
mod token_review;
mod tokens;

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use corten_api::Status;
use corten_auth::authentication::token_request::LifetimeRules;
use corten_auth::authentication::{Anonymous, FrontProxy, PublicKeys, Refusal, SigningKey};
use corten_auth::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use parking_lot::RwLock;

pub(crate) use cluster_trust::publish;
pub use options::{AuthenticationOptions, ServiceAccountOptions};
pub(crate) use peer::{Certificate, Peer, certified};
pub(crate) use token_review::{review_self, review_token};

use crate::Server;
use crate::catalog::Catalog;
use tokens::Tokens;

const SPACE_BEFORE_TOKEN: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// The state of all authenticators.
pub(crate) struct Authentication {
    anonymous: Anonymous,
    anonymous_user: Arc<User>,
    front_proxy: FrontProxy,
    /// The standard headers of front proxies, which are removed from every request.
    standard_proxy: FrontProxy,
    tokens: Tokens,
    pub(crate) issuer: Issuer,
    trust: RwLock<cluster_trust::Trust>,
}

/// The issuer of service-account tokens.
pub(crate) struct Issuer {
    pub(crate) name: String,
    pub(crate) key: SigningKey,
    pub(crate) keys: PublicKeys,
    /// The URI of the public keys, if not at this server's own address.
    pub(crate) keys_uri: Option<String>,
    pub(crate) lifetimes: LifetimeRules,
    /// The API server's own audiences.
    pub(crate) audiences: Vec<String>,
}

/// The content of an `Authorization` header.
enum Bearer<'a> {
    Nothing,
    /// More than one space before the token, which upstream does not accept.
    Spaced,
    Token(&'a str),
}

impl Authentication {
    /// Publishes these CAs of clients from now on.
    pub(crate) fn replace_trust(&self, client_ca: &str, retired: &str) {
        self.trust.write().replace(client_ca, retired);
    }

    pub(crate) fn new(options: AuthenticationOptions) -> Authentication {
        let trust = RwLock::new(cluster_trust::Trust::of(&options));
        let AuthenticationOptions { service_accounts, front_proxy, anonymous, .. } = options;
        let audiences = match options.api_audiences.is_empty() {
            true => service_accounts.issuers.clone(),
            false => options.api_audiences,
        };
        let mut keys = PublicKeys::default();
        keys.add(service_accounts.signing_key.public().clone());
        keys.extend(service_accounts.keys);
        Authentication {
            anonymous,
            anonymous_user: Arc::new(User::anonymous()),
            front_proxy,
            standard_proxy: FrontProxy::standard(Vec::new()),
            issuer: Issuer {
                name: service_accounts.issuers.first().cloned().unwrap_or_default(),
                key: service_accounts.signing_key,
                keys: keys.clone(),
                keys_uri: service_accounts.keys_uri,
                lifetimes: service_accounts.lifetimes,
                audiences: audiences.clone(),
            },
            tokens: Tokens::new(
                options.token_file,
                keys,
                service_accounts.issuers,
                audiences,
                options.bootstrap_tokens,
            ),
            trust,
        }
    }

    /// Starts the task that records the last use of long-lived tokens, which ends with the server.
    pub(crate) fn start_use_recorder(&self, server: Weak<Server>) {
        self.tokens.uses.start(server);
    }

    /// The user of a request, or a `401`; and a warning for the client, also with a `401`.
    pub(crate) fn authenticate(
        &self,
        catalog: &Catalog,
        peer: &Peer,
        headers: &HeaderMap,
        path: &str,
        now: Timestamp,
    ) -> (Result<Arc<User>, Status>, Option<&'static str>) {
        let mut refused = false;
        match peer {
            Peer::NoCertificate => {}
            Peer::InProcess(user) => return (Ok(user.clone()), None),
            Peer::Certificate(certificate) => match self.certified(certificate, headers, now) {
                Some(user) => return (Ok(user), None),
                None => refused = true,
            },
        }
        let mut warning = None;
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = match Bearer::of(header.unwrap_or_default()) {
            Bearer::Nothing => None,
            Bearer::Spaced => {
                warning = Some(SPACE_BEFORE_TOKEN);
                None
            }
            Bearer::Token(token) => Some(Cow::Borrowed(token)),
        };
        for token in [Ok(token), subprotocol::token(headers).map(|token| token.map(Cow::Owned))] {
            let proven = match token {
                Ok(None) => continue,
                Ok(Some(token)) => self.tokens.authenticate(catalog, &token, &self.issuer.audiences, now),
                Err(why) => Err(Refusal::Misplaced(why)),
            };
            match proven {
                Ok(proven) => return (Ok(proven.user), proven.warning),
                Err(refusal) => {
                    tracing::debug!(err = %refusal, "bearer token rejected");
                    refused = true;
                }
            }
        }
        if refused || !self.anonymous.allows(path) {
            return (Err(Status::unauthorized()), warning);
        }
        (Ok(self.anonymous_user.clone()), warning)
    }

    /// The user that a certificate proves: the one in a front proxy's headers, or the certificate's own.
    fn certified(&self, certificate: &Certificate, headers: &HeaderMap, now: Timestamp) -> Option<Arc<User>> {
        if certificate.expires <= now {
            return None;
        }
        if certificate.is_proxy {
            let headers: Vec<(&str, &str)> = headers
                .iter()
                .filter_map(|(name, value)| {
                    Some((name.as_str(), std::str::from_utf8(value.as_bytes()).ok()?))
                })
                .collect();
            let user = self.front_proxy.user(&headers);
            if let Some(mut user) = user {
                add_authenticated(&mut user);
                return Some(Arc::new(user));
            }
        }
        certificate.user.clone()
    }

    /// The headers of a request without its credentials, which no later step needs.
    pub(crate) fn without_credentials(&self, headers: &HeaderMap) -> HeaderMap {
        let owned = |name: &str| self.standard_proxy.owns(name) || self.front_proxy.owns(name);
        let mut headers = headers.clone();
        headers.remove(AUTHORIZATION);
        subprotocol::strip(&mut headers);
        let proxied: Vec<_> = headers.keys().filter(|name| owned(name.as_str())).cloned().collect();
        for name in proxied {
            headers.remove(name);
        }
        headers
    }
}

impl Bearer<'_> {
    fn of(header: &str) -> Bearer<'_> {
        let mut parts = header.trim().splitn(3, ' ');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(scheme), Some(token), rest) if scheme.eq_ignore_ascii_case("bearer") => {
                match (token.is_empty(), rest.is_some()) {
                    (false, _) => Bearer::Token(token),
                    (true, true) => Bearer::Spaced,
                    (true, false) => Bearer::Nothing,
                }
            }
            _ => Bearer::Nothing,
        }
    }
}

/// Adds the group `system:authenticated`, unless the user is anonymous or has it or `system:unauthenticated`.
fn add_authenticated(user: &mut User) {
    if user.name != ANONYMOUS && !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.into());
    }
}

#[cfg(test)]
mod tests;
