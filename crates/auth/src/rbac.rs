//! Role-based access control: roles contain rules, bindings grant roles to subjects.
//!
//! Rules only allow. `Rbac` decides from an index by subject, so that a decision does not depend on the number of bindings of
//! other subjects.

mod aggregate;
mod covers;
mod index;
mod policy;
mod reconcile;
mod rule;

pub use aggregate::{aggregate_all, aggregated_rules};
pub use covers::{TooLarge, describe_missing, uncovered};
pub use index::{MissingRole, Rbac, Resolved, RoleKind, RoleRef, summary};
pub use policy::{BootstrapPolicy, bootstrap_policy, node_rules};
pub use reconcile::{Change, reconcile_binding, reconcile_role};
pub use rule::{Rule, rules_of};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
