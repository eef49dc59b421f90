//! Whether a request may be done: the authorizers of `--authorization-mode`, asked in their order.
//!
//! What is refused here is refused for every path; there is no way around these functions. Members of
//! `system:masters` are allowed before anybody is asked, so that a cluster can always be repaired.

pub(crate) mod bootstrap;
pub(crate) mod escalation;
mod impersonation;
mod modes;
mod node_feed;
mod rbac_feed;
mod request;

use corten_api::Status;
use corten_api::status::quoted;
use corten_auth::rbac::{self, Rule};
use corten_auth::{Attributes, Decision, MASTERS, User, node};
use corten_store::Store;

pub use modes::AuthorizationModes;
pub(crate) use request::{act_as, pass};

use crate::call::Backend;
use impersonation::LastWays;
use modes::Mode;
use node_feed::NodeFeed;
use rbac_feed::RbacFeed;

/// Everybody who has a say.
pub(crate) struct Authorizer {
    modes: AuthorizationModes,
    /// Asked about escalation whatever the modes are.
    rbac: RbacFeed,
    node: NodeFeed,
    node_rules: Vec<Rule>,
    last_ways: LastWays,
}

/// All that a user may do in a namespace, as far as it can be listed.
#[derive(Default)]
pub(crate) struct UserRules {
    pub rules: Vec<Rule>,
    /// Whether there may be more.
    pub incomplete: bool,
    pub errors: Vec<String>,
}

impl Authorizer {
    /// Reads what there is and follows it from there: ready to decide when this returns.
    pub(crate) fn start(modes: AuthorizationModes, store: &Store) -> Authorizer {
        let follows_nodes = modes.has(Mode::Node);
        Authorizer {
            rbac: RbacFeed::start(store),
            node: if follows_nodes { NodeFeed::start(store) } else { NodeFeed::default() },
            node_rules: rbac::node_rules(),
            last_ways: LastWays::default(),
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

    /// What a user may do in a namespace.
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

/// Everything on everything.
fn full_authority() -> [Rule; 2] {
    let all = || vec![corten_api::Str::new_static("*")];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

/// Whether something may be done: for everybody who has to ask again after a request was let in.
pub(crate) fn authorize(backend: &Backend, asked: &Attributes<'_>) -> Decision {
    backend.authorizer.authorize(asked)
}

/// Refuses what is not allowed.
pub(crate) fn require(authorizer: &Authorizer, asked: &Attributes<'_>) -> Result<(), Status> {
    match authorizer.authorize(asked) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(refusal(asked, &reason)),
    }
}

/// What a client hears that may not do something.
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
    // The text may end up in a browser.
    why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Status::forbidden(asked.group, asked.resource, asked.name, why)
}
