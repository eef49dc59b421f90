//! ServiceAccount controller: every active namespace has a service account `default`.
//!
//! Watches namespaces and service accounts. Creates missing ones, and never changes or deletes one.

use corten_client::{Caches, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use crate::namespaces;

const DEFAULT: &str = "default";

pub(crate) struct ServiceAccounts;

/// The state of one namespace.
#[derive(Debug, Default)]
pub(crate) struct World {
    active: bool,
    has_default: bool,
}

impl Controller for ServiceAccounts {
    type World = World;

    fn name(&self) -> &'static str {
        "serviceaccount-controller"
    }

    fn account(&self) -> &'static str {
        "service-account-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::NAMESPACES),
            Watch {
                kind: &kinds::SERVICE_ACCOUNTS,
                keys: |_, change, keys| namespaces::of_object_named(DEFAULT, change, keys),
            },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let account = Key::new(key.name.clone(), DEFAULT);
        World {
            active: namespaces::is_active(caches, key),
            has_default: caches.of(&kinds::SERVICE_ACCOUNTS).get(&account).is_some(),
        }
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        if !world.active || world.has_default {
            return Plan::done();
        }
        let object = kinds::SERVICE_ACCOUNTS.new_object(&key.name, DEFAULT);
        Plan::done().then(Action::Create { kind: &kinds::SERVICE_ACCOUNTS, object })
    }

    fn workers(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_active_namespace_without_one_gets_one() {
        for (active, has_default, creates) in
            [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
        {
            let plan = ServiceAccounts.plan(
                &Key::new("", "shop"),
                &World { active, has_default },
                Timestamp::UNIX_EPOCH,
            );
            let accounts: Vec<_> = plan
                .actions()
                .map(|action| match action {
                    Action::Create { object, .. } => Key::of(object),
                    other => panic!("{other:?}"),
                })
                .collect();
            let wanted = if creates { vec![Key::new("shop", "default")] } else { Vec::new() };
            assert_eq!(accounts, wanted, "active {active}, has one {has_default}");
        }
    }
}
