//! Owners of another version than the request's: each is compared in its own version.
//!
//! Invariants: an entry is compared with the change in its own version. An entry of a version that the
//! type does not have is dropped. Nothing is converted unless an entry needs it.

use std::collections::HashMap;
use std::ops::Deref;

use super::Context;
use super::compare::{self, Comparison};
use crate::convert;
use crate::resources::{schema_of, split_api_version};
use crate::schema::{Struct, StructRef};
use crate::value::{Str, Value};

/// The version and kind whose conversion adds fields.
const AUTOSCALER: (&str, &str) = ("autoscaling/v1", "HorizontalPodAutoscaler");

/// The type in one version.
pub(super) enum Form<'a> {
    Requested(&'a Struct),
    Other(StructRef),
}

impl Deref for Form<'_> {
    type Target = Struct;

    fn deref(&self) -> &Struct {
        match self {
            Form::Requested(schema) => schema,
            Form::Other(schema) => schema,
        }
    }
}

impl<'a> Context<'a> {
    /// The type in a version, if it has that version.
    pub(super) fn form(&self, api_version: &str) -> Option<Form<'a>> {
        if api_version == self.api_version {
            return Some(Form::Requested(self.schema));
        }
        if let Some(versions) = self.versions {
            return versions.schema(api_version).map(Form::Other);
        }
        let kind = &self.schema.name;
        convert::versioned(self.api_version, kind).filter(|versions| versions.has(api_version))?;
        let (group, version) = split_api_version(api_version);
        schema_of(group, version, kind).map(Form::Other)
    }

    /// The object as upstream compares it, if that differs from what a client sent: converted to the stored version and back.
    /// It matters where a conversion adds fields: an autoscaler in `v1` gets annotations.
    pub(super) fn compared(&self, object: &Value) -> Option<Value> {
        if self.versions.is_some() || (self.api_version, &*self.schema.name) != AUTOSCALER {
            return None;
        }
        let hub = convert::versioned(self.api_version, &self.schema.name)?.hub;
        let stored = self.convert(object.clone(), self.api_version, hub).ok()?;
        self.convert(stored, hub, self.api_version).ok()
    }

    /// An object of this type in another of its versions.
    pub(super) fn convert(&self, mut object: Value, from: &str, to: &str) -> Result<Value, String> {
        match self.versions {
            Some(versions) => versions.convert(&mut object, to)?,
            None => convert::convert(&self.schema.name, from, to, &mut object).map_err(|e| e.to_string())?,
        }
        Ok(object)
    }
}

/// The differences between two objects, in every version that is needed.
pub(super) struct Comparisons<'a> {
    ctx: &'a Context<'a>,
    old: &'a Value,
    new: &'a Value,
    pub(super) requested: Comparison,
    others: HashMap<Str, Option<Comparison>>,
}

impl<'a> Comparisons<'a> {
    pub(super) fn new(ctx: &'a Context<'a>, old: &'a Value, new: &'a Value) -> Result<Self, String> {
        let requested = filtered(ctx, compare::compare(old, new, ctx.schema)?);
        Ok(Comparisons { ctx, old, new, requested, others: HashMap::new() })
    }

    /// `None` for a version that the type does not have.
    pub(super) fn in_version(&mut self, api_version: &str) -> Result<Option<&Comparison>, String> {
        if api_version == self.ctx.api_version {
            return Ok(Some(&self.requested));
        }
        if !self.others.contains_key(api_version) {
            let comparison = self.compare_in(api_version)?;
            self.others.insert(api_version.into(), comparison);
        }
        Ok(self.others.get(api_version).and_then(Option::as_ref))
    }

    fn compare_in(&self, api_version: &str) -> Result<Option<Comparison>, String> {
        let Some(form) = self.ctx.form(api_version) else { return Ok(None) };
        let convert = |what: &str, object: &Value| {
            let converted = self.ctx.convert(object.clone(), self.ctx.api_version, api_version);
            converted.map_err(|e| format!("failed to convert {what} object: {e}"))
        };
        let (old, new) = (convert("old", self.old)?, convert("new", self.new)?);
        Ok(Some(filtered(self.ctx, compare::compare(&old, &new, &form)?)))
    }
}

fn filtered(ctx: &Context<'_>, mut comparison: Comparison) -> Comparison {
    if let Some(filter) = ctx.filter {
        filter.retain(&mut comparison.changed);
        filter.retain(&mut comparison.removed);
    }
    comparison
}
