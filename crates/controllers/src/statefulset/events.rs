//! The events about a stateful set's pods and claims.

use corten_api::{Value, meta};
use corten_client::{Error, kinds};
use corten_reconcile::{Action, Event, Outcome};

use super::{COMPONENT, World, identity};

/// An event about a successful operation on a pod.
fn succeeded(set: &Value, verb: &'static str, pod: &str) -> Event {
    let message = format!("{verb} Pod {pod} in StatefulSet {} successful", meta::name(set));
    Event::normal(COMPONENT, set, reason(verb, true), message)
}

/// An event about a failed operation on a pod.
pub(super) fn failed(set: &Value, verb: &'static str, pod: &str, why: &str) -> Event {
    let message = format!("{verb} Pod {pod} in StatefulSet {} failed error: {why}", meta::name(set));
    Event::warning(COMPONENT, set, reason(verb, false), message)
}

fn reason(verb: &str, success: bool) -> &'static str {
    match (verb, success) {
        ("Create", true) => "SuccessfulCreate",
        ("Create", false) => "FailedCreate",
        ("Update", true) => "SuccessfulUpdate",
        ("Update", false) => "FailedUpdate",
        (_, true) => "SuccessfulDelete",
        (_, false) => "FailedDelete",
    }
}

/// The events about a pod or a claim.
pub(super) fn events(world: &World, outcome: &Outcome) -> Vec<Event> {
    let set = &world.set;
    let (verb, name) = match &outcome.action {
        Action::Create { object, .. } => ("Create", meta::name(object)),
        Action::Update { object, .. } => ("Update", meta::name(object)),
        Action::Delete { key, .. } => ("Delete", key.name.as_str()),
        Action::Patch { .. } | Action::Post { .. } | Action::Scale { .. } => {
            return Vec::new();
        }
    };
    let kind = outcome.action.kind();
    if *kind == kinds::PODS {
        return match &outcome.result {
            Ok(_) => vec![succeeded(set, verb, name)],
            Err(error) if verb == "Create" && error.already_exists() => Vec::new(),
            Err(error) => vec![failed(set, verb, name, &error.to_string())],
        };
    }
    if *kind == kinds::PERSISTENT_VOLUME_CLAIMS {
        return claim_events(world, verb, name, outcome.result.as_ref().err());
    }
    Vec::new()
}

fn claim_events(world: &World, verb: &str, claim: &str, error: Option<&Error>) -> Vec<Event> {
    let set = &world.set;
    let ordinal = identity::ordinal(claim).unwrap_or_default();
    let pod = identity::pod_name(set, ordinal);
    match (verb, error) {
        ("Create", None) => {
            let message =
                format!("Create Claim {claim} Pod {pod} in StatefulSet {} success", meta::name(set));
            vec![Event::normal(COMPONENT, set, "SuccessfulCreate", message)]
        }
        ("Create", Some(error)) => {
            let message = format!(
                "Create Claim {claim} for Pod {pod} in StatefulSet {} failed error: {error}",
                meta::name(set)
            );
            let of_claim =
                (!error.already_exists()).then(|| Event::warning(COMPONENT, set, "FailedCreate", message));
            let is_there = world.pods.owned.iter().any(|owned| owned.key.name == pod.as_str());
            let of_pod = (!is_there)
                .then(|| failed(set, "Create", &pod, &format!("failed to create PVC {claim}: {error}")));
            of_claim.into_iter().chain(of_pod).collect()
        }
        (_, Some(error)) if identity::ordinals(set).contains(&ordinal) => {
            let why = format!("could not update claim {claim} for delete policy ownerRefs: {error}");
            vec![failed(set, "Update", &pod, &why)]
        }
        _ => Vec::new(),
    }
}
