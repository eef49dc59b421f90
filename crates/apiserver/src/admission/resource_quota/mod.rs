//! ResourceQuota: what a namespace uses stays within its quotas.
//!
//! A write is charged to the quotas it counts against before it happens, by compare-and-set of their
//! status; so a quota is never exceeded, however many write at once. What was charged for a write that then
//! failed is given back by the quota controller, which also counts what is there at first and what is
//! deleted: a quota whose limits it has not taken up yet is not enforced, and one whose use it has not
//! counted lets nothing pass.
//!
//! `usage` measures a write (by rules it shares with that controller), `check` holds it against quotas (both pure), `charge` writes what was charged.

mod charge;
mod check;
#[cfg(test)]
mod tests;
mod usage;

use corten_api::Value;

use super::plugins::{Admit, Plugin, Validate, Verdict};
use super::{Attributes, lookup};

pub(super) use charge::Queues;
use usage::Demand;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "ResourceQuota", admit: Admit::Nothing, validate: Validate::Later(validate) };

const QUOTAS: (&str, &str) = ("", "resourcequotas");

fn validate<'a>(attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
    match demand(attributes, object) {
        Some(demand) => Box::pin(charge::charge(attributes, object, demand)),
        None => Box::pin(std::future::ready(Ok(()))),
    }
}

/// What a write uses, if any quota of its namespace could care.
fn demand(attributes: &Attributes<'_>, object: Option<&Value>) -> Option<Demand> {
    let (object, namespace) = (object?, attributes.namespace());
    if namespace.is_empty()
        || attributes.call.served.is_namespaces()
        || !usage::handles(attributes, object)
        || lookup::list(attributes.backend(), QUOTAS, namespace).is_empty()
    {
        return None;
    }
    Some(Demand::measure(attributes, object))
}
