//! Service-account token controller: fills secrets of type `kubernetes.io/service-account-token` with a token that
//! never expires, and deletes them with their service account.
//!
//! Watches secrets and service accounts. A deleted secret is also removed from its account's list. Never creates a
//! secret, and never replaces a token. Has the identity of the controller manager itself, since other controllers'
//! tokens come from it.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, meta};
use corten_auth::authentication::{SigningKey, legacy_token};
use corten_client::{Cache, Caches, Change, DeleteOptions, Error, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use crate::secrets::{self, ACCOUNT_NAME, ACCOUNT_UID, SERVICE_ACCOUNT_TOKEN, Secret};

/// The separator between the names of an account and of a deleted secret; no name contains it.
const GONE: char = '/';
/// The delay before a retry when the API server does not respond.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct ServiceAccountTokens {
    /// The key that signs tokens.
    pub(crate) key: Arc<SigningKey>,
    /// The CA bundle that is stored with a token, in PEM; none if empty.
    pub(crate) root_ca: String,
}

/// The state of one secret.
#[derive(Debug)]
pub(crate) enum World {
    /// Nothing has to be done.
    Nothing,
    /// A token secret and its account, if there is one; from the cache, unless `asked`.
    Token { secret: Value, account: Option<Value>, asked: bool },
    /// The API server did not say whether there is an account.
    Unknown,
    /// An account with a deleted secret in its list.
    Gone { account: Value, secret: String },
}

impl Controller for ServiceAccountTokens {
    type World = World;

    fn name(&self) -> &'static str {
        "serviceaccount-token-controller"
    }

    fn account(&self) -> &'static str {
        ""
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::SECRETS, keys: |_, change, keys| of_secret(change, keys) },
            Watch {
                kind: &kinds::SERVICE_ACCOUNTS,
                keys: |caches, change, keys| of_account(&caches.of(&kinds::SECRETS), change, keys),
            },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let accounts = caches.of(&kinds::SERVICE_ACCOUNTS);
        let account = |name: &str| accounts.get(&Key::new(key.namespace.clone(), name)).map(|a| a.tree());
        if let Some((name, secret)) = key.name.split_once(GONE) {
            let gone = |account| World::Gone { account, secret: secret.to_owned() };
            return account(name).map_or(World::Nothing, gone);
        }
        let Some(secret) = caches.of(&kinds::SECRETS).get(key) else { return World::Nothing };
        let view = secret.view::<Secret>();
        if view.kind != SERVICE_ACCOUNT_TOKEN || view.account.is_empty() {
            return World::Nothing;
        }
        let account = account(&view.account).filter(|account| secrets::is_meant(account, &view.account_uid));
        World::Token { secret: secret.tree(), account, asked: false }
    }

    /// The account may be too new for the cache.
    fn ask(&self, world: &World) -> Vec<String> {
        match world {
            World::Token { secret, account: None, asked: false } => {
                let (namespace, name) = (meta::namespace(secret), text(secret, ACCOUNT_NAME));
                vec![kinds::SERVICE_ACCOUNTS.path(namespace, name, "")]
            }
            _ => Vec::new(),
        }
    }

    fn learn(&self, world: &mut World, _: &str, answer: Result<Value, Error>) {
        let World::Token { secret, account, asked } = world else { return };
        *asked = true;
        match answer {
            Ok(found) => *account = Some(found).filter(|found| is_of(secret, found)),
            Err(error) if error.is_not_found() => {}
            Err(_) => *world = World::Unknown,
        }
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        match world {
            World::Nothing => Plan::done(),
            World::Unknown => Plan::done().requeue_after(AGAIN),
            World::Gone { account, secret } => forget(account, secret),
            World::Token { secret, account: Some(account), .. } => self.fill(secret, account),
            World::Token { secret, account: None, .. } => {
                let options =
                    DeleteOptions { uid: Some(meta::uid(secret).into()), ..DeleteOptions::default() };
                Plan::done().then(Action::Delete { kind: &kinds::SECRETS, key: key.clone(), options })
            }
        }
    }
}

impl ServiceAccountTokens {
    /// Adds the missing data to a secret.
    fn fill(&self, secret: &Value, account: &Value) -> Plan {
        let root_ca = self.root_ca.as_bytes();
        let needs_ca = !root_ca.is_empty() && secrets::data(secret, "ca.crt") != root_ca;
        let needs_namespace = secrets::data(secret, "namespace").is_empty();
        let needs_token = secrets::data(secret, "token").is_empty();
        if !needs_ca && !needs_namespace && !needs_token {
            return Plan::done();
        }
        let mut object = secret.clone();
        if needs_ca {
            secrets::set_data(&mut object, "ca.crt", root_ca);
        }
        if needs_namespace {
            secrets::set_data(&mut object, "namespace", meta::namespace(secret).as_bytes());
        }
        if needs_token {
            let claims = legacy_token::claims(account, meta::name(secret));
            let Some(token) = self.key.token(&claims) else {
                tracing::warn!(secret = %Key::of(secret), "cannot sign service-account token");
                return Plan::done();
            };
            secrets::set_data(&mut object, "token", token.as_bytes());
        }
        object.set(&["metadata", "annotations", ACCOUNT_NAME], meta::name(account));
        object.set(&["metadata", "annotations", ACCOUNT_UID], meta::uid(account));
        Plan::done().then(Action::Update { kind: &kinds::SECRETS, object, subresource: "" })
    }
}

fn text<'a>(secret: &'a Value, annotation: &str) -> &'a str {
    secret.str_at(&["metadata", "annotations", annotation]).unwrap_or_default()
}

fn is_of(secret: &Value, account: &Value) -> bool {
    secrets::is_meant(account, text(secret, ACCOUNT_UID))
}

fn of_secret(change: &Change, keys: &mut Vec<Key>) {
    let object = change.object();
    let view = object.view::<Secret>();
    if view.kind != SERVICE_ACCOUNT_TOKEN || view.account.is_empty() {
        return;
    }
    keys.push(object.key.clone());
    if change.new.is_none() {
        let both = format!("{}{GONE}{}", view.account, object.key.name);
        keys.push(Key::new(object.key.namespace.clone(), both));
    }
}

/// A deleted account takes its token secrets along.
fn of_account(secrets: &Cache, change: &Change, keys: &mut Vec<Key>) {
    if change.new.is_some() {
        return;
    }
    let account = &change.object().key;
    for secret in secrets.list(&account.namespace) {
        let view = secret.view::<Secret>();
        if view.kind == SERVICE_ACCOUNT_TOKEN && view.account == account.name {
            keys.push(secret.key.clone());
        }
    }
}

/// Removes a secret from an account's list.
fn forget(account: &Value, secret: &str) -> Plan {
    if !secrets::refers_to(account, secret) {
        return Plan::done();
    }
    let mut object = account.clone();
    let own = object.get_mut("secrets").and_then(Value::as_array_mut).map(|own| {
        own.retain(|reference| reference.str_at(&["name"]) != Some(secret));
        own.is_empty()
    });
    if own == Some(true) {
        object.remove(&["secrets"]);
    }
    Plan::done().then(Action::Update { kind: &kinds::SERVICE_ACCOUNTS, object, subresource: "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;
    use corten_api::Status;
    use corten_api::value;
    use corten_auth::authentication::{PublicKeys, Token};

    fn controller() -> ServiceAccountTokens {
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        ServiceAccountTokens { key: Arc::new(SigningKey::from_pem(&key).unwrap()), root_ca: "PEM".to_owned() }
    }

    fn account() -> Value {
        value!({
            "metadata": {"name": "builder", "namespace": "shop", "uid": "a1", "resourceVersion": "4"},
            "secrets": [{"name": "other"}, {"name": "token"}],
        })
    }

    fn secret(uid: &str, data: Value) -> Value {
        let mut secret = value!({
            "metadata": {
                "name": "token", "namespace": "shop", "uid": "s1", "resourceVersion": "5",
                "annotations": {"kubernetes.io/service-account.name": "builder"},
            },
            "type": SERVICE_ACCOUNT_TOKEN,
            "data": data,
        });
        if !uid.is_empty() {
            secret.set(&["metadata", "annotations", ACCOUNT_UID], uid);
        }
        secret
    }

    fn key() -> Key {
        Key::new("shop", "token")
    }

    fn plan(secret: Value, account: Option<Value>) -> Plan {
        controller().plan(&key(), &World::Token { secret, account, asked: false }, at(0))
    }

    fn updated(plan: &Plan) -> &Value {
        match plan.actions().collect::<Vec<_>>()[..] {
            [Action::Update { object, .. }] => object,
            _ => panic!("{plan:?}"),
        }
    }

    #[test]
    fn an_empty_secret_is_filled() {
        let controller = controller();
        let world = World::Token { secret: secret("", value!({})), account: Some(account()), asked: false };
        let plan = controller.plan(&key(), &world, at(0));
        let filled = updated(&plan);
        assert_eq!(secrets::data(filled, "ca.crt"), b"PEM");
        assert_eq!(secrets::data(filled, "namespace"), b"shop");
        assert_eq!(text(filled, ACCOUNT_UID), "a1");
        let token = String::from_utf8(secrets::data(filled, "token")).unwrap();
        let mut keys = PublicKeys::default();
        keys.add(controller.key.public().clone());
        let claims = Token::parse(&token).unwrap().verify(&keys).unwrap();
        assert_eq!(
            claims,
            value!({
                "iss": "kubernetes/serviceaccount",
                "kubernetes.io/serviceaccount/namespace": "shop",
                "kubernetes.io/serviceaccount/secret.name": "token",
                "kubernetes.io/serviceaccount/service-account.name": "builder",
                "kubernetes.io/serviceaccount/service-account.uid": "a1",
                "sub": "system:serviceaccount:shop:builder",
            })
        );
    }

    #[test]
    fn existing_tokens_are_kept() {
        let data = |ca: &str, namespace: &str, token: &str| {
            let mut secret = secret("a1", value!({}));
            for (key, text) in [("ca.crt", ca), ("namespace", namespace), ("token", token)] {
                if !text.is_empty() {
                    secrets::set_data(&mut secret, key, text.as_bytes());
                }
            }
            secret
        };
        assert!(plan(data("PEM", "shop", "mine"), Some(account())).is_done());
        let other_ca = plan(data("old", "odd", "mine"), Some(account()));
        assert_eq!(secrets::data(updated(&other_ca), "ca.crt"), b"PEM");
        assert_eq!(secrets::data(updated(&other_ca), "namespace"), b"odd");
        assert_eq!(secrets::data(updated(&other_ca), "token"), b"mine");
        let no_token = plan(data("PEM", "shop", ""), Some(account()));
        assert!(!secrets::data(updated(&no_token), "token").is_empty());
    }

    /// The plan for a secret whose account is not in the cache, given the API server's response.
    fn asked(uid: &str, answer: Result<Value, Error>) -> Plan {
        let mut world = World::Token { secret: secret(uid, value!({})), account: None, asked: false };
        let path = "/api/v1/namespaces/shop/serviceaccounts/builder";
        assert_eq!(controller().ask(&world), [path]);
        controller().learn(&mut world, path, answer);
        assert!(controller().ask(&world).is_empty(), "once is enough");
        controller().plan(&key(), &world, at(0))
    }

    #[test]
    fn a_token_goes_with_its_account() {
        let none = || Err(Status::not_found("", "serviceaccounts", "builder").into());
        for (uid, answer) in [("", none()), ("a1", none()), ("a0", Ok(account()))] {
            let plan = asked(uid, answer);
            let [Action::Delete { options, .. }] = plan.actions().collect::<Vec<_>>()[..] else {
                panic!("{plan:?}")
            };
            assert_eq!(options.uid.as_deref(), Some("s1"));
        }
        assert!(!updated(&asked("a1", Ok(account()))).is_null(), "one that is only new is filled");
        let unanswered = asked("a1", Err(Error::transport("no way")));
        assert_eq!(unanswered, Plan::done().requeue_after(AGAIN), "nothing is deleted for want of an answer");
    }

    #[test]
    fn a_secret_that_is_gone_is_forgotten() {
        let gone = |secret: &str| World::Gone { account: account(), secret: secret.to_owned() };
        let plan = |secret: &str| controller().plan(&Key::new("shop", "builder/x"), &gone(secret), at(0));
        assert_eq!(updated(&plan("token")).at(&["secrets"]), Some(&value!([{"name": "other"}])));
        assert!(plan("unknown").is_done());
    }
}
