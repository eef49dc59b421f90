//! The Node authorizer: a node reads the objects that its pods reference, and reports on itself and on its pods.
//!
//! A node is a user `system:node:<name>` in the group `system:nodes`. Requests that depend on the node are decided here by
//! kind; all others by the rules that all nodes share. The admission plugin NodeRestriction restricts writes further: here
//! only the request is known, not the object.

mod graph;
mod references;
mod rules;

pub use graph::{Graph, Vertex, VertexKind};
pub use rules::authorize;

use crate::User;

/// The group of all nodes.
pub const NODES: &str = "system:nodes";
const USER_PREFIX: &str = "system:node:";

/// The node name of a user that is a node; empty if its user name has none.
pub fn node_name(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(USER_PREFIX)?;
    user.is_in(NODES).then_some(name)
}
