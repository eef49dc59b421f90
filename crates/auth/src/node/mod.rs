//! What nodes may do: a node reads what the pods bound to it need, and reports on itself and on them.
//!
//! A node is a user `system:node:<name>` in the group `system:nodes`. What depends on the node is decided
//! here by kind; everything else by the rules all nodes share. What the node writes is narrowed further by
//! the admission plugin NodeRestriction: here only the request is known, not the object.

mod graph;
mod references;
mod rules;

pub use graph::{Graph, Vertex, VertexKind};
pub use references::secrets_of_pod;
pub use rules::authorize;

use crate::User;

/// Every node's group.
pub const NODES: &str = "system:nodes";
const USER_PREFIX: &str = "system:node:";

/// The node a user is, if it is one; empty if it does not say which.
pub fn node_name(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(USER_PREFIX)?;
    user.is_in(NODES).then_some(name)
}
