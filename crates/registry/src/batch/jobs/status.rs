//! Validation of a job's status.
//!
//! A rule is checked only when its fields changed: an update of other fields must not fail
//! because of earlier values.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, time};

use super::indexes;
use crate::prepare::same;
use crate::validation::fields::{IMMUTABLE, invalid_omitted, non_negative, number, part};
use crate::validation::internal_form;
use crate::validation::text::{list, member, text};

const STATUS: Field<'static> = Field::new("status");

/// Returns true if a status has a condition that is true.
pub(super) fn is_true(status: &Value, kind: &str) -> bool {
    let conditions = list(status, "conditions").iter();
    conditions.filter(|c| text(c, "type") == kind).any(|c| text(c, "status") == "True")
}

/// A status, the previous one, and their job.
struct Report<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
}

pub(super) fn validate_subresource(sub: &str, job: &Value, old: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let report = Report { spec: part(job, "spec"), new: part(job, "status"), old: part(old, "status") };
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        non_negative(report.new, key, &STATUS, errors);
    }
    validate_uncounted(report.new, errors);
    report.validate_end(errors);
    report.validate_finished(errors);
    report.validate_indexes(errors);
    report.validate_pods(errors);
    report.validate_success_criteria(errors);
    report.validate_transition(errors);
}

/// Terminated pods that are not counted yet: each has a uid, and occurs once.
fn validate_uncounted(status: &Value, errors: &mut ErrorList) {
    let pods = part(status, "uncountedTerminatedPods");
    let at = STATUS.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for key in ["succeeded", "failed"] {
        for (i, uid) in list(pods, key).iter().enumerate() {
            let at = at.child(key);
            if uid.as_str() == Some("") {
                errors.invalid(at.index(i), uid, "must not be empty");
            } else if !seen.insert(ByContent(uid)) {
                errors.duplicate(at.index(i), uid);
            }
        }
    }
}

fn refuse_conditions(why: impl Into<String>, errors: &mut ErrorList) {
    invalid_omitted(STATUS.child("conditions"), why, errors);
}

impl Report<'_> {
    fn is(&self, kind: &str) -> bool {
        is_true(self.new, kind)
    }

    fn was(&self, kind: &str) -> bool {
        is_true(self.old, kind)
    }

    fn turned(&self, kind: &str) -> bool {
        self.is(kind) != self.was(kind)
    }

    fn changed(&self, key: &str) -> bool {
        !same(self.new, self.old, &[key])
    }

    fn finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn end_changed(&self) -> bool {
        self.finished() != (self.was("Complete") || self.was("Failed"))
    }

    fn flag(&self, key: &str) -> bool {
        self.spec.bool_at(&[key]) == Some(true)
    }

    fn is_indexed(&self) -> bool {
        text(self.spec, "completionMode") == "Indexed"
    }

    /// A job finishes in one way, at a time after its start.
    fn validate_end(&self, errors: &mut ErrorList) {
        let complete = self.is("Complete");
        let complete_turned = self.turned("Complete");
        if (complete_turned || self.turned("Failed")) && complete && self.is("Failed") {
            refuse_conditions("cannot set Complete=True and Failed=true conditions", errors);
        }
        if (complete_turned || self.turned("FailureTarget")) && complete && self.is("FailureTarget") {
            refuse_conditions("cannot set Complete=True and FailureTarget=true conditions", errors);
        }
        let (start, end) = (member(self.new, "startTime"), member(self.new, "completionTime"));
        let at = STATUS.child("completionTime");
        if complete_turned || self.changed("completionTime") {
            match end {
                Some(end) if !complete => {
                    let why = "cannot set completionTime when there is no Complete=True condition";
                    errors.invalid(at, end, why);
                }
                None if complete => errors.required(at, "completionTime is required for Complete jobs"),
                _ => {}
            }
        }
        let instant = |value: &Value| value.as_str().and_then(|text| time::parse(text).ok());
        if (self.changed("startTime") || self.changed("completionTime"))
            && let (Some(start), Some(end)) = (start, end)
            && instant(end) < instant(start)
        {
            errors.invalid(at, end, "must be equal to or after `startTime`");
        }
        if (self.turned("Failed") || self.changed("failedIndexes"))
            && self.is("Failed")
            && !self.is("FailureTarget")
        {
            let why = "cannot set Failed=True condition without the FailureTarget=true condition";
            refuse_conditions(why, errors);
        }
        if (complete_turned || self.turned("SuccessCriteriaMet"))
            && complete
            && !self.is("SuccessCriteriaMet")
        {
            let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            refuse_conditions(why, errors);
        }
    }

    /// A finished job was started, and all its pods are counted.
    fn validate_finished(&self, errors: &mut ErrorList) {
        if !self.finished() {
            return;
        }
        let active = number(self.new, "active");
        if (self.end_changed() || self.changed("active")) && active > 0 {
            let why = "active>0 is invalid for finished job";
            errors.invalid(STATUS.child("active"), &Value::Int(active), why);
        }
        let never_ran =
            self.flag("suspend") && self.spec.int_at(&["completions"]).is_some_and(|number| number == 0);
        if (self.end_changed() || self.changed("startTime"))
            && !never_ran
            && member(self.new, "startTime").is_none()
        {
            errors.required(STATUS.child("startTime"), "startTime is required for finished job");
        }
        let uncounted = part(self.new, "uncountedTerminatedPods");
        let some = !list(uncounted, "succeeded").is_empty() || !list(uncounted, "failed").is_empty();
        if (self.end_changed() || self.changed("uncountedTerminatedPods")) && some {
            let at = STATUS.child("uncountedTerminatedPods");
            errors.invalid_shown(
                at,
                internal_form::compact("UncountedTerminatedPods", uncounted),
                "must be empty for finished job",
            );
        }
    }

    /// Sets of indexes are valid, and only for indexed jobs.
    fn validate_indexes(&self, errors: &mut ErrorList) {
        let completions = member(self.spec, "completions").and_then(Value::as_int);
        let per_index = member(self.spec, "backoffLimitPerIndex").is_some();
        let completed = text(self.new, "completedIndexes");
        let failed = member(self.new, "failedIndexes").and_then(Value::as_str);
        let (completed_changed, failed_changed) =
            (self.changed("completedIndexes"), self.changed("failedIndexes"));
        let mut refuse = |key: &str, indexes: &str, why: String| {
            errors.invalid(STATUS.child(key), &Value::from(indexes), why);
        };
        if let Some(completions) = completions {
            if completed_changed && let Err(why) = indexes::count(completed, completions) {
                refuse("completedIndexes", completed, format!("error parsing completedIndexes: {why}"));
            }
            if failed_changed
                && per_index
                && let Some(failed) = failed
                && let Err(why) = indexes::count(failed, completions)
            {
                refuse("failedIndexes", failed, format!("error parsing failedIndexes: {why}"));
            }
        }
        if completed_changed && !completed.is_empty() && !self.is_indexed() {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            refuse("completedIndexes", completed, why.to_owned());
        }
        if failed_changed
            && !per_index
            && let Some(failed) = failed
        {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            refuse("failedIndexes", failed, why.to_owned());
        }
        if (completed_changed || failed_changed)
            && let (Some(completions), Some(failed)) = (completions, failed)
            && let Some(index) = indexes::overlap(completed, failed, completions)
        {
            let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
            refuse("failedIndexes", failed, why);
        }
    }

    fn validate_pods(&self, errors: &mut ErrorList) {
        let (active, ready) = (number(self.new, "active"), number(self.new, "ready"));
        let terminating = number(self.new, "terminating");
        if (self.end_changed() || self.changed("terminating")) && terminating > 0 && self.finished() {
            let why = "terminating>0 is invalid for finished job";
            errors.invalid(STATUS.child("terminating"), &Value::Int(terminating), why);
        }
        let known = member(self.new, "ready").is_some();
        if (self.changed("ready") || self.changed("active")) && known && ready > active {
            let why = "cannot set more ready pods than active";
            errors.invalid(STATUS.child("ready"), &Value::Int(ready), why);
        }
    }

    fn validate_success_criteria(&self, errors: &mut ErrorList) {
        let met = self.is("SuccessCriteriaMet");
        if met && self.is("Failed") {
            refuse_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
        }
        if met && self.is("FailureTarget") {
            refuse_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
        }
        if member(self.spec, "successPolicy").is_some() && !met && self.is("Complete") {
            let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            refuse_conditions(why, errors);
        }
    }

    /// Terminal states are not undone.
    fn validate_transition(&self, errors: &mut ErrorList) {
        for kind in ["Failed", "Complete", "FailureTarget"] {
            if self.was(kind) && !self.is(kind) {
                refuse_conditions(format!("cannot disable the terminal {kind}=True condition"), errors);
            }
        }
        let scaled = self.is_indexed() && same_numbers(self.spec, "completions", "parallelism");
        for (key, may_shrink) in [("failed", false), ("succeeded", scaled)] {
            let now = number(self.new, key);
            if now < number(self.old, key) && !may_shrink {
                let why = format!("cannot decrease the {key} counter");
                errors.invalid(STATUS.child(key), &Value::Int(now), why);
            }
        }
        if let (Some(end), Some(_)) = (member(self.new, "completionTime"), member(self.old, "completionTime"))
            && self.changed("completionTime")
        {
            errors.invalid(STATUS.child("completionTime"), end, IMMUTABLE);
        }
        if self.changed("startTime")
            && !self.is_resuming()
            && member(self.old, "startTime").is_some()
            && !self.flag("suspend")
        {
            let why = "field is immutable for unsuspended job once set";
            errors.invalid(STATUS.child("startTime"), part(self.new, "startTime"), why);
        }
        let (met, was_met) = (self.is("SuccessCriteriaMet"), self.was("SuccessCriteriaMet"));
        if was_met && !met {
            refuse_conditions("cannot disable the SuccessCriteriaMet=True condition", errors);
        }
        if self.was("Complete") && !was_met && met {
            let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            refuse_conditions(why, errors);
        }
    }

    /// Returns true if this update resumes the job.
    fn is_resuming(&self) -> bool {
        let conditions = list(self.new, "conditions").iter();
        let mut suspended = conditions.filter(|c| text(c, "type") == "Suspended");
        self.was("Suspended") && suspended.any(|c| text(c, "status") == "False")
    }
}

fn same_numbers(spec: &Value, a: &str, b: &str) -> bool {
    let of = |key: &str| member(spec, key).and_then(Value::as_int);
    of(a) == of(b)
}
