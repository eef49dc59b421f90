//! Authorization: the authorizers of `--authorization-mode`, in their order.
//!
//! Every request passes these functions, whatever its path. Members of `system:masters` are allowed before any authorizer is
//! called, so that a cluster can always be repaired.

pub(crate) mod bootstrap_policy;
pub(crate) mod device_claims;
pub(crate) mod escalation;
mod filters;
mod impersonation;
mod modes;
mod node_feed;
pub(crate) mod policy_params;
mod rbac_feed;

use corten_api::Status;
use corten_api::status::quoted;
use corten_auth::rbac::{self, Rule};
use corten_auth::{Attributes, Decision, MASTERS, User, node};
use corten_store::Store;

pub(crate) use filters::{authorize_request, effective_user};
pub use modes::AuthorizationModes;

use crate::call::Backend;
use impersonation::{LastModes, NODE_NAME};
use modes::Mode;
use node_feed::NodeFeed;
use rbac_feed::RbacFeed;

/// The authorizers.
pub(crate) struct Authorizer {
    modes: AuthorizationModes,
    /// Decides about escalation in every mode.
    rbac: RbacFeed,
    node: NodeFeed,
    node_rules: Vec<Rule>,
    last_modes: LastModes,
}

/// The rules of a user in a namespace, as far as they can be listed.
#[derive(Default)]
pub(crate) struct UserRules {
    pub rules: Vec<Rule>,
    /// True if there may be more.
    pub incomplete: bool,
    pub errors: Vec<String>,
}

impl Authorizer {
    /// Loads roles, bindings and pods and observes their changes. Ready to decide when it returns.
    pub(crate) fn start(modes: AuthorizationModes, store: &Store) -> Authorizer {
        let follows_nodes = modes.has(Mode::Node);
        Authorizer {
            rbac: RbacFeed::start(store),
            node: if follows_nodes { NodeFeed::start(store) } else { NodeFeed::default() },
            node_rules: rbac::node_rules(),
            last_modes: LastModes::default(),
            modes,
        }
    }

    pub(crate) fn authorize(&self, asked: &Attributes<'_>) -> Decision {
        if asked.user.is_in(MASTERS) {
            return Decision::Allow(String::new());
        }
        let mut reasons = String::new();
        for mode in self.modes.iter() {
            let decision = match mode {
                Mode::AlwaysAllow => Decision::Allow(String::new()),
                Mode::AlwaysDeny => Decision::NoOpinion("Everything is forbidden.".to_owned()),
                Mode::Node => node::authorize(asked, &self.node_rules, || self.node.graph()),
                Mode::Rbac => self.rbac.read().authorize(asked),
            };
            let Decision::NoOpinion(reason) = decision else { return decision };
            if !reason.is_empty() {
                let line = if reasons.is_empty() { "" } else { "\n" };
                reasons.push_str(&format!("{line}{}: {reason}", mode.name()));
            }
        }
        Decision::NoOpinion(reasons)
    }

    /// The rules of a user in a namespace.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        let mut all = UserRules::default();
        for mode in self.modes.iter() {
            match mode {
                Mode::AlwaysAllow => all.rules.extend(full_authority()),
                Mode::AlwaysDeny => {}
                Mode::Node if node::node_name(user).is_some() => {
                    all.incomplete = true;
                    all.errors.push("node authorizer does not support user rule resolution".to_owned());
                }
                Mode::Node => {}
                Mode::Rbac => {
                    let resolved = self.rbac.read().rules_for(user, namespace);
                    all.rules.extend(resolved.rules);
                    all.errors.extend(resolved.missing.iter().map(ToString::to_string));
                }
            }
        }
        all
    }
}

/// All verbs on all resources and paths.
fn full_authority() -> [Rule; 2] {
    let all = || vec![corten_api::Str::new_static("*")];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

/// The decision about further permissions of a request that has already been authorized.
pub(crate) fn authorize(backend: &Backend, asked: &Attributes<'_>) -> Decision {
    backend.authorizer.authorize(asked)
}

/// Returns an error unless the request is allowed.
pub(crate) fn require(authorizer: &Authorizer, asked: &Attributes<'_>) -> Result<(), Status> {
    match authorizer.authorize(asked) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(refusal(asked, &reason)),
    }
}

/// The `Forbidden` status of a denied request.
fn refusal(asked: &Attributes<'_>, reason: &str) -> Status {
    let user = quoted(&asked.user.name);
    let verb = asked.verb;
    let mut why = match asked.path {
        Some(path) => format!("User {user} cannot {verb} path {}", quoted(path)),
        None => {
            let resource = match asked.subresource {
                "" => quoted(asked.resource),
                sub => quoted(&format!("{}/{sub}", asked.resource)),
            };
            let scope = match asked.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quoted(namespace)),
            };
            let group = quoted(asked.group);
            format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
        }
    };
    // A browser may render the text as HTML.
    why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Status::forbidden(asked.group, asked.resource, asked.name, why)
}
