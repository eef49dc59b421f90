//! Cron jobs: jobs on a schedule.

mod validate;

use corten_api::Value;

use crate::batch::jobs::failure_policy;
use crate::defaults::{fill_absent, fill_zero, made, pod_template};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, RowContext, Rules};
use crate::selector::selector_cell;
use crate::table::{
    AGE, CONTAINERS, IMAGES, NAME, NONE, UNSET, age, boolean, cells, containers, count, integer, name, since,
    str_at, text, time_at,
};

pub(crate) const RULES: Rules = Rules {
    group: "batch",
    resource: "cronjobs",
    storage_prefix: "cronjobs",
    generation: Generation::SPEC,
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    warnings: validate::warnings,
    columns: &[
        NAME,
        text("Schedule", "When jobs start, in Cron's notation.").of("batch/v1.CronJobSpec", "schedule"),
        text("Timezone", "The time zone of the schedule.").of("batch/v1.CronJobSpec", "timeZone"),
        boolean("Suspend", "Whether no more jobs are started.").of("batch/v1.CronJobSpec", "suspend"),
        integer("Active", "How many jobs are running.").of("batch/v1.CronJobStatus", "active"),
        text("Last Schedule", "How long ago the last job was due.")
            .of("batch/v1.CronJobStatus", "lastScheduleTime"),
        AGE,
        CONTAINERS,
        IMAGES,
        text("Selector", "Labels of the pods that its jobs count.").of("batch/v1.JobSpec", "selector").wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    const JOB: [&str; 3] = ["spec", "jobTemplate", "spec"];
    let [names, images] = containers(object, &[JOB.as_slice(), &["template", "spec", "containers"]].concat());
    let last = match time_at(object, &["status", "lastScheduleTime"]) {
        Some(_) => since(object, &["status", "lastScheduleTime"], context),
        None => NONE.to_owned(),
    };
    let suspend = match object.bool_at(&["spec", "suspend"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    cells![
        name(object),
        str_at(object, &["spec", "schedule"]),
        object.str_at(&["spec", "timeZone"]).unwrap_or(NONE),
        suspend,
        count(object, &["status", "active"]),
        last,
        age(object, context),
        names,
        images,
        selector_cell(object.at(&[JOB.as_slice(), &["selector"]].concat())),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_zero(spec, "concurrencyPolicy", "Allow");
    fill_absent(spec, "suspend", false);
    fill_absent(spec, "successfulJobsHistoryLimit", 3);
    fill_absent(spec, "failedJobsHistoryLimit", 1);
    let job = made(made(spec, "jobTemplate"), "spec");
    failure_policy(job);
    pod_template(job);
}
