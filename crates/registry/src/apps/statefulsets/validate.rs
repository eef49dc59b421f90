//! Validation of a stateful set: its template, volume claims of each pod, and the order of changes.

use std::borrow::Cow;
use std::collections::HashSet;

use corten_api::selector::LabelSelector;
use corten_api::status::ErrorList;
use corten_api::{Field, Value, names, value};

use crate::prepare::same;
use crate::validation::fields::{immutable, non_negative, number, part};
use crate::validation::int_or_percent::{magnitude, validate_at_most_100_percent, validate_int_or_percent};
use crate::validation::internal_form;
use crate::validation::label_selector::{LabelSelectorOptions, validate_labels};
use crate::validation::pod_template::{validate_pod_template_spec, validate_pod_template_spec_update};
use crate::validation::text::{complain, list, member, text};
use crate::validation::volume_claim::validate_volume_claim_spec;
use crate::validation::volume_warnings::claim_warnings;
use crate::validation::workload::{
    at_most, shown_selector, template_warnings, validate_collisions, validate_required_selector,
    validate_restart_always, validate_selector_is_immutable, validate_selector_matches,
};

/// The validated parts. Parts that cannot change are not validated again, nor is a stored template that would be
/// refused today.
#[derive(Debug, Clone, Copy)]
struct Scope<'a> {
    old: Option<&'a Value>,
    template: bool,
}

pub(super) fn validate_create(set: &Value, errors: &mut ErrorList) {
    validate_spec(part(set, "spec"), Scope { old: None, template: true }, errors);
}

pub(super) fn validate_update(set: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, before) = (part(set, "spec"), part(old, "spec"));
    let mut complaints = ErrorList::new();
    validate_spec(before, Scope { old: Some(before), template: true }, &mut complaints);
    validate_spec(spec, Scope { old: Some(before), template: complaints.is_empty() }, errors);
    validate_selector_is_immutable(set, old, errors);
    let at = Field::new("spec");
    if !same(spec, before, &["volumeClaimTemplates"]) {
        let shown =
            internal_form::compact_list("PersistentVolumeClaim", spec.items_at(&["volumeClaimTemplates"]));
        errors.invalid_shown(at.child("volumeClaimTemplates"), shown, "field is immutable");
    }
    for key in ["serviceName", "podManagementPolicy"] {
        immutable(spec, before, key, &at, errors);
    }
}

fn validate_spec(spec: &Value, scope: Scope<'_>, errors: &mut ErrorList) {
    let at = Field::new("spec");
    match text(spec, "podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        "" => errors.required(at.child("podManagementPolicy"), ""),
        other => {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(at.child("podManagementPolicy"), &Value::from(other), why);
        }
    }
    validate_strategy(part(spec, "updateStrategy"), &at.child("updateStrategy"), errors);
    if let Some(policy) = member(spec, "persistentVolumeClaimRetentionPolicy") {
        validate_retention(policy, &at.child("persistentVolumeClaimRetentionPolicy"), errors);
    }
    if scope.old.is_none() {
        validate_claims(spec, &at.child("volumeClaimTemplates"), errors);
    }
    non_negative(spec, "replicas", &at, errors);
    non_negative(spec, "minReadySeconds", &at, errors);
    non_negative(part(spec, "ordinals"), "start", &at.child("ordinals"), errors);
    let service = text(spec, "serviceName");
    if scope.old.is_none() && !service.is_empty() {
        complain(&at.child("serviceName"), service, names::dns1123_label(service), errors);
    }
    validate_required_selector(spec, "statefulset", &at, errors);
    validate_template(spec, scope, &at, errors);
    validate_restart_always(part(spec, "template"), "StatefulSet", &at.child("template"), errors);
}

fn validate_strategy(strategy: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let rolling = member(strategy, "rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("", _) => errors.required(*at, ""),
        ("OnDelete", Some(rolling)) => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid_shown(
                at.child("rollingUpdate"),
                internal_form::compact("RollingUpdateStatefulSetStrategy", rolling),
                why,
            );
        }
        ("RollingUpdate", Some(rolling)) => {
            validate_rolling_update(rolling, &at.child("rollingUpdate"), errors);
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid_shown(*at, internal_form::compact("StatefulSetUpdateStrategy", strategy), why);
        }
    }
}

fn validate_rolling_update(rolling: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    non_negative(rolling, "partition", at, errors);
    let Some(unavailable) = member(rolling, "maxUnavailable") else { return };
    let at = at.child("maxUnavailable");
    validate_int_or_percent(unavailable, &at, errors);
    if magnitude(unavailable) == 0 {
        errors.invalid(at, unavailable, "cannot be 0");
    }
    validate_at_most_100_percent(unavailable, &at, errors);
}

fn validate_retention(policy: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for key in ["whenDeleted", "whenScaled"] {
        let what = text(policy, key);
        if !matches!(what, "Retain" | "Delete") {
            errors.not_supported(at.child(key), &Value::from(what), &["Retain", "Delete"]);
        }
    }
}

fn validate_claims(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        let options = LabelSelectorOptions::default();
        validate_volume_claim_spec(part(claim, "spec"), options, false, &at.index(i).child("spec"), errors);
    }
}

fn validate_template(spec: &Value, scope: Scope<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let selector = member(spec, "selector");
    let Ok(parsed) = LabelSelector::from_object(selector) else {
        let shown = shown_selector(selector);
        errors.invalid_shown(at.child("selector"), shown, "");
        return;
    };
    let (template, at) = (part(spec, "template"), at.child("template"));
    if !parsed.is_everything() {
        validate_selector_matches(template, &parsed, &at, errors);
    }
    if scope.template {
        let completed = completed(spec);
        match scope.old {
            None => validate_pod_template_spec(&completed, &at, errors),
            Some(old) => {
                validate_pod_template_spec_update(&completed, part(old, "template"), &at, errors);
            }
        }
    }
    let metadata = part(template, "metadata");
    validate_labels(metadata.get("labels"), &at.child("labels"), errors);
    names::validate_annotations(metadata.get("annotations"), &at.child("annotations"), errors);
}

/// The template as pods have it: with a volume for each claim, and a host name that is not the
/// template's.
fn completed(spec: &Value) -> Cow<'_, Value> {
    let (template, claims) = (part(spec, "template"), list(spec, "volumeClaimTemplates"));
    let pod = part(template, "spec");
    if claims.is_empty() && text(pod, "subdomain").is_empty() && text(pod, "hostname").is_empty() {
        return Cow::Borrowed(template);
    }
    let mut template = template.clone();
    template.remove(&["spec", "subdomain"]);
    template.remove(&["spec", "hostname"]);
    if !claims.is_empty() {
        let names = || claims.iter().map(|claim| text(part(claim, "metadata"), "name"));
        let volume = |name| value!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let claimed: HashSet<&str> = names().collect();
        let own = list(pod, "volumes").iter().filter(|volume| !claimed.contains(text(volume, "name")));
        let volumes: Vec<Value> = names().map(volume).chain(own.cloned()).collect();
        template.set(&["spec", "volumes"], volumes);
    }
    Cow::Owned(template)
}

pub(super) fn validate_subresource(sub: &str, set: &Value, old: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let (status, at) = (part(set, "status"), Field::new("status"));
    for key in [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ] {
        non_negative(status, key, &at, errors);
    }
    let why = "cannot be greater than status.replicas";
    for key in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
        at_most(status, key, "replicas", why, errors);
    }
    let why = "cannot be greater than status.readyReplicas";
    at_most(status, "availableReplicas", "readyReplicas", why, errors);
    validate_collisions(set, old, errors);
}

/// Warnings about an accepted set.
pub(super) fn warnings(set: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = template_warnings(set, old);
    let claims = Field::new("spec");
    let claims = claims.child("volumeClaimTemplates");
    for (i, claim) in set.items_at(&["spec", "volumeClaimTemplates"]).iter().enumerate() {
        // Upstream's paths, for a new set and for a changed one.
        let at = claims.index(i);
        match old {
            None => claim_warnings(part(claim, "spec"), &at, &mut warnings),
            Some(_) => claim_warnings(part(claim, "spec"), &at.child("Spec"), &mut warnings),
        }
    }
    if number(part(set, "spec"), "revisionHistoryLimit") < 0 {
        let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {why}"));
    }
    warnings
}
