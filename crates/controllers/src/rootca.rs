//! Root CA publisher: every active namespace has the CA bundle by which its pods verify the API server.
//!
//! Watches namespaces and config maps. Creates the config map `kube-root-ca.crt` and restores its data; never deletes
//! one, and never touches any other config map.

use corten_api::{Value, value};
use corten_client::{Caches, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use crate::namespaces;

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
/// Upstream's description.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
     endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
     distributions of Kubernetes clusters.";

pub(crate) struct RootCaPublisher {
    /// The CA bundle in PEM.
    pub(crate) root_ca: String,
}

/// The state of one namespace.
#[derive(Debug, Default)]
pub(crate) struct World {
    active: bool,
    published: Option<Value>,
}

impl Controller for RootCaPublisher {
    type World = World;

    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher-controller"
    }

    fn account(&self) -> &'static str {
        "root-ca-cert-publisher"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::NAMESPACES),
            Watch {
                kind: &kinds::CONFIG_MAPS,
                keys: |_, change, keys| namespaces::of_object_named(NAME, change, keys),
            },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let map = Key::new(key.name.clone(), NAME);
        World {
            active: namespaces::is_active(caches, key),
            published: caches.of(&kinds::CONFIG_MAPS).get(&map).map(|map| map.tree()),
        }
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        if !world.active {
            return Plan::done();
        }
        let kind = &kinds::CONFIG_MAPS;
        let Some(published) = &world.published else {
            let object = self.corrected(kind.new_object(&key.name, NAME));
            return Plan::done().then(Action::Create { kind, object });
        };
        if self.is_right(published) {
            return Plan::done();
        }
        let object = self.corrected(published.clone());
        Plan::done().then(Action::Update { kind, object, subresource: "" })
    }

    fn workers(&self) -> usize {
        1
    }
}

impl RootCaPublisher {
    fn data(&self) -> Value {
        let root_ca = self.root_ca.as_str();
        value!({ "ca.crt": root_ca })
    }

    /// True if a config map has the CA bundle; any description will do.
    fn is_right(&self, map: &Value) -> bool {
        let described = map.str_at(&["metadata", "annotations", DESCRIPTION_ANNOTATION]);
        map.get("data") == Some(&self.data()) && described.is_some_and(|text| !text.is_empty())
    }

    fn corrected(&self, mut map: Value) -> Value {
        map.set(&["metadata", "annotations", DESCRIPTION_ANNOTATION], DESCRIPTION);
        map.set(&["data"], self.data());
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(active: bool, published: Option<Value>) -> Plan {
        let publisher = RootCaPublisher { root_ca: "PEM".to_owned() };
        publisher.plan(&Key::new("", "shop"), &World { active, published }, Timestamp::UNIX_EPOCH)
    }

    fn map(ca: &str, description: &str) -> Value {
        value!({
            "metadata": {
                "name": "kube-root-ca.crt",
                "namespace": "shop",
                "annotations": { "kubernetes.io/description": description, "mine": "kept" },
            },
            "data": { "ca.crt": ca },
        })
    }

    #[test]
    fn a_missing_one_is_created() {
        let plan = plan(true, None);
        let [Action::Create { object, .. }] = plan.actions().collect::<Vec<_>>()[..] else {
            panic!("{plan:?}")
        };
        assert_eq!(Key::of(object), Key::new("shop", "kube-root-ca.crt"));
        assert_eq!(object.str_at(&["data", "ca.crt"]), Some("PEM"));
    }

    #[test]
    fn a_wrong_one_is_put_right() {
        let mut more = map("PEM", "Text");
        more.set(&["data", "more"], "x");
        for (case, wrong) in
            [("data", map("other", "Text")), ("description", map("PEM", "")), ("more data", more)]
        {
            let plan = plan(true, Some(wrong));
            let [Action::Update { object, .. }] = plan.actions().collect::<Vec<_>>()[..] else {
                panic!("{case}: {plan:?}")
            };
            assert_eq!(object, &map("PEM", DESCRIPTION), "{case}");
        }
    }

    #[test]
    fn nothing_else_is_touched() {
        assert!(plan(true, Some(map("PEM", "Some words of my own"))).is_done());
        assert!(plan(false, None).is_done());
        assert!(plan(false, Some(map("other", ""))).is_done());
    }
}
