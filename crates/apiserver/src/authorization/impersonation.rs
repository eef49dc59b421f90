//! Impersonation: the `Impersonate-*` headers.
//!
//! There are five modes, tried in this order except that the user's last successful one comes first; the client gets the
//! first error. The constrained modes need two permissions: to impersonate the user (`impersonate:<mode>`), and to do this
//! request as that user (`impersonate-on:<mode>:<verb>`). The plain mode, `impersonate`, needs only the first.

use std::collections::{BTreeMap, HashMap};

use corten_api::status::quoted;
use corten_api::{Status, names};
use corten_auth::authentication::REMOTE_ADDRESS;
use corten_auth::{
    ANONYMOUS, AUTHENTICATED, Attributes, MASTERS, UNAUTHENTICATED, User, node, service_account,
};

use parking_lot::Mutex;

use super::{Authorizer, refusal, require};
use crate::request::percent_decode;

const AUTHENTICATION: &str = "authentication.k8s.io";
pub(super) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const EXTRA_PREFIX: &str = "impersonate-extra-";
/// From this many values of a kind on, the permission for all of the kind is checked first.
const MANY: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImpersonationMode {
    /// The service account of a pod impersonates the pod's node.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Users that are neither a node nor a service account.
    UserInfo,
    Plain,
}

const MODES: [ImpersonationMode; 5] = [
    ImpersonationMode::AssociatedNode,
    ImpersonationMode::ArbitraryNode,
    ImpersonationMode::ServiceAccount,
    ImpersonationMode::UserInfo,
    ImpersonationMode::Plain,
];

/// The impersonated user of a request, if it names one; `asked` are the attributes of the request with its original user.
pub(super) fn impersonate(
    authorizer: &Authorizer,
    headers: &http::HeaderMap,
    asked: &Attributes<'_>,
) -> Result<Option<User>, Status> {
    let Some(wanted) = wanted(headers)? else { return Ok(None) };
    let user = asked.user;
    let last = authorizer.last_modes.of(user);
    let others = MODES.into_iter().filter(|mode| Some(*mode) != last);
    let mut first = None;
    for mode in last.into_iter().chain(others).filter(|mode| mode.applies(&wanted, user)) {
        match (Check { authorizer, mode, asked }).impersonate_user(&wanted) {
            Ok(other) => {
                authorizer.last_modes.remember(user, mode);
                return Ok(Some(other));
            }
            Err(refused) => first = first.or(Some(refused)),
        }
    }
    Err(first.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// The last successful mode of each user, which is tried first and whose error is returned.
#[derive(Default)]
pub(super) struct LastModes(Mutex<HashMap<String, ImpersonationMode>>);

impl LastModes {
    /// The limit of remembered users.
    const MANY: usize = 10_000;

    fn of(&self, user: &User) -> Option<ImpersonationMode> {
        self.0.lock().get(&user.name).copied()
    }

    fn remember(&self, user: &User, mode: ImpersonationMode) {
        let mut modes = self.0.lock();
        if modes.get(&user.name) == Some(&mode) {
            return;
        }
        if modes.len() >= Self::MANY {
            modes.clear();
        }
        modes.insert(user.name.clone(), mode);
    }
}

/// The user in the headers.
fn wanted(headers: &http::HeaderMap) -> Result<Option<User>, Status> {
    if !headers.keys().any(|key| key.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    // A value that is not text must not be taken for an absent one.
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let groups: Vec<String> = headers.get_all("impersonate-group").iter().map(text).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) else { continue };
        let key = percent_decode(key, false).unwrap_or_else(|| key.to_owned());
        extra.entry(key).or_default().push(text(value));
    }
    // The remote address comes from the connection, never from a header.
    if extra.contains_key(REMOTE_ADDRESS) {
        return Err(Status::bad_request(format!("{} cannot be impersonated", quoted(REMOTE_ADDRESS))));
    }
    let wanted = User { name: first("impersonate-user"), uid: first("impersonate-uid"), groups, extra };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", go_text(&wanted))))
}

/// A user as upstream's error prints it.
fn go_text(user: &User) -> String {
    let list = |items: &[String]| items.iter().map(|i| quoted(i)).collect::<Vec<_>>().join(", ");
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => format!("[]string{{{}}}", list(groups)),
    };
    let entry =
        |(key, values): (&String, &Vec<String>)| format!("{}:[]string{{{}}}", quoted(key), list(values));
    let extra = match user.extra.iter().map(entry).collect::<Vec<_>>() {
        entries if entries.is_empty() => "map[string][]string(nil)".to_owned(),
        entries => format!("map[string][]string{{{}}}", entries.join(", ")),
    };
    let (name, uid) = (quoted(&user.name), quoted(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

/// The node name in a node's user name.
fn node_of(user_name: &str) -> Option<&str> {
    let name = user_name.strip_prefix("system:node:")?;
    names::dns1123_subdomain(name).is_empty().then_some(name)
}

impl ImpersonationMode {
    fn name(self) -> &'static str {
        match self {
            ImpersonationMode::AssociatedNode => "associated-node",
            ImpersonationMode::ArbitraryNode => "arbitrary-node",
            ImpersonationMode::ServiceAccount => "serviceaccount",
            ImpersonationMode::UserInfo => "user-info",
            ImpersonationMode::Plain => "",
        }
    }

    /// True if this mode applies to a requestor and a wanted user.
    fn applies(self, wanted: &User, requestor: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_of(&wanted.name);
        let account = service_account::split_user_name(&wanted.name);
        match self {
            ImpersonationMode::AssociatedNode => {
                let runs_on = match requestor.extra.get(NODE_NAME).map(Vec::as_slice) {
                    Some([node]) => Some(node.as_str()),
                    _ => None,
                };
                let is_account = service_account::split_user_name(&requestor.name).is_some();
                only_name && is_account && node.is_some() && node == runs_on
            }
            ImpersonationMode::ArbitraryNode => only_name && node.is_some(),
            ImpersonationMode::ServiceAccount => only_name && account.is_some(),
            ImpersonationMode::UserInfo => node.is_none() && account.is_none(),
            ImpersonationMode::Plain => true,
        }
    }
}

/// The check of one mode.
struct Check<'a> {
    authorizer: &'a Authorizer,
    mode: ImpersonationMode,
    asked: &'a Attributes<'a>,
}

impl Check<'_> {
    fn is_constrained(&self) -> bool {
        self.mode != ImpersonationMode::Plain
    }

    fn impersonate_user(&self, wanted: &User) -> Result<User, Status> {
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), self.asked.verb);
            require(self.authorizer, &Attributes { verb: &verb, ..*self.asked })?;
        }
        let verb = match self.mode {
            ImpersonationMode::Plain => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        };
        let mut user = wanted.clone();
        self.check_name(&verb, wanted, &mut user.groups)?;
        if !wanted.uid.is_empty() {
            let asked = self.about(&verb, AUTHENTICATION, "uids");
            require(self.authorizer, &Attributes { name: &wanted.uid, ..asked })?;
        }
        self.check_groups(&verb, &wanted.groups)?;
        self.check_extra(&verb, &wanted.extra)?;
        if user.name == ANONYMOUS {
            ensure(&mut user.groups, UNAUTHENTICATED);
        } else if !user.is_in(UNAUTHENTICATED) {
            ensure(&mut user.groups, AUTHENTICATED);
        }
        Ok(user)
    }

    fn about<'b>(&'b self, verb: &'b str, group: &'b str, resource: &'b str) -> Attributes<'b> {
        let version = "v1";
        Attributes { version, ..Attributes::resource(self.asked.user, verb, group, resource) }
    }

    /// The API group of users and groups, which the plain mode does not use.
    fn group(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    /// Checks the permission for the user name, and sets the groups of nodes and service accounts.
    fn check_name(&self, verb: &str, wanted: &User, groups: &mut Vec<String>) -> Result<(), Status> {
        let plain = self.about(verb, self.group(), "users");
        let node = if self.is_constrained() { node_of(&wanted.name) } else { None };
        let asked = if let Some(node) = node {
            *groups = vec![node::NODES.to_owned()];
            let name = if self.mode == ImpersonationMode::AssociatedNode { "*" } else { node };
            Attributes { resource: "nodes", name, ..plain }
        } else if let Some((namespace, name)) = service_account::split_user_name(&wanted.name) {
            if wanted.groups.is_empty() {
                *groups = service_account::groups(namespace);
            }
            Attributes { resource: "serviceaccounts", namespace, name, ..plain }
        } else {
            Attributes { name: &wanted.name, ..plain }
        };
        require(self.authorizer, &asked)
    }

    fn check_groups(&self, verb: &str, groups: &[String]) -> Result<(), Status> {
        let asked = self.about(verb, self.group(), "groups");
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                return Err(refusal(&asked, "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let asked = Attributes { name: MASTERS, ..asked };
                return Err(refusal(&asked, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && self.allows(&Attributes { name: "*", ..asked }) {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|name| require(self.authorizer, &Attributes { name, ..asked }))
    }

    fn check_extra(&self, verb: &str, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let asked = self.about(verb, AUTHENTICATION, "userextras");
        if self.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| unfit_extra(key, values)) {
                return Err(refusal(&asked, &why));
            }
            let many = extra.len() >= MANY || extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.allows(&Attributes { subresource: "*", name: "*", ..asked }) {
                return Ok(());
            }
        }
        for (subresource, values) in extra {
            for name in values {
                require(self.authorizer, &Attributes { subresource, name, ..asked })?;
            }
        }
        Ok(())
    }

    fn allows(&self, asked: &Attributes<'_>) -> bool {
        self.authorizer.authorize(asked).is_allowed()
    }
}

fn ensure(groups: &mut Vec<String>, group: &str) {
    if !groups.iter().any(|g| g == group) {
        groups.push(group.to_owned());
    }
}

/// The error of an extra in a constrained mode, if it is invalid.
fn unfit_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    if let Some(why) = unfit_key(key) {
        return Some(format!("impersonating an invalid key in extra is not allowed: {why}"));
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", quoted(key)));
    }
    let empty = values.iter().any(String::is_empty);
    empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// The error of an extra key that is not a path below a domain, such as `acme.io/foo`.
fn unfit_key(key: &str) -> Option<String> {
    let invalid = |value: &str, why: &str| format!("extra.key: Invalid value: {}: {why}", quoted(value));
    let Some((domain, path)) =
        key.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return Some(invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
    };
    if let Some(why) = names::dns1123_subdomain(domain).first() {
        return Some(invalid(domain, why));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    (!path.chars().all(fits)).then(|| invalid(path, why))
}

#[cfg(test)]
mod tests;
