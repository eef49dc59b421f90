//! The parameters of a binding for one request.

use std::borrow::Cow;
use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Map, Status, Str, Value, meta};

use super::hook::{Binding, Evaluator, ParamKind, Policy};
use crate::admission::Attributes;
use crate::call::Backend;
use crate::catalog::Served;
use crate::object::Object;
use crate::respond;

/// A parameter, in the version that the policy names.
pub(in crate::admission) enum Param {
    /// As it is cached.
    Cached(Arc<Object>),
    Converted(Value),
}

impl Param {
    pub(in crate::admission) fn tree(&self) -> &Value {
        match self {
            Param::Cached(object) => object.parsed(),
            Param::Converted(object) => object,
        }
    }
}

/// The parameters of a binding (`Binding::has_params`). The error says why the binding cannot be used.
pub(in crate::admission) async fn collect<E: Evaluator>(
    attributes: &Attributes<'_>,
    policy: &Policy<E>,
    served: Option<&Arc<Served>>,
    binding: &Binding,
) -> Result<Vec<Param>, String> {
    let (Some(kind), Some(reference)) = (&policy.param_kind, &binding.param_ref) else {
        return Ok(Vec::new());
    };
    let Some(served) = served else {
        return Err(format!("paramKind kind `{}` not known", shown(kind)));
    };
    let text = |field: &str| reference.str_at(&[field]).unwrap_or_default();
    let namespace = namespace_of(served, text("namespace"), attributes.namespace())?;
    let Some(cache) = &served.cache else {
        return Err(format!("paramKind kind `{}` not known", shown(kind)));
    };
    let selector = reference.get("selector").filter(|selector| !selector.is_null());
    let objects: Vec<Arc<Object>> = match (text("name"), selector) {
        ("", None) => return Err("one of name or selector must be provided".to_owned()),
        ("", Some(selector)) => {
            let selector = LabelSelector::from_object(Some(selector)).map_err(|error| error.to_string())?;
            let all = cache.snapshot(namespace, None).objects;
            all.into_iter().filter(|object| selector.matches(&labels(object))).collect()
        }
        (_, Some(_)) => return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned()),
        (name, None) => cache.get(namespace, name).into_iter().collect(),
    };
    if objects.is_empty() && text("parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let mut params = Vec::with_capacity(objects.len());
    for object in objects {
        params.push(convert(attributes.backend(), served, object).await.map_err(|s| s.message)?);
    }
    Ok(params)
}

/// The namespace of the parameters; empty for cluster-scoped ones.
fn namespace_of<'n>(served: &Served, named: &'n str, requested: &'n str) -> Result<&'n str, String> {
    match (served.resource.namespaced, named, requested) {
        (true, "", "") => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                .to_owned())
        }
        (true, "", requested) => Ok(requested),
        (true, named, _) => Ok(named),
        (false, "", _) => Ok(""),
        (false, ..) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
        }
    }
}

fn labels(object: &Object) -> Cow<'_, Map> {
    meta::labels(object.parsed()).map_or_else(|| Cow::Owned(Map::new()), Cow::Borrowed)
}

async fn convert(backend: &Backend, served: &Served, object: Arc<Object>) -> Result<Param, Status> {
    if meta::api_version(object.parsed()) == served.api_version {
        return Ok(Param::Cached(object));
    }
    let mut tree = object.tree();
    if let Some(converter) = &served.converter {
        let converted = converter.convert(backend, vec![tree], &served.api_version).await?;
        let first = converted.into_iter().next();
        return first.map(Param::Converted).ok_or_else(|| Status::internal("conversion returned no object"));
    }
    respond::to_served(served, &mut tree)?;
    Ok(Param::Converted(tree))
}

/// The resource of a policy's parameters. The error is that of a policy which cannot be used.
pub(in crate::admission) fn resource_of<E: Evaluator>(
    backend: &Backend,
    policy: &Policy<E>,
) -> Result<Option<Arc<Served>>, String> {
    let Some(kind) = &policy.param_kind else { return Ok(None) };
    let (group, version) = kind.group_version();
    let known = policy.param_resource.lock().clone();
    let is_kind = |served: &Arc<Served>| served.kind() == kind.kind;
    if let Some(name) = known
        && let Some(served) = backend.catalog.get(group, version, &name).filter(is_kind)
    {
        return Ok(Some(served));
    }
    let all = backend.catalog.resources();
    let found = all.iter().find(|resource| {
        resource.group == group && resource.version == version && resource.kind == kind.kind
    });
    let served = found.and_then(|resource| backend.catalog.get(group, version, &resource.name));
    match served {
        Some(served) => {
            *policy.param_resource.lock() = Some(Str::from(served.name()));
            Ok(Some(served))
        }
        None => Err(format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={}'",
            kind.kind
        )),
    }
}

/// A kind of parameters, as Go prints it.
fn shown(kind: &ParamKind) -> String {
    format!("&ParamKind{{APIVersion:{},Kind:{},}}", kind.api_version, kind.kind)
}
