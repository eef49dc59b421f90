//! Validation of a cron job: a schedule in a time zone, and a job without a selector yet.

use corten_api::schedule::{self, Schedule};
use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::batch::jobs::spec_warnings;
use crate::batch::jobs::validate::validate_spec;
use crate::prepare::same;
use crate::validation::fields::{non_negative, part};
use crate::validation::text::{member, text};
use crate::validation::workload::{name_warning, shown_selector};

/// The names of jobs are that of their cron job and the scheduled minute, which takes eleven characters.
const NAME_MAX_LENGTH: usize = 52;

pub(super) fn validate_create(cron: &Value, errors: &mut ErrorList) {
    validate(part(cron, "spec"), None, errors);
    let name = text(part(cron, "metadata"), "name");
    if name.len() > NAME_MAX_LENGTH {
        let why = format!("must be no more than {NAME_MAX_LENGTH} characters");
        errors.invalid("metadata.name", &Value::from(name), why);
    }
    required_schedule(cron, errors);
}

pub(super) fn validate_update(cron: &Value, old: &Value, errors: &mut ErrorList) {
    validate(part(cron, "spec"), Some(part(old, "spec")), errors);
    required_schedule(cron, errors);
}

fn required_schedule(cron: &Value, errors: &mut ErrorList) {
    if text(part(cron, "spec"), "schedule").is_empty() {
        errors.required("spec.schedule", "");
    }
}

fn validate(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Field::new("spec");
    validate_schedule(spec, old, &at.child("schedule"), errors);
    non_negative(spec, "startingDeadlineSeconds", &at, errors);
    if old.is_none_or(|old| !same(spec, old, &["timeZone"])) {
        validate_time_zone(member(spec, "timeZone").and_then(Value::as_str), &at.child("timeZone"), errors);
    }
    match text(spec, "concurrencyPolicy") {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.required(at.child("concurrencyPolicy"), ""),
        other => {
            let known = ["Allow", "Forbid", "Replace"];
            errors.not_supported(at.child("concurrencyPolicy"), &Value::from(other), &known);
        }
    }
    let job = |spec| part(part(spec, "jobTemplate"), "spec");
    validate_template(job(spec), old.map(job), &at.child("jobTemplate").child("spec"), errors);
    non_negative(spec, "successfulJobsHistoryLimit", &at, errors);
    non_negative(spec, "failedJobsHistoryLimit", &at, errors);
}

/// Selectors are generated with each job.
fn validate_template(job: &Value, old: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    validate_spec(job, old, at, errors);
    if let Some(selector) = member(job, "selector") {
        let why = "`selector` will be auto-generated";
        errors.invalid_shown(at.child("selector"), shown_selector(Some(selector)), why);
    }
    if job.bool_at(&["manualSelector"]) == Some(true) {
        errors.not_supported(at.child("manualSelector"), &Value::Bool(true), &["nil", "false"]);
    }
}

/// The time zone belongs into its own field, unless it was in the schedule before.
fn validate_schedule(spec: &Value, old: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        return;
    }
    if let Err(why) = Schedule::parse(schedule) {
        errors.invalid(*at, &Value::from(schedule), why);
    }
    if !schedule.contains("TZ") {
        return;
    }
    let before = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
    let why = match (before, member(spec, "timeZone")) {
        (true, None) => return,
        (true, Some(_)) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        (false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
    };
    errors.invalid(*at, &Value::from(schedule), why);
}

fn validate_time_zone(zone: Option<&str>, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(zone) = zone else { return };
    let mut refuse = |why: &str| errors.invalid(*at, &Value::from(zone), why);
    if zone.is_empty() {
        refuse("timeZone must be nil or non-empty string");
        return;
    }
    let unknown = format!("unknown time zone {zone}");
    if !zone.split('/').all(is_part_of_zone) {
        refuse(&unknown);
        return;
    }
    if zone.eq_ignore_ascii_case("Local") {
        refuse("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
    if !schedule::is_time_zone(zone) {
        refuse(&unknown);
    }
}

fn is_part_of_zone(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    let length = (1..=14).contains(&part.len());
    length && part != "." && part != ".." && !part.starts_with('-') && part.bytes().all(fits)
}

/// Warnings about an accepted cron job.
pub(super) fn warnings(cron: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let job = |cron| part(part(part(cron, "spec"), "jobTemplate"), "spec");
    let generation = |cron: &Value| cron.int_at(&["metadata", "generation"]);
    if old.is_none() {
        warnings.extend(name_warning(cron));
    }
    if old.is_none_or(|old| generation(old) != generation(cron)) {
        let at = Field::new("spec");
        let at = at.child("jobTemplate");
        warnings.extend(spec_warnings(job(cron), old.map(job), &at.child("spec")));
    }
    if old.is_some() && text(part(cron, "spec"), "schedule").contains("TZ") {
        warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
    }
    warnings
}
