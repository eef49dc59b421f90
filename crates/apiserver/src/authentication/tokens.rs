//! Bearer tokens of every kind, in order: the token file, service accounts, bootstrap tokens.

use std::sync::Arc;

use corten_api::Value;
use corten_auth::User;
use corten_auth::authentication::bootstrap_token::{self, BootstrapToken};
use corten_auth::authentication::service_account_token::{Claims, Registered};
use corten_auth::authentication::{PublicKeys, Refusal, Token, TokenFile, legacy_token};
use jiff::Timestamp;

use super::legacy_tokens::Uses;
use super::token_cache::{Bound, Kind, Verified, VerifiedTokens};
use crate::catalog::Catalog;

pub(super) struct Tokens {
    file: TokenFile,
    keys: PublicKeys,
    issuers: Vec<String>,
    /// The API server's own audiences.
    audiences: Vec<String>,
    bootstrap: bool,
    verified: VerifiedTokens,
    pub(super) uses: Uses,
}

/// The user of a token.
pub(super) struct Proven {
    pub(super) user: Arc<User>,
    /// The wanted audiences that the token is valid for.
    pub(super) audiences: Vec<String>,
    pub(super) warning: Option<&'static str>,
}

impl Tokens {
    pub(super) fn new(
        file: TokenFile,
        keys: PublicKeys,
        issuers: Vec<String>,
        audiences: Vec<String>,
        bootstrap: bool,
    ) -> Tokens {
        let (verified, uses) = (VerifiedTokens::default(), Uses::default());
        Tokens { file, keys, issuers, audiences, bootstrap, verified, uses }
    }

    /// The user of a token that is valid for one of the wanted audiences.
    pub(super) fn authenticate(
        &self,
        catalog: &Catalog,
        token: &str,
        wanted: &[String],
        now: Timestamp,
    ) -> Result<Proven, Refusal> {
        if let Some(proven) = self.for_own_audiences(wanted, || self.file.user(token)) {
            return Ok(proven);
        }
        if let Some(outcome) = self.service_account(catalog, token, wanted, now) {
            return outcome;
        }
        self.for_own_audiences(wanted, || self.bootstrap(catalog, token, now)).ok_or(Refusal::Unknown)
    }

    /// The result for a token without audiences, which is valid for the API server.
    fn for_own_audiences(
        &self,
        wanted: &[String],
        find: impl FnOnce() -> Option<Arc<User>>,
    ) -> Option<Proven> {
        let audiences: Vec<String> = self.audiences.iter().filter(|a| wanted.contains(a)).cloned().collect();
        if audiences.is_empty() {
            return None;
        }
        Some(Proven { user: find()?, audiences, warning: None })
    }

    fn bootstrap(&self, catalog: &Catalog, token: &str, now: Timestamp) -> Option<Arc<User>> {
        let token = BootstrapToken::parse(token).filter(|_| self.bootstrap)?;
        let secret = object(catalog, "secrets", bootstrap_token::NAMESPACE, &token.secret_name())?;
        token.user(&secret, now).map(Arc::new)
    }

    /// `None` if the token is not one of a service account.
    fn service_account(
        &self,
        catalog: &Catalog,
        token: &str,
        wanted: &[String],
        now: Timestamp,
    ) -> Option<Result<Proven, Refusal>> {
        match self.verified.get_or_verify(token, || self.verify(token)) {
            Err(Refusal::Unknown) => None,
            Err(refusal) => Some(Err(refusal)),
            Ok(verified) => Some(self.check(&verified, catalog, token, wanted, now)),
        }
    }

    /// The claims of a token that one of this server's issuers signed.
    fn verify(&self, token: &str) -> Result<Verified, Refusal> {
        let token = Token::parse(token).ok_or(Refusal::Unknown)?;
        let is_legacy = token.issuer() == legacy_token::ISSUER;
        if !is_legacy && !self.issuers.iter().any(|issuer| issuer == token.issuer()) {
            return Err(Refusal::Unknown);
        }
        let claims = token.verify(&self.keys)?;
        let registered = Registered::read(&claims)?;
        let kind = match is_legacy {
            true => Kind::Legacy(legacy_token::Claims::read(&claims, &registered)?),
            false => Kind::Bound(Bound::new(Claims::read(&claims)?, &registered.id)),
        };
        Ok(Verified { registered, kind })
    }

    /// Checks that verified claims are valid now.
    fn check(
        &self,
        verified: &Verified,
        catalog: &Catalog,
        token: &str,
        wanted: &[String],
        now: Timestamp,
    ) -> Result<Proven, Refusal> {
        let audiences = verified.registered.check_audiences(wanted, &self.audiences)?;
        match &verified.kind {
            Kind::Bound(bound) => {
                verified.registered.check_time(now)?;
                bound.check(catalog, now)?;
                Ok(Proven { user: bound.user.clone(), audiences, warning: None })
            }
            Kind::Legacy(claims) => {
                let secret = object(catalog, "secrets", &claims.namespace, &claims.secret);
                let account = object(catalog, "serviceaccounts", &claims.namespace, &claims.name);
                let outcome = claims.check(token, secret.as_ref(), account.as_ref());
                if let (Ok(_) | Err(Refusal::MarkedInvalid { .. }), Some(secret)) = (&outcome, &secret) {
                    self.uses.queue_use(secret, now);
                }
                let accepted = outcome?;
                let warning = accepted.auto_generated.then_some(legacy_token::AUTO_GENERATED);
                Ok(Proven { user: Arc::new(accepted.user), audiences, warning })
            }
        }
    }
}

fn object(catalog: &Catalog, resource: &str, namespace: &str, name: &str) -> Option<Value> {
    Some(catalog.cache("", resource)?.get(namespace, name)?.tree())
}
