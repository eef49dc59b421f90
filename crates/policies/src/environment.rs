//! Environments of admission expressions: the variables that they can read, with upstream's types.
//!
//! *Invariant:* a variable has the same position in every environment. Where it is not declared, its position has a name
//! that no expression can contain.

use std::sync::{Arc, LazyLock};

use corten_cel::environment::{Record, Version};
use corten_cel::schema::{Property, Schema};
use corten_cel::types::ObjectType;
use corten_cel::{Environment, Type};

/// Positions of the variables. Those of a policy follow `VARIABLES`, in their order.
pub(crate) const OBJECT: usize = 0;
pub(crate) const OLD_OBJECT: usize = 1;
pub(crate) const NAMESPACE: usize = 2;
pub(crate) const REQUEST: usize = 3;
pub(crate) const PARAMS: usize = 4;
pub(crate) const AUTHORIZER: usize = 5;
pub(crate) const REQUEST_RESOURCE: usize = 6;
pub(crate) const VARIABLES: usize = 7;

const AUTHORIZER_TYPE: &str = "kubernetes.authorization.Authorizer";
const RESOURCE_CHECK_TYPE: &str = "kubernetes.authorization.ResourceCheck";

/// The optional variables that an environment declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    pub params: bool,
    pub authorizer: bool,
    /// `Object` and `JSONPatch` literals, and the functions for JSON patches.
    pub patch_types: bool,
}

/// The features that expressions may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those that every server of the cluster has, for expressions that are new.
    New,
    /// All, for expressions that are stored.
    Stored,
}

/// The minor version that a server can be rolled back to: new expressions must compile there too.
const COMPATIBILITY: Version = Version(36);

static NEW: LazyLock<Environment> = LazyLock::new(|| Environment::at(COMPATIBILITY));

impl Mode {
    fn base(self) -> Environment {
        match self {
            Mode::New => NEW.clone(),
            Mode::Stored => Environment::stored(),
        }
    }
}

/// The environment with the given optional variables.
pub(crate) fn environment(mode: Mode, declared: Declared) -> Environment {
    with_types(&mode.base(), declared, Type::Dyn, Type::Dyn)
}

/// The environment whose objects and parameters have types.
pub(crate) fn with_types(base: &Environment, declared: Declared, object: Type, params: Type) -> Environment {
    let named = |wanted: bool, name: &'static str, hidden: &'static str| match wanted {
        true => Arc::from(name),
        false => Arc::from(hidden),
    };
    let base = if declared.patch_types { &base.with_patch_types() } else { base };
    base.with_variables([
        ("object".into(), object.clone()),
        ("oldObject".into(), object),
        ("namespaceObject".into(), NAMESPACE_TYPE.clone()),
        ("request".into(), REQUEST_TYPE.clone()),
        (named(declared.params, "params", "-params"), params),
        (named(declared.authorizer, "authorizer", "-authorizer"), Type::object(AUTHORIZER_TYPE)),
        (
            named(declared.authorizer, "authorizer.requestResource", "-requestResource"),
            Type::object(RESOURCE_CHECK_TYPE),
        ),
    ])
}

/// The variables of a policy, without any yet.
pub(crate) fn variables() -> Record {
    Record::new("variables", "kubernetes.variables")
}

fn object(name: &str, fields: &[(&str, Type)]) -> Type {
    let property = |(name, ty): &(&str, Type)| Property {
        name: (*name).into(),
        schema: Arc::new(Schema::named(ty.clone())),
        required: false,
        has_default: false,
    };
    let schema = Arc::new(Schema::object(fields.iter().map(property).collect()));
    Type::Object(ObjectType { name: name.into(), declared: Some(schema) })
}

fn strings() -> Type {
    Type::list(Type::String)
}

/// The type of `request`. Its object and old object are variables of their own.
static REQUEST_TYPE: LazyLock<Type> = LazyLock::new(|| {
    let kind = || {
        let fields = [("group", Type::String), ("version", Type::String), ("kind", Type::String)];
        object("kubernetes.GroupVersionKind", &fields)
    };
    let resource = || {
        let fields = [("group", Type::String), ("version", Type::String), ("resource", Type::String)];
        object("kubernetes.GroupVersionResource", &fields)
    };
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", strings()),
            ("extra", Type::map(Type::String, strings())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", Type::String),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
});

/// The type of `namespaceObject`.
static NAMESPACE_TYPE: LazyLock<Type> = LazyLock::new(|| {
    let condition = object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", Type::String),
            ("type", Type::String),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String),
            ("reason", Type::String),
        ],
    );
    let status = object(
        "kubernetes.NamespaceStatus",
        &[("conditions", Type::list(condition)), ("phase", Type::String)],
    );
    let texts = || Type::map(Type::String, Type::String);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", Type::String),
            ("generateName", Type::String),
            ("namespace", Type::String),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::String),
            ("finalizers", strings()),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", strings())]);
    object("kubernetes.Namespace", &[("metadata", metadata), ("spec", spec), ("status", status)])
});
