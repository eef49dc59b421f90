//! The claims of service-account tokens: their validation, their bound objects, and their user.
//!
//! A token is valid only while the objects that it is bound to exist: [`Claims::references`] lists them, [`check`] compares
//! one reference with the object of that name. Signatures are verified elsewhere.

use corten_api::{Map, Value, meta, time};
use jiff::{SignedDuration, Timestamp};

use super::{CREDENTIAL_ID, Refusal};
use crate::service_account::{groups, user_name};
use crate::{AUTHENTICATED, User};

/// The allowed clock skew, and the time for which deleted objects still count.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// The user of a service account.
pub fn user(namespace: &str, name: &str, uid: &str) -> User {
    let mut groups = groups(namespace);
    groups.push(AUTHENTICATED.to_owned());
    User { name: user_name(namespace, name), uid: uid.to_owned(), groups, ..User::default() }
}

/// An object by name and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reference {
    pub name: String,
    pub uid: String,
}

/// The kinds of objects that a token can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    ServiceAccount,
    Secret,
    Pod,
    Node,
}

impl Kind {
    /// The resource of this kind.
    pub fn resource(self) -> &'static str {
        match self {
            Kind::ServiceAccount => "serviceaccounts",
            Kind::Secret => "secrets",
            Kind::Pod => "pods",
            Kind::Node => "nodes",
        }
    }
}

/// The registered claims of every token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registered {
    pub issuer: String,
    pub subject: String,
    pub audiences: Vec<String>,
    pub id: String,
    expiry: Option<i64>,
    not_before: Option<i64>,
    issued_at: Option<i64>,
}

/// The claims of a token that was issued by `TokenRequest`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub namespace: String,
    pub service_account: Reference,
    pub secret: Option<Reference>,
    pub pod: Option<Reference>,
    pub node: Option<Reference>,
}

impl Registered {
    pub fn read(claims: &Value) -> Result<Registered, Refusal> {
        Ok(Registered {
            issuer: text(claims, "iss")?,
            subject: text(claims, "sub")?,
            audiences: audiences(claims.get("aud"))?,
            id: text(claims, "jti")?,
            expiry: date(claims.get("exp"))?,
            not_before: date(claims.get("nbf"))?,
            issued_at: date(claims.get("iat"))?,
        })
    }

    /// Checks that the token is valid now; absent claims do not limit it.
    pub fn check_time(&self, now: Timestamp) -> Result<(), Refusal> {
        let seconds = now.as_second();
        let leeway = LEEWAY.as_secs();
        if self.not_before.is_some_and(|at| seconds.saturating_add(leeway) < at) {
            return Err(Refusal::NotYetValid);
        }
        if self.expiry.is_some_and(|at| seconds.saturating_sub(leeway) > at) {
            return Err(Refusal::Expired);
        }
        if self.issued_at.is_some_and(|at| seconds.saturating_add(leeway) < at) {
            return Err(Refusal::IssuedInTheFuture);
        }
        Ok(())
    }

    /// The wanted audiences that the token is valid for. A token without audiences is valid for the API server's own.
    pub fn check_audiences(&self, wanted: &[String], own: &[String]) -> Result<Vec<String>, Refusal> {
        let given = if self.audiences.is_empty() { own } else { &self.audiences };
        let common: Vec<String> = given.iter().filter(|a| wanted.contains(a)).cloned().collect();
        if common.is_empty() && !own.is_empty() {
            return Err(Refusal::Audience { token: given.to_vec(), target: wanted.to_vec() });
        }
        Ok(common)
    }
}

impl Claims {
    pub fn read(claims: &Value) -> Result<Claims, Refusal> {
        let empty = Value::object();
        let private = match claims.get("kubernetes.io") {
            None | Some(Value::Null) => &empty,
            Some(private @ Value::Object(_)) => private,
            Some(other) => {
                return Err(Refusal::Malformed {
                    found: other.go_kind(),
                    expected: "serviceaccount.kubernetes",
                });
            }
        };
        date(private.get("warnafter"))?;
        Ok(Claims {
            namespace: text(private, "namespace")?,
            service_account: reference(private, "serviceaccount")?.unwrap_or_default(),
            secret: reference(private, "secret")?,
            pod: reference(private, "pod")?,
            node: reference(private, "node")?,
        })
    }

    /// The objects that must exist, in the order of checks. The node of a pod's token is not checked: the pod stands for it.
    pub fn references(&self) -> impl Iterator<Item = (Kind, &Reference)> {
        let node = self.node.as_ref().filter(|_| self.pod.is_none());
        let bound =
            [(Kind::Secret, self.secret.as_ref()), (Kind::Pod, self.pod.as_ref()), (Kind::Node, node)];
        let bound = bound.into_iter().filter_map(|(kind, reference)| Some((kind, reference?)));
        std::iter::once((Kind::ServiceAccount, &self.service_account)).chain(bound)
    }

    /// The user of the token.
    pub fn user(&self, token_id: &str) -> User {
        let account = &self.service_account;
        let mut user = user(&self.namespace, &account.name, &account.uid);
        let mut add = |key: &str, value: &str| user.extra.insert(key.to_owned(), vec![value.to_owned()]);
        if let Some(pod) = self.pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
            add(POD_NAME, &pod.name);
            add(POD_UID, &pod.uid);
        }
        if !token_id.is_empty() {
            add(CREDENTIAL_ID, &format!("JTI={token_id}"));
        }
        if let Some(node) = self.node.as_ref().filter(|node| !node.name.is_empty()) {
            add(NODE_NAME, &node.name);
            if !node.uid.is_empty() {
                add(NODE_UID, &node.uid);
            }
        }
        user
    }
}

/// Compares a reference with the object of its name, which must have the same uid and not be deleted for long.
pub fn check(
    kind: Kind,
    claims: &Claims,
    reference: &Reference,
    object: Option<&Value>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let (namespace, name) = (&claims.namespace, &reference.name);
    let Some(object) = object else {
        return Err(match kind {
            Kind::ServiceAccount if name.is_empty() => Refusal::NoName,
            Kind::ServiceAccount => Refusal::NoServiceAccount(name.clone()),
            _ => Refusal::Invalidated,
        });
    };
    let found = meta::uid(object);
    if found != reference.uid {
        let (subject, claim) = match kind {
            Kind::ServiceAccount => ("service account UID", "claim"),
            Kind::Secret => ("secret UID", "service account secret ref claim"),
            Kind::Pod => ("pod UID", "service account pod ref claim"),
            Kind::Node => ("node UID", "service account node ref claim"),
        };
        let (found, claimed) = (found.to_owned(), reference.uid.clone());
        return Err(Refusal::OtherUid { subject, found, claim, claimed });
    }
    if is_long_deleted(object, now) {
        return Err(match kind {
            Kind::ServiceAccount => {
                Refusal::ServiceAccountDeleted { namespace: namespace.clone(), name: name.clone() }
            }
            _ => Refusal::Invalidated,
        });
    }
    Ok(())
}

fn is_long_deleted(object: &Value, now: Timestamp) -> bool {
    match object.at(&["metadata", "deletionTimestamp"]) {
        None | Some(Value::Null) => false,
        // An invalid time does not extend the validity.
        Some(at) => match at.as_str().map(time::parse) {
            Some(Ok(at)) => at < now - LEEWAY,
            _ => true,
        },
    }
}

/// The input of a new token.
#[derive(Debug)]
pub struct Issue<'a> {
    pub issuer: &'a str,
    /// The service account's tree.
    pub account: &'a Value,
    pub secret: Option<Reference>,
    pub pod: Option<Reference>,
    pub node: Option<Reference>,
    pub audiences: &'a [String],
    pub id: &'a str,
    pub now: Timestamp,
    /// The validity in seconds.
    pub lifetime: i64,
    /// The seconds after which its use is warned about.
    pub warn_after: Option<i64>,
}

impl Issue<'_> {
    pub fn claims(&self) -> Value {
        let (namespace, name) = (meta::namespace(self.account), meta::name(self.account));
        let now = self.now.as_second();
        let own = Reference { name: name.to_owned(), uid: meta::uid(self.account).to_owned() };
        let mut private = Map::new();
        private.insert("namespace", namespace);
        for (key, reference) in [
            ("serviceaccount", Some(&own)),
            ("secret", self.secret.as_ref()),
            ("pod", self.pod.as_ref()),
            ("node", self.node.as_ref()),
        ] {
            if let Some(reference) = reference {
                private.insert(key, reference.to_value());
            }
        }
        if let Some(seconds) = self.warn_after {
            private.insert("warnafter", now.saturating_add(seconds));
        }
        let mut claims = Map::new();
        if !self.audiences.is_empty() {
            let audiences: Vec<Value> = self.audiences.iter().map(|a| Value::from(a.as_str())).collect();
            claims.insert("aud", audiences);
        }
        claims.insert("exp", now.saturating_add(self.lifetime));
        claims.insert("iat", now);
        claims.insert("iss", self.issuer);
        claims.insert("jti", self.id);
        claims.insert("kubernetes.io", private);
        claims.insert("nbf", now);
        claims.insert("sub", user_name(namespace, name));
        Value::Object(claims)
    }
}

impl Reference {
    pub fn to(object: &Value) -> Reference {
        Reference { name: meta::name(object).to_owned(), uid: meta::uid(object).to_owned() }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("name", self.name.as_str());
        if !self.uid.is_empty() {
            map.insert("uid", self.uid.as_str());
        }
        Value::Object(map)
    }
}

pub(super) fn text(claims: &Value, key: &str) -> Result<String, Refusal> {
    match claims.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(other) => Err(Refusal::Malformed { found: other.go_kind(), expected: "string" }),
    }
}

fn date(value: Option<&Value>) -> Result<Option<i64>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(seconds)) => Ok(Some(*seconds)),
        // Out of range saturates, which neither extends an expiry that has passed nor moves one forward.
        Some(Value::Float(seconds)) => Ok(Some(*seconds as i64)),
        Some(_) => Err(Refusal::NotADate),
    }
}

fn audiences(value: Option<&Value>) -> Result<Vec<String>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.to_string()]),
        Some(Value::Array(items)) => {
            let text = |item: &Value| item.as_str().map(str::to_owned).ok_or(Refusal::NotAnAudience);
            items.iter().map(text).collect()
        }
        Some(_) => Err(Refusal::NotAnAudience),
    }
}

fn reference(private: &Value, key: &str) -> Result<Option<Reference>, Refusal> {
    match private.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Object(_)) => {
            Ok(Some(Reference { name: text(value, "name")?, uid: text(value, "uid")? }))
        }
        Some(other) => Err(Refusal::Malformed { found: other.go_kind(), expected: "serviceaccount.ref" }),
    }
}

#[cfg(test)]
mod tests;
