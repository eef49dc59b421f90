//! ResourceQuota: the usage of a namespace stays within its quotas.
//!
//! A write is charged to its quotas before it happens, by compare-and-set of their status; so a quota is never exceeded by
//! concurrent writes. The quota controller releases the charge of a write that failed, and counts existing and deleted
//! objects: a quota whose limits it has not copied to the status yet is not enforced, and one whose usage it has not counted
//! yet refuses all writes.
//!
//! `usage` measures a write (by rules shared with that controller), `check` compares it with quotas (both pure), `charge`
//! writes the charges.

mod charge;
mod check;
#[cfg(test)]
mod tests;
mod usage;

use corten_api::{Status, Value};

use super::{Admit, CREATE, Plugin, UPDATE, Validate, Verdict};
use crate::admission::{Attributes, lookup};

pub(in crate::admission) use charge::Queues;
#[cfg(test)]
pub(super) use tests::charge_one;
use usage::Demand;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "ResourceQuota",
    operations: CREATE | UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Later(validate),
};

const QUOTAS: (&str, &str) = ("", "resourcequotas");

fn validate<'a>(attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
    match demand(attributes, object) {
        Ok(Some(demand)) => Box::pin(charge::charge(attributes, object, demand)),
        outcome => Box::pin(std::future::ready(outcome.map(drop))),
    }
}

/// The usage of a write, if its namespace has quotas; an error if one of them cannot be read.
fn demand(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<Option<Demand>, Status> {
    let (backend, namespace) = (attributes.backend(), attributes.namespace());
    let Some(object) = object.filter(|_| !namespace.is_empty()) else { return Ok(None) };
    if attributes.call.served.is_namespaces() || !usage::handles(attributes, object) {
        return Ok(None);
    }
    lookup::check_readable(backend, QUOTAS, namespace)?;
    let has_quotas = !lookup::list(backend, QUOTAS, namespace).is_empty();
    Ok(has_quotas.then(|| Demand::measure(attributes, object)))
}
