//! Objects in the version in which a webhook or a policy sees them, and back in the form that plugins work on.
//!
//! Plugins work on built-in objects in their stored form, and on custom resources in the version of the request.

use corten_api::conform::{Extent, conform};
use corten_api::{Status, Value, convert, json, meta, resources};

use super::Attributes;
use super::matching::Target;
use super::request::set_kind;
use crate::crd;
use crate::decode;
use crate::respond;

/// The limit of the text of an object that a webhook or a policy changed: several of them must not multiply it.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// The objects of a request in a target's version.
pub(super) struct Shown {
    pub(super) target: Target,
    pub(super) object: Option<Value>,
    pub(super) old: Option<Value>,
}

impl Shown {
    pub(super) async fn new(
        attributes: &Attributes<'_>,
        target: Target,
        object: Option<&Value>,
    ) -> Result<Shown, Status> {
        let object = match object {
            Some(object) => Some(to_target(attributes, &target, object).await?),
            None => None,
        };
        let old = match attributes.old {
            Some(old) => Some(to_target(attributes, &target, old).await?),
            None => None,
        };
        Ok(Shown { target, object, old })
    }
}

/// An object in a target's version.
async fn to_target(attributes: &Attributes<'_>, target: &Target, object: &Value) -> Result<Value, Status> {
    let mut shown = object.clone();
    if attributes.is_own_kind() {
        shown = match &target.served.converter {
            Some(converter) if meta::api_version(&shown) != target.served.api_version => {
                let converted =
                    converter.convert(attributes.backend(), vec![shown], &target.served.api_version);
                one(converted.await?)?
            }
            Some(_) => shown,
            None => {
                respond::to_served(&target.served, &mut shown)?;
                shown
            }
        };
    }
    set_kind(&mut shown, &target.kind);
    Ok(shown)
}

/// An object that was changed in a target's version, decoded, defaulted and in the form that plugins work on.
pub(super) async fn from_target(
    attributes: &Attributes<'_>,
    target: &Target,
    mut object: Value,
) -> Result<Value, Status> {
    if meta::kind(&object) != target.kind.kind || meta::api_version(&object) != target.kind.api_version() {
        let (kind, version) = (meta::kind(&object), meta::api_version(&object));
        return Err(Status::internal(format!(
            "admission changed the object's kind to {kind:?} in version {version:?}"
        )));
    }
    decode::check_size(&object)?;
    if json::write_to_string(&object).len() > MAX_TEXT {
        return Err(Status::too_large(format!("limit of objects that admission changed is {MAX_TEXT}")));
    }
    if !attributes.is_own_kind() {
        let kind = &target.kind;
        if let Some(schema) = resources::schema_of(&kind.group, &kind.version, &kind.kind) {
            conform(&mut object, &schema, Extent::Whole, &mut Vec::new()).map_err(Status::internal)?;
        }
        return Ok(object);
    }
    match target.served.custom() {
        Some(version) => {
            version.decode(&mut object, &mut Vec::new()).map_err(|error| Status::internal(error.message))?;
            to_request_version(attributes, object).await
        }
        None => built_in(attributes, target, object),
    }
}

/// A custom resource in the version of the request.
async fn to_request_version(attributes: &Attributes<'_>, object: Value) -> Result<Value, Status> {
    crd::to_served(attributes.call, object).await
}

/// A built-in object in its stored form.
fn built_in(attributes: &Attributes<'_>, target: &Target, mut object: Value) -> Result<Value, Status> {
    let (served, now) = (&target.served, attributes.call.now);
    conform(&mut object, &served.schema(), Extent::Whole, &mut Vec::new()).map_err(Status::internal)?;
    (served.rules.default_times)(&mut object, now);
    if served.is_stored_form {
        (served.rules.default)(&mut object);
        return Ok(object);
    }
    let Some(cache) = &served.cache else { return Ok(object) };
    let form = &cache.form;
    convert::convert(&form.kind, &served.api_version, &form.api_version, &mut object)
        .map_err(Status::internal)?;
    (form.rules.default)(&mut object);
    (form.rules.default_times)(&mut object, now);
    Ok(object)
}

fn one(objects: Vec<Value>) -> Result<Value, Status> {
    objects.into_iter().next().ok_or_else(|| Status::internal("conversion returned no object"))
}
