//! `scale`: an object's replicas through a `Scale` of their own.
//!
//! A `Scale` is made from the object and written back into it; its owners are the object's owners of that
//! one field, seen through the other type.

use corten_api::status::ErrorList;
use corten_api::{Status, Value, json, managed, meta, resources};

use super::patch::{PatchBody, patch_kind, patch_options};
use super::write::{self, Current, Ownership, RACE_RETRIES};
use super::{list, prepare, subresource};
use crate::admission::{self, Write};
use crate::call::Call;
use crate::decode::{self, Expected, FieldValidation};
use crate::negotiate::View;
use crate::options::WriteOptions;
use crate::respond::{self, Answer};

const API_VERSION: &str = "autoscaling/v1";

fn scale_of(call: &Call, object: &Value) -> Result<Value, Status> {
    call.served.rules.scale.map(|scale| scale.of(object)).ok_or_else(Status::unknown_path)
}

pub(super) fn get(call: &Call) -> Result<Answer, Status> {
    let scale = scale_of(call, &subresource::current(call)?.tree)?;
    answer(call, scale)
}

/// A `Scale` in the view the client asked for.
fn answer(call: &Call, scale: Value) -> Result<Answer, Status> {
    let wanted = call.wanted()?;
    let shown = match wanted.view {
        View::Metadata { version, list: false } => respond::partial(&scale, version),
        View::Table(version) => respond::scale_table(scale, &call.table_query()?, version),
        _ => scale,
    };
    Ok(respond::tree(200, &shown, wanted))
}

pub(super) async fn change(call: &mut Call, verb: &str) -> Result<Answer, Status> {
    let schema =
        resources::schema_of("autoscaling", "v1", "Scale").ok_or_else(|| Status::internal("no Scale"))?;
    let expected = Expected { schema: &schema, kind: "Scale", api_version: API_VERSION };
    let force = call.query.flag("force");
    let WriteOptions { validation, dry_run } = match verb {
        "update" => WriteOptions::read(&call.query, "UpdateOptions")?,
        _ => patch_options(call, patch_kind(call)?, force)?,
    };
    for _ in 0..RACE_RETRIES {
        let current = subresource::current(call)?;
        let (mut scale, pinned) = match verb {
            "update" => updated(call, &current, expected, validation)?,
            _ => patched(call, &current, expected, validation, force)?,
        };
        let asked = meta::resource_version(&scale);
        if !matches!(asked, "" | "0") && asked != current.object.revision.to_string() {
            return Err(call.stale());
        }
        let old = live(call, &current)?;
        let write = Write::update("scale", &old, dry_run);
        admission::admit(call, write, &mut scale).await?;
        let new = scaled(call, &current, &scale)?;
        admission::validate(call, write, Some(&scale)).await?;
        let cache = list::cache(call)?.clone();
        if let Some(text) = write::replace_scaled(call, &cache, &current, new, dry_run).await? {
            let scale = scale_of(call, &json::parse(&text).map_err(Status::internal)?)?;
            return answer(call, scale);
        }
        if pinned {
            break;
        }
    }
    Err(call.stale())
}

/// The live `Scale` with the owners it has as such.
fn live(call: &Call, current: &Current) -> Result<Value, Status> {
    let mut scale = scale_of(call, &current.tree)?;
    let rules = call.served.rules.scale.ok_or_else(Status::unknown_path)?;
    let owners = managed::to_scale(current.tree.at(&["metadata", "managedFields"]), rules.spec_replicas);
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
    let mut scale = decoded.object;
    prepare::agree_on_name(call, &mut scale)?;
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
    let (scale, warnings) = change.apply(expected, &context, &live, force, validation, &|_| {})?;
    call.warnings = warnings;
    Ok((scale, change.pins_revision()))
}

/// The object with the replicas and owners of a written `Scale`.
fn scaled(call: &Call, current: &Current, scale: &Value) -> Result<Value, Status> {
    let rules = call.served.rules.scale.ok_or_else(Status::unknown_path)?;
    let replicas = scale.int_at(&["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        let mut errors = ErrorList::new();
        errors.invalid("spec.replicas", &Value::Int(replicas), "must be greater than or equal to 0");
        return Err(Status::invalid("autoscaling", "Scale", &call.at.name, &errors));
    }
    let mut new = current.tree.clone();
    new.set(rules.spec_replicas, replicas);
    let owners = managed::from_scale(
        current.tree.at(&["metadata", "managedFields"]),
        scale.at(&["metadata", "managedFields"]),
        &call.served.api_version,
        rules.spec_replicas,
    );
    match owners {
        Some(owners) => new.set(&["metadata", "managedFields"], owners),
        None => drop(new.remove(&["metadata", "managedFields"])),
    }
    Ok(new)
}
