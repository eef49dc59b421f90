//! Election strategies of leases: those of Kubernetes, or third-party ones.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::text::complain;

pub(crate) const OLDEST: &str = "OldestEmulationVersion";

pub(crate) fn validate_strategy(strategy: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("strategy");
    if strategy.contains('/') {
        complain(&at, strategy, names::qualified_name(strategy), errors);
    } else if strategy != OLDEST {
        errors.not_supported(at, &Value::from(strategy), &[OLDEST]);
    }
}
