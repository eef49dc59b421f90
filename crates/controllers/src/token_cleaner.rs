//! Token cleaner: deletes expired bootstrap tokens.
//!
//! Watches the secrets of type `bootstrap.kubernetes.io/token` in `kube-system`, and only deletes them.

use corten_api::{Value, meta};
use corten_auth::authentication::bootstrap_token::{self, Expiration, NAMESPACE};
use corten_client::{Caches, DeleteOptions, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use crate::secrets::{BOOTSTRAP_TOKEN, Secret};

pub(crate) struct TokenCleaner;

impl Controller for TokenCleaner {
    /// The token, if it exists.
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        "token-cleaner-controller"
    }

    fn account(&self) -> &'static str {
        "token-cleaner"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch {
            kind: &kinds::SECRETS,
            keys: |_, change, keys| {
                let secret = change.object();
                if secret.key.namespace == NAMESPACE && secret.view::<Secret>().kind == BOOTSTRAP_TOKEN {
                    keys.push(secret.key.clone());
                }
            },
        }]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Value> {
        caches.of(&kinds::SECRETS).get(key).map(|secret| secret.tree())
    }

    fn plan(&self, key: &Key, secret: &Option<Value>, now: Timestamp) -> Plan {
        let Some(secret) = secret.as_ref().filter(|secret| !meta::is_deleting(secret)) else {
            return Plan::done();
        };
        match bootstrap_token::expiration(secret, now) {
            Expiration::Never => Plan::done(),
            Expiration::In(left) => Plan::done().requeue_after(left),
            Expiration::Over => {
                let options =
                    DeleteOptions { uid: Some(meta::uid(secret).into()), ..DeleteOptions::default() };
                Plan::done().then(Action::Delete { kind: &kinds::SECRETS, key: key.clone(), options })
            }
        }
    }

    fn workers(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corten_api::value;

    use super::*;
    use crate::testing::{at, at_text};

    fn plan(expiration: &str) -> Plan {
        let mut secret = value!({"metadata": {"name": "bootstrap-token-abcdef", "uid": "u"}, "data": {}});
        if !expiration.is_empty() {
            crate::secrets::set_data(&mut secret, "expiration", expiration.as_bytes());
        }
        TokenCleaner.plan(&Key::new(NAMESPACE, "bootstrap-token-abcdef"), &Some(secret), at(0))
    }

    #[test]
    fn tokens_go_when_their_time_is_over() {
        assert!(plan("").is_done());
        assert_eq!(plan(&at_text(90)), Plan::done().requeue_after(Duration::from_secs(90)));
        for over in [at_text(0), at_text(-1), "soon".to_owned()] {
            let plan = plan(&over);
            let [Action::Delete { options, .. }] = plan.actions().collect::<Vec<_>>()[..] else {
                panic!("{over}: {plan:?}")
            };
            assert_eq!(options.uid.as_deref(), Some("u"));
        }
    }
}
