//! Bootstrap signer: signs the kubeconfig in `kube-public/cluster-info` with every bootstrap token that may sign, so
//! that a machine that knows a token can trust it before it knows the cluster's certificates.
//!
//! Watches that config map and the bootstrap tokens. Only writes signatures into the map; never creates it.

use corten_api::Value;
use corten_auth::authentication::bootstrap_token::{self, NAMESPACE};
use corten_client::{Caches, Change, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use crate::secrets::{BOOTSTRAP_TOKEN, Secret};

const CONTENT: &str = "kubeconfig";
const SIGNATURE: &str = "jws-kubeconfig-";

pub(crate) struct BootstrapSigner;

/// The config map and the signing tokens.
#[derive(Debug, Default)]
pub(crate) struct World {
    cluster_info: Option<Value>,
    tokens: Vec<Value>,
}

impl Controller for BootstrapSigner {
    type World = World;

    fn name(&self) -> &'static str {
        "bootstrap-signer-controller"
    }

    fn account(&self) -> &'static str {
        "bootstrap-signer"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch {
                kind: &kinds::CONFIG_MAPS,
                keys: |_, change, keys| {
                    keys.extend(Some(cluster_info()).filter(|key| *key == change.object().key))
                },
            },
            Watch {
                kind: &kinds::SECRETS,
                keys: |_, change, keys| keys.extend(is_token(change).then(cluster_info)),
            },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let secrets = caches.of(&kinds::SECRETS).list(NAMESPACE);
        let tokens = secrets.iter().filter(|secret| secret.view::<Secret>().kind == BOOTSTRAP_TOKEN);
        World {
            cluster_info: caches.of(&kinds::CONFIG_MAPS).get(key).map(|map| map.tree()),
            tokens: tokens.map(|secret| secret.tree()).collect(),
        }
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(map) = &world.cluster_info else { return Plan::done() };
        let Some(content) = map.str_at(&["data", CONTENT]) else { return Plan::done() };
        let mut object = map.clone();
        if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
            data.retain(|key, _| !key.starts_with(SIGNATURE));
            for token in &world.tokens {
                let Some((id, secret)) = bootstrap_token::for_signing(token, now) else { continue };
                data.insert(format!("{SIGNATURE}{id}"), bootstrap_token::sign(content, &id, &secret));
            }
        }
        if same_data(&object, map) {
            return Plan::done();
        }
        Plan::done().then(Action::Update { kind: &kinds::CONFIG_MAPS, object, subresource: "" })
    }

    fn workers(&self) -> usize {
        1
    }
}

fn cluster_info() -> Key {
    Key::new("kube-public", "cluster-info")
}

fn is_token(change: &Change) -> bool {
    let is = |secret: &std::sync::Arc<corten_client::Object>| {
        secret.key.namespace == NAMESPACE && secret.view::<Secret>().kind == BOOTSTRAP_TOKEN
    };
    change.states().any(is)
}

/// True if two maps hold the same data, in any order.
fn same_data(a: &Value, b: &Value) -> bool {
    let data = |map: &Value| map.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let (a, b) = (data(a), data(b));
    a.len() == b.len() && a.iter().all(|(key, value)| b.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::testing::{at, at_text};

    fn token(id: &str, more: &[(&str, &str)]) -> Value {
        let mut secret = value!({
            "metadata": {"name": (format!("bootstrap-token-{id}")), "namespace": "kube-system"},
            "type": BOOTSTRAP_TOKEN,
        });
        let usual =
            [("token-id", id), ("token-secret", "0123456789abcdef"), ("usage-bootstrap-signing", "true")];
        for (key, text) in usual.iter().chain(more) {
            crate::secrets::set_data(&mut secret, key, text.as_bytes());
        }
        secret
    }

    fn map(data: Value) -> Option<Value> {
        Some(value!({"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": data}))
    }

    /// The ids of the tokens that have signed after a reconcile; `None` if nothing changes.
    fn signed(data: Value, tokens: Vec<Value>) -> Option<Vec<String>> {
        let world = World { cluster_info: map(data), tokens };
        let plan = BootstrapSigner.plan(&cluster_info(), &world, at(0));
        let [Action::Update { object, .. }] = plan.actions().collect::<Vec<_>>()[..] else {
            assert!(plan.is_done());
            return None;
        };
        let again = World { cluster_info: Some(object.clone()), tokens: world.tokens };
        assert!(
            BootstrapSigner.plan(&cluster_info(), &again, at(0)).is_done(),
            "signatures are always the same"
        );
        let keys = object.get("data").unwrap().as_object().unwrap().keys();
        Some(keys.filter_map(|key| key.strip_prefix(SIGNATURE)).map(str::to_owned).collect())
    }

    #[test]
    fn tokens_that_may_sign_do() {
        let config = || value!({"kubeconfig": "payload"});
        assert_eq!(signed(config(), vec![]), None);
        assert_eq!(signed(config(), vec![token("abcdef", &[])]), Some(vec!["abcdef".to_owned()]));
        let two = vec![token("abcdef", &[]), token("uvwxyz", &[])];
        assert_eq!(signed(config(), two).unwrap().len(), 2);
        assert_eq!(signed(value!({}), vec![token("abcdef", &[])]), None, "there is nothing to sign");
        for (case, more) in [
            ("not for signing", ("usage-bootstrap-signing", "false")),
            ("another id", ("token-id", "zzzzzz")),
            ("no secret", ("token-secret", "")),
            ("expired", ("expiration", "2020-01-01T00:00:00Z")),
            ("unreadable end", ("expiration", "soon")),
        ] {
            assert_eq!(signed(config(), vec![token("abcdef", &[more])]), None, "{case}");
        }
        let later = at_text(60);
        assert!(signed(config(), vec![token("abcdef", &[("expiration", later.as_str())])]).is_some());
    }

    #[test]
    fn old_signatures_go() {
        let old = || value!({"kubeconfig": "payload", "jws-kubeconfig-abcdef": "old", "more": "kept"});
        assert_eq!(signed(old(), vec![]), Some(vec![]));
        assert_eq!(signed(old(), vec![token("abcdef", &[])]), Some(vec!["abcdef".to_owned()]));
        assert!(BootstrapSigner.plan(&cluster_info(), &World::default(), at(0)).is_done());
    }
}
