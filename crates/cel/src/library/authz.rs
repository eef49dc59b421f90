//! Authorization checks: `authorizer.group("").resource("pods").check("get").allowed()` and the like.
//!
//! Expressions only describe a check; the embedding program decides it (`Authorizer`). Values of these types cannot be
//! compared: upstream reports that as an error.

use std::sync::Arc;

use corten_api::names::{NameRule, namespace_name};

use super::arguments::{declare, opaque, text};
use crate::declare::{Declaration, Library};
use crate::error::{Error, Result};
use crate::value::{Opaque, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

/// Selectors of resource checks, which are newer than the rest of the library.
pub const SELECTORS: Library = Library { declarations: SELECTOR_DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare(
        "path",
        "authorizer_path",
        "kubernetes.authorization.Authorizer.(string) kubernetes.authorization.PathCheck",
        path,
    ),
    declare(
        "group",
        "authorizer_group",
        "kubernetes.authorization.Authorizer.(string) kubernetes.authorization.GroupCheck",
        group,
    ),
    declare(
        "serviceAccount",
        "authorizer_serviceaccount",
        "kubernetes.authorization.Authorizer.(string, string) kubernetes.authorization.Authorizer",
        service_account,
    ),
    declare(
        "resource",
        "groupcheck_resource",
        "kubernetes.authorization.GroupCheck.(string) kubernetes.authorization.ResourceCheck",
        resource,
    ),
    declare("subresource", "resourcecheck_subresource", REFINEMENT, |a| {
        refine(a, |check, text| check.subresource = text)
    }),
    declare("namespace", "resourcecheck_namespace", REFINEMENT, |a| {
        refine(a, |check, text| check.namespace = text)
    }),
    declare("name", "resourcecheck_name", REFINEMENT, |a| refine(a, |check, text| check.name = text)),
    declare(
        "check",
        "pathcheck_check",
        "kubernetes.authorization.PathCheck.(string) kubernetes.authorization.Decision",
        check_path,
    ),
    declare(
        "check",
        "resourcecheck_check",
        "kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.Decision",
        check_resource,
    ),
    declare("errored", "decision_errored", "kubernetes.authorization.Decision.() bool", errored),
    declare("error", "decision_error", "kubernetes.authorization.Decision.() string", error),
    declare("allowed", "decision_allowed", "kubernetes.authorization.Decision.() bool", allowed),
    declare("reason", "decision_reason", "kubernetes.authorization.Decision.() string", reason),
];

const SELECTOR_DECLARATIONS: &[Declaration] = &[
    declare("fieldSelector", "authorizer_fieldselector", REFINEMENT, |a| {
        refine(a, |check, text| check.field_selector = text)
    }),
    declare("labelSelector", "authorizer_labelselector", REFINEMENT, |a| {
        refine(a, |check, text| check.label_selector = text)
    }),
];

const REFINEMENT: &str =
    "kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.ResourceCheck";

/// The decision of authorization, supplied by the program that evaluates expressions.
pub trait Authorizer: Send + Sync + std::fmt::Debug {
    fn authorize(&self, request: &Request<'_>) -> Decision;
}

/// The check that an expression asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// Namespace and name of the service account that is asked about; the requesting user if there is none.
    pub service_account: Option<(&'r str, &'r str)>,
    pub verb: &'r str,
    pub target: Target<'r>,
}

#[derive(Debug, Clone, Copy)]
pub enum Target<'r> {
    /// A path that is no resource.
    Path(&'r str),
    Resource(&'r ResourceCheck),
}

/// The answer to a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// The user whose permissions are checked.
#[derive(Debug, Clone)]
pub struct Subject {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(String, String)>,
}

#[derive(Debug)]
struct PathCheck {
    subject: Subject,
    path: String,
}

#[derive(Debug)]
struct GroupCheck {
    subject: Subject,
    group: String,
}

/// A check of a resource. Empty texts are absent; selectors are not parsed.
#[derive(Debug, Clone)]
pub struct ResourceCheck {
    subject: Subject,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

impl Subject {
    /// The user of the request that an expression is evaluated for.
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Subject {
        Subject { authorizer, service_account: None }
    }

    /// A check of a resource, as the variable `authorizer.requestResource` is one.
    pub fn resource(self, group: &str, resource: &str) -> ResourceCheck {
        ResourceCheck {
            subject: self,
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            field_selector: String::new(),
            label_selector: String::new(),
        }
    }

    fn check<'a>(&self, verb: &str, target: Target<'_>) -> Value<'a> {
        let service_account = self.service_account.as_ref().map(|(namespace, name)| (&**namespace, &**name));
        Value::opaque(self.authorizer.authorize(&Request { service_account, verb, target }))
    }
}

/// Values of this type cannot be compared.
macro_rules! incomparable {
    ($($type:ty => $name:literal),* $(,)?) => {
        $(impl Opaque for $type {
            fn type_name(&self) -> &'static str {
                $name
            }

            fn equals(&self, _: &dyn Opaque) -> Option<bool> {
                None
            }
        })*
    };
}

incomparable! {
    Subject => "kubernetes.authorization.Authorizer",
    PathCheck => "kubernetes.authorization.PathCheck",
    GroupCheck => "kubernetes.authorization.GroupCheck",
    ResourceCheck => "kubernetes.authorization.ResourceCheck",
    Decision => "kubernetes.authorization.Decision",
}

fn path<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let path = text(arguments, 1)?.to_owned();
    if path.trim().is_empty() {
        return Err(Error::new("path must not be empty"));
    }
    Ok(Value::opaque(PathCheck { subject: opaque::<Subject>(arguments, 0)?.clone(), path }))
}

fn group<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (subject, group) = (opaque::<Subject>(arguments, 0)?.clone(), text(arguments, 1)?.to_owned());
    Ok(Value::opaque(GroupCheck { subject, group }))
}

fn service_account<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (namespace, name) = (text(arguments, 1)?, text(arguments, 2)?);
    if !NameRule::DnsSubdomain.check(name).is_empty() {
        return Err(Error::new("Invalid service account name"));
    }
    if !namespace_name(namespace).is_empty() {
        return Err(Error::new("Invalid service account namespace"));
    }
    let authorizer = opaque::<Subject>(arguments, 0)?.authorizer.clone();
    Ok(Value::opaque(Subject { authorizer, service_account: Some((namespace.to_owned(), name.to_owned())) }))
}

fn resource<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (check, resource) = (opaque::<GroupCheck>(arguments, 0)?, text(arguments, 1)?);
    if resource.trim().is_empty() {
        return Err(Error::new("resource must not be empty"));
    }
    Ok(Value::opaque(check.subject.clone().resource(&check.group, resource)))
}

/// A resource check with one more property.
fn refine<'a>(arguments: &[Value<'a>], set: fn(&mut ResourceCheck, String)) -> Result<Value<'a>> {
    let mut check = opaque::<ResourceCheck>(arguments, 0)?.clone();
    set(&mut check, text(arguments, 1)?.to_owned());
    Ok(Value::opaque(check))
}

fn check_path<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let check: &PathCheck = opaque(arguments, 0)?;
    Ok(check.subject.check(text(arguments, 1)?, Target::Path(&check.path)))
}

fn check_resource<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let check: &ResourceCheck = opaque(arguments, 0)?;
    Ok(check.subject.check(text(arguments, 1)?, Target::Resource(check)))
}

fn decision<'v>(arguments: &'v [Value<'_>]) -> Result<&'v Decision> {
    opaque(arguments, 0)
}

fn errored<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(decision(arguments)?.error.is_some().into())
}

fn error<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::text(decision(arguments)?.error.as_deref().unwrap_or_default()))
}

fn allowed<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(decision(arguments)?.allowed.into())
}

fn reason<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::text(&*decision(arguments)?.reason))
}
