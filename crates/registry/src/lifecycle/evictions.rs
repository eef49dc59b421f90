//! Evictions: the progress of evicting a target.

use corten_api::Value;

use super::evictionrequests::{status, target};
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, UNKNOWN, UNSET, age, cells, first_few, name, str_at, text, time_at};
use corten_api::duration::human_since;

pub(crate) const RULES: Rules = Rules {
    group: "lifecycle.k8s.io",
    resource: "evictions",
    storage_version: "v1alpha1",
    storage_prefix: "evictions",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Target", "What should go.").of("lifecycle/v1alpha1.EvictionSpec", "target"),
        text("Target Type", "What kind of thing that is.").of("lifecycle/v1alpha1.EvictionSpec", "target"),
        text("Status", "How it is going.").of("lifecycle/v1alpha1.EvictionStatus", "conditions"),
        text("Active Responder", "Who is at it, and how many have been or are, of how many.")
            .of("lifecycle/v1alpha1.TargetResponder", "state"),
        text("Responder Status", "How the responder is doing."),
        text("Responder Expected Finish", "When the responder expects to be done.")
            .of("lifecycle/v1alpha1.ResponderStatus", "expectedCompletionTime"),
        text("Requesters", "Who asked.").of("lifecycle/v1alpha1.EvictionStatus", "requesters"),
        AGE,
        text("Responder Heartbeat", "When the responder last gave a sign of life.")
            .of("lifecycle/v1alpha1.ResponderStatus", "heartbeatTime")
            .wide(),
        text("Responder Status Message", "What the responder says.")
            .of("lifecycle/v1alpha1.ResponderStatus", "message")
            .wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let responders = object.items_at(&["status", "targetResponders"]);
    let state = |responder: &Value| str_at(responder, &["state"]).to_owned();
    let done = |r: &&Value| matches!(state(r).as_str(), "Canceled" | "Interrupted" | "Completed");
    let active = |r: &&Value| state(r) == "Active";
    let begun = responders.iter().filter(|r| done(r) || active(r)).count();
    let current = responders.iter().rfind(active).or_else(|| responders.iter().rfind(done));
    let progress = current.map_or_else(Progress::default, |responder| {
        Progress::of(str_at(responder, &["name"]), str_at(responder, &["state"]), object, context)
    });
    let responder = current.map_or(UNSET, |r| str_at(r, &["name"]));
    let (target, target_type) = target(object);
    cells![
        name(object),
        target,
        target_type,
        status(object),
        format!("{responder} ({begun}/{})", responders.len()),
        progress.status,
        progress.finish,
        requesters(object),
        age(object, context),
        progress.heartbeat,
        progress.message,
    ]
}

/// The progress that the active responder reports.
struct Progress {
    status: String,
    finish: String,
    heartbeat: String,
    message: String,
}

impl Default for Progress {
    fn default() -> Self {
        let unset = || UNSET.to_owned();
        Progress { status: unset(), finish: UNKNOWN.to_owned(), heartbeat: unset(), message: unset() }
    }
}

impl Progress {
    fn of(responder: &str, state: &str, object: &Value, context: &RowContext<'_>) -> Progress {
        let reports = object.items_at(&["status", "responders"]);
        let Some(report) = reports.iter().find(|r| r.str_at(&["name"]) == Some(responder)) else {
            return Progress::default();
        };
        let ago =
            |key: &str| time_at(report, &[key]).map(|then| format!("{} ago", human_since(then, context.now)));
        let mut progress = Progress { status: state.to_owned(), ..Progress::default() };
        match state {
            "Active" => {
                if let Some(started) = ago("startTime") {
                    progress.status = format!("Started ({started})");
                    progress.finish = expected_finish(report, context).unwrap_or(progress.finish);
                }
            }
            _ => {
                if let Some(completed) = ago("completionTime").filter(|_| state == "Completed") {
                    progress.status = format!("{state} ({completed})");
                }
                progress.finish = "-".to_owned();
            }
        }
        progress.heartbeat = ago("heartbeatTime").unwrap_or(progress.heartbeat);
        let message = str_at(report, &["message"]).trim();
        if !message.is_empty() {
            progress.message = message.to_owned();
        }
        progress
    }
}

/// Estimates can be wrong: a time in the past is still shown.
fn expected_finish(report: &Value, context: &RowContext<'_>) -> Option<String> {
    let expected = time_at(report, &["expectedCompletionTime"])?;
    Some(match expected > context.now {
        true => format!("in {}", human_since(context.now, expected)),
        false => format!("{} ago", human_since(expected, context.now)),
    })
}

fn requesters(object: &Value) -> String {
    let all = object.items_at(&["status", "requesters"]);
    let standing = all.iter().filter(|r| r.str_at(&["intent"]) != Some("Withdrawn"));
    let mut standing: Vec<&str> = standing.map(|r| str_at(r, &["name"])).collect();
    standing.sort_unstable();
    match (all.is_empty(), standing.is_empty()) {
        (true, _) => NONE.to_owned(),
        (false, true) => "<withdrawn>".to_owned(),
        (false, false) => first_few(&standing, 1),
    }
}
