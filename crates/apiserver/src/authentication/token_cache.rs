//! A cache of verified service-account tokens: the signature of a token is verified once and not with every request.
//!
//! Only the claims are cached, which never change. Their validity now, and the existence of the objects that the token is
//! bound to, are checked with every request. Tokens are kept as digests; their number is limited, and the least recently
//! used are dropped first.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corten_auth::User;
use corten_auth::authentication::service_account_token::{self, Claims, Registered};
use corten_auth::authentication::{Refusal, digest, legacy_token};
use jiff::Timestamp;
use parking_lot::RwLock;

use crate::catalog::Catalog;

/// The number of tokens in a generation.
const GENERATION: usize = 4096;

/// The claims of a token, and its user.
pub(super) struct Verified {
    pub(super) registered: Registered,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Bound(Bound),
    Legacy(legacy_token::Claims),
}

pub(super) struct Bound {
    claims: Claims,
    pub(super) user: Arc<User>,
    /// For every object that the token is bound to, the revision at which it was last checked; an object does not change
    /// without its revision.
    alive_at: Box<[AtomicU64]>,
}

impl Bound {
    pub(super) fn new(claims: Claims, token_id: &str) -> Bound {
        let user = Arc::new(claims.user(token_id));
        let alive_at = claims.references().map(|_| AtomicU64::new(0)).collect();
        Bound { claims, user, alive_at }
    }

    /// Checks that the objects that the token is bound to exist.
    pub(super) fn check(&self, catalog: &Catalog, now: Timestamp) -> Result<(), Refusal> {
        for ((kind, reference), alive_at) in self.claims.references().zip(&self.alive_at) {
            let namespace = match kind {
                service_account_token::Kind::Node => "",
                _ => self.claims.namespace.as_str(),
            };
            let object =
                catalog.cache("", kind.resource()).and_then(|cache| cache.get(namespace, &reference.name));
            if object.as_ref().is_some_and(|o| o.revision == alive_at.load(Ordering::Relaxed)) {
                continue;
            }
            let tree = object.as_ref().map(|object| object.tree());
            service_account_token::check(kind, &self.claims, reference, tree.as_ref(), now)?;
            // An object that is being deleted is valid only for a while: it is checked every time.
            if let (Some(object), Some(tree)) = (object, tree)
                && !corten_api::meta::is_deleting(&tree)
            {
                alive_at.store(object.revision, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// The tokens in use, by digest, in two generations: the younger one grows, and the older one is dropped when the
/// younger is full.
#[derive(Default)]
pub(super) struct VerifiedTokens(RwLock<Generations>);

#[derive(Default)]
struct Generations {
    younger: HashMap<[u8; 32], Arc<Verified>>,
    older: HashMap<[u8; 32], Arc<Verified>>,
}

impl VerifiedTokens {
    /// A token's claims: the cached ones, or those that verification returns.
    pub(super) fn get_or_verify(
        &self,
        token: &str,
        verify: impl FnOnce() -> Result<Verified, Refusal>,
    ) -> Result<Arc<Verified>, Refusal> {
        let key = digest(token.as_bytes());
        let generations = self.0.read();
        if let Some(found) = generations.younger.get(&key) {
            return Ok(found.clone());
        }
        let known = generations.older.get(&key).cloned();
        drop(generations);
        let verified = match known {
            Some(known) => known,
            None => Arc::new(verify()?),
        };
        let mut generations = self.0.write();
        if generations.younger.len() >= GENERATION {
            generations.older = std::mem::take(&mut generations.younger);
        }
        generations.younger.insert(key, verified.clone());
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified() -> Verified {
        Verified { registered: Registered::default(), kind: Kind::Bound(Bound::new(Claims::default(), "")) }
    }

    #[test]
    fn a_token_in_use_is_verified_once() {
        let tokens = VerifiedTokens::default();
        let first = tokens.get_or_verify("a", || Ok(verified())).unwrap();
        for other in 0..GENERATION {
            tokens.get_or_verify(&other.to_string(), || Ok(verified())).unwrap();
        }
        let again = tokens.get_or_verify("a", || Err(Refusal::Signature)).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn two_generations_are_kept_and_no_failures() {
        let tokens = VerifiedTokens::default();
        assert!(tokens.get_or_verify("bad", || Err(Refusal::Signature)).is_err());
        for other in 0..3 * GENERATION {
            tokens.get_or_verify(&other.to_string(), || Ok(verified())).unwrap();
        }
        let generations = tokens.0.read();
        assert!(generations.younger.len() + generations.older.len() <= 2 * GENERATION);
        drop(generations);
        assert!(tokens.get_or_verify("bad", || Err(Refusal::Signature)).is_err());
        assert!(tokens.get_or_verify("0", || Err(Refusal::Signature)).is_err(), "the oldest is forgotten");
    }
}
