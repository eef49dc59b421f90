//! Rollback to an earlier revision by the deprecated annotation.

use corten_api::{Value, meta};
use corten_client::kinds;
use corten_reconcile::{Action, Event, Plan};

use super::sets::{self, Set};
use super::{NAME, spec};

/// The plan of a rollback; `None` if none is requested, or the deployment is paused.
pub(super) fn plan(deployment: &Value, known: &[Value]) -> Option<Plan> {
    let asked = spec::rollback_to(deployment)?;
    if spec::is_paused(deployment) || meta::is_deleting(deployment) {
        return None;
    }
    let sets: Vec<Set> = known.iter().cloned().map(Set::known).collect();
    let mut back = deployment.clone();
    let event = match (asked, last(&sets)) {
        (0, None) => not_found(deployment, "Unable to find last revision."),
        (0, Some(revision)) => go_back(&mut back, &sets, revision),
        (revision, _) => go_back(&mut back, &sets, revision),
    };
    back.remove(&["metadata", "annotations", sets::ROLLBACK_TO]);
    let action = Action::Update { kind: &kinds::DEPLOYMENTS, object: back, subresource: "" };
    Some(Plan::done().then(action).event(event))
}

/// The revision before the current one.
fn last(sets: &[Set]) -> Option<i64> {
    let mut revisions: Vec<i64> = sets.iter().filter_map(Set::revision).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().filter(|revision| *revision > 0)
}

fn go_back(deployment: &mut Value, sets: &[Set], revision: i64) -> Event {
    let Some(set) = sets.iter().find(|set| set.revision() == Some(revision)) else {
        return not_found(deployment, "Unable to find the revision to rollback to.");
    };
    let name = meta::name(deployment).to_owned();
    if sets::has_template_of(&set.tree, deployment) {
        let message =
            format!("The rollback revision contains the same template as current deployment {name:?}");
        return Event::warning(NAME, deployment, "DeploymentRollbackTemplateUnchanged", message);
    }
    let template = set.tree.at(&["spec", "template"]).unwrap_or(&Value::Null);
    let annotations = sets::annotations_of(deployment, set);
    deployment.set(&["spec", "template"], sets::without_hash(template));
    deployment.set(&["metadata", "annotations"], annotations);
    let message = format!("Rolled back deployment {name:?} to revision {revision}");
    Event::normal(NAME, deployment, "DeploymentRollback", message)
}

fn not_found(deployment: &Value, message: &str) -> Event {
    Event::warning(NAME, deployment, "DeploymentRollbackRevisionNotFound", message)
}
