//! Helpers for tests.

use std::sync::Arc;

use corten_api::{Value, time};
use corten_client::{Error, Object};
use corten_reconcile::{Outcome, Plan, Report};
use jiff::{SignedDuration, Timestamp};

/// The time of all tests, plus some seconds.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
}

/// The same as text.
pub(crate) fn at_text(seconds: i64) -> String {
    time::format(at(seconds)).to_string()
}

pub(crate) fn cached(tree: &Value) -> Arc<Object> {
    Arc::new(Object::of(tree))
}

/// A report in which everything succeeded.
pub(crate) fn done(plan: &Plan) -> Report {
    let outcome = |action: &corten_reconcile::Action| {
        let object = match action {
            corten_reconcile::Action::Create { object, .. }
            | corten_reconcile::Action::Update { object, .. } => object.clone(),
            _ => Value::object(),
        };
        Outcome { action: action.clone(), result: Ok(object) }
    };
    Report { outcomes: plan.actions().map(outcome).collect() }
}

/// A report in which the first request failed.
pub(crate) fn failed(plan: &Plan, error: impl Into<Error>) -> Report {
    let error = error.into();
    let outcomes = plan.actions().take(1).map(|a| Outcome { action: a.clone(), result: Err(error.clone()) });
    Report { outcomes: outcomes.collect() }
}
