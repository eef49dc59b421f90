//! `scale`: an object's replicas as a `Scale` object.
//!
//! A `Scale` is made from the object and written back into it; its managedFields are the object's for that one field,
//! with the path in the `Scale` type.

use std::sync::Arc;

use corten_api::status::ErrorList;
use corten_api::{Status, Str, Value, managed, meta, resources};
use corten_customresources::scale::Scale as CustomScale;
use corten_registry::Scale;

use super::patch::{PatchBody, patch_kind, patch_options};
use super::write::{self, Current, Ownership, RACE_RETRIES};
use super::{list, prepare, subresource};
use crate::admission::{self, Write};
use crate::call::Call;
use crate::crd;
use crate::decode::{self, Expected, FieldValidation};
use crate::negotiate::View;
use crate::respond::{self, Answer};
use crate::write_options::WriteOptions;

const API_VERSION: &str = "autoscaling/v1";

/// The scaling of a resource.
enum Scales {
    BuiltIn(Scale),
    Custom(Arc<crd::Compiled>),
}

impl Scales {
    fn of(call: &Call) -> Result<Scales, Status> {
        match call.served.custom() {
            Some(version) => Ok(Scales::Custom(version.compiled())),
            None => call.served.rules.scale.map(Scales::BuiltIn).ok_or_else(Status::unknown_path),
        }
    }

    /// The `Scale` of an object.
    fn scale(&self, object: &Value) -> Result<Value, Status> {
        match self {
            Scales::BuiltIn(scale) => Ok(scale.of(object)),
            Scales::Custom(version) => {
                let scale = version.scale().ok_or_else(Status::unknown_path)?;
                scale.of(object).map(|(scale, _)| scale).map_err(Status::unexplained)
            }
        }
    }

    /// The `Scale` that a read shows.
    fn shown(&self, object: &Value) -> Result<Value, Status> {
        if let Scales::Custom(version) = self
            && let Some(scale) = version.scale()
            && let Ok((_, false)) = scale.of(object)
        {
            let path = scale.spec_replicas_text();
            return Err(Status::internal(format!("the spec replicas field {path:?} does not exist")));
        }
        self.scale(object)
    }

    /// The path of the replicas in an object.
    fn replicas(&self) -> Vec<&str> {
        match self {
            Scales::BuiltIn(scale) => scale.spec_replicas.to_vec(),
            Scales::Custom(version) => {
                let path = version.scale().map(CustomScale::spec_replicas_path).unwrap_or_default();
                path.iter().map(Str::as_str).collect()
            }
        }
    }
}

pub(super) async fn get(call: &Call) -> Result<Answer, Status> {
    let current = subresource::current(call).await?;
    let scale = Scales::of(call)?.shown(&current.tree)?;
    answer(call, scale)
}

/// The response with a `Scale`, in the view that the client accepts.
fn answer(call: &Call, scale: Value) -> Result<Answer, Status> {
    let wanted = call.wanted()?;
    let shown = match wanted.view {
        View::Metadata { version, list: false } => respond::partial(call.served.rules, &scale, version),
        View::Table(version) => respond::scale_table(&call.served, scale, &call.table_query()?, version),
        _ => scale,
    };
    Ok(respond::tree(200, &shown, wanted))
}

pub(super) async fn change(call: &mut Call, verb: &str) -> Result<Answer, Status> {
    let schema =
        resources::schema_of("autoscaling", "v1", "Scale").ok_or_else(|| Status::internal("no Scale"))?;
    let expected = Expected { schema: &schema, custom: None, kind: "Scale", api_version: API_VERSION };
    let force = call.query.flag("force");
    let WriteOptions { validation, dry_run } = match verb {
        "update" => WriteOptions::read(&call.query, "UpdateOptions")?,
        _ => patch_options(call, patch_kind(call)?, force)?,
    };
    for _ in 0..RACE_RETRIES {
        let current = subresource::current(call).await?;
        let (mut scale, pinned) = match verb {
            "update" => updated(call, &current, expected, validation)?,
            _ => patched(call, &current, expected, validation, force)?,
        };
        let asked = meta::resource_version(&scale);
        if !matches!(asked, "" | "0") {
            write::check_revision(call, &current, asked)?;
        }
        let old = live(call, &current)?;
        let write = Write::update("scale", &old, dry_run);
        admission::admit(call, write, &mut scale).await?;
        let new = scaled(call, &current, &scale)?;
        admission::validate(call, write, &scale).await?;
        let cache = list::cache(call)?.clone();
        if let Some(text) = write::replace_scaled(call, &cache, &current, new, dry_run).await? {
            let scale = Scales::of(call)?.scale(&crd::served_tree(call, &text).await?)?;
            return answer(call, scale);
        }
        if pinned {
            break;
        }
    }
    Err(call.stale())
}

/// The live `Scale` with its managedFields.
fn live(call: &Call, current: &Current) -> Result<Value, Status> {
    let scales = Scales::of(call)?;
    let mut scale = scales.scale(&current.tree)?;
    let owners = managed::to_scale(current.tree.at(&["metadata", "managedFields"]), &scales.replicas());
    if let Some(owners) = owners {
        scale.set(&["metadata", "managedFields"], owners);
    }
    Ok(scale)
}

fn updated(
    call: &mut Call,
    current: &Current,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<(Value, bool), Status> {
    let decoded = decode::object(&call.headers, &call.body, expected, validation)?;
    call.warnings = decoded.warnings;
    let mut scale = decoded.object?;
    prepare::agree_on_name(call, &mut scale)?;
    prepare::agree_on_namespace(call, &mut scale)?;
    let (asked, found) = (meta::uid(&scale), meta::uid(&current.tree));
    if !asked.is_empty() && asked != found {
        return Err(call.wrong_uid(&current.object.key, asked, found));
    }
    let pinned = !meta::resource_version(&scale).is_empty();
    let owner = Ownership::of(call, "scale");
    managed::update(
        &owner.context_for(expected.schema, API_VERSION),
        Some(&live(call, current)?),
        &mut scale,
    );
    Ok((scale, pinned))
}

fn patched(
    call: &mut Call,
    current: &Current,
    expected: Expected<'_>,
    validation: FieldValidation,
    force: bool,
) -> Result<(Value, bool), Status> {
    let change = PatchBody::read(call, patch_kind(call)?, validation)?;
    let owner = Ownership::of(call, "scale");
    let context = owner.context_for(expected.schema, API_VERSION);
    let live = live(call, current)?;
    let (mut scale, warnings) = change.apply(expected, &context, &live, force, validation, &|_| {})?;
    call.warnings = warnings;
    prepare::agree_on_name(call, &mut scale)?;
    prepare::agree_on_namespace(call, &mut scale)?;
    let (asked, found) = (meta::uid(&scale), meta::uid(&current.tree));
    if !asked.is_empty() && asked != found {
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {found}");
        let resource = format!("{}/scale", call.served.name());
        return Err(Status::conflict(call.served.group(), &resource, &call.at.name, why));
    }
    Ok((scale, change.pins_revision()))
}

/// The object with the replicas and managedFields of a written `Scale`.
fn scaled(call: &Call, current: &Current, scale: &Value) -> Result<Value, Status> {
    let scales = Scales::of(call)?;
    let path = scales.replicas();
    let replicas = scale.int_at(&["spec", "replicas"]).unwrap_or(0);
    // The replicas of a custom resource are validated with it.
    if replicas < 0 && call.served.custom().is_none() {
        let mut errors = ErrorList::new();
        errors.invalid("spec.replicas", &Value::Int(replicas), "must be greater than or equal to 0");
        return Err(Status::invalid("autoscaling", "Scale", &call.at.name, &errors));
    }
    let mut new = current.tree.clone();
    new.set(&path, replicas);
    let owners = managed::from_scale(
        current.tree.at(&["metadata", "managedFields"]),
        scale.at(&["metadata", "managedFields"]),
        &call.served.api_version,
        &path,
    );
    match owners {
        Some(owners) => new.set(&["metadata", "managedFields"], owners),
        None => drop(new.remove(&["metadata", "managedFields"])),
    }
    Ok(new)
}
