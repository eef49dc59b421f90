//! A pod's volumes: their names, and exactly one source for each.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names};

use crate::validation::pod_context::PodContext;
use crate::validation::text::{list, member, required, text};
use crate::validation::volume_claim::validate_volume_claim_template;
use crate::validation::volume_source::{SOURCES, Source};

/// The volumes that containers may use, by name: the valid ones.
pub(crate) struct Volumes<'a>(HashMap<&'a str, &'a Value>);

impl<'a> Volumes<'a> {
    pub(crate) fn find(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).copied()
    }
}

pub(crate) fn validate_volumes<'a>(
    context: &PodContext<'a>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) -> Volumes<'a> {
    let all = list(context.spec, "volumes");
    let mut volumes = Volumes(HashMap::with_capacity(all.len()));
    let ephemeral = LazyCell::new(|| {
        let made = all.iter().filter(|volume| member(volume, "ephemeral").is_some());
        made.map(|volume| text(volume, "name")).collect::<HashSet<_>>()
    });
    for (i, volume) in all.iter().enumerate() {
        let (at, name) = (at.index(i), text(volume, "name"));
        // Errors are counted in a separate list: the other may be full.
        let mut own = ErrorList::new();
        validate_source(context, volume, &at, &mut own);
        required(name, names::dns1123_label, &at.child("name"), &mut own);
        if volumes.find(name).is_some() {
            own.duplicate(at.child("name"), &Value::from(name));
        }
        if own.is_empty() {
            volumes.0.insert(name, volume);
        }
        own.0.into_iter().for_each(|error| errors.add(error));
        validate_claim_is_not_generated(context, volume, &ephemeral, &at, errors);
    }
    volumes
}

/// The claim of an ephemeral volume is used by that volume only.
fn validate_claim_is_not_generated(
    context: &PodContext<'_>,
    volume: &Value,
    ephemeral: &HashSet<&str>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (Some(claim), Some(pod)) = (member(volume, "persistentVolumeClaim"), context.pod_name()) else {
        return;
    };
    let claim = text(claim, "claimName");
    let Some(volume_name) = claim.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-')) else { return };
    if ephemeral.contains(volume_name) {
        let why = "must not reference a PVC that gets created for an ephemeral volume";
        errors.invalid(at.child("persistentVolumeClaim").child("claimName"), &Value::from(claim), why);
    }
}

fn validate_source(context: &PodContext<'_>, volume: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for source in sources(volume) {
        let value = volume.get(source.key).unwrap_or(&Value::Null);
        if found {
            errors.forbidden(at.child(source.forbidden_at), "may not specify more than 1 volume type");
        } else {
            (source.check)(context, value, &at.child(source.at), errors);
        }
        match source.key {
            "iscsi" => validate_iscsi_name(volume, value, at, errors),
            "ephemeral" if !found => validate_ephemeral(context, volume, value, at, errors),
            _ => {}
        }
        found = true;
    }
    if !found {
        errors.required(at, "must specify a volume type");
    }
}

/// The sources of a volume, in upstream's order. A volume is mostly a name and one source: then the source is
/// looked up by its name rather than each of all sources in the volume.
fn sources(volume: &Value) -> impl Iterator<Item = &'static Source> {
    let members = || volume.as_object().into_iter().flat_map(Map::iter).filter(|(key, _)| *key != "name");
    let only = members().next().filter(|_| members().count() == 1).map(|(key, _)| key);
    SOURCES.iter().filter(move |source| match only {
        Some(only) => source.key == only && member(volume, source.key).is_some(),
        None => member(volume, source.key).is_some(),
    })
}

fn validate_iscsi_name(volume: &Value, iscsi: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST: usize = 64;
    let (name, portal) = (text(volume, "name"), text(iscsi, "targetPortal"));
    if member(iscsi, "initiatorName").is_some() && name.len() + 1 + portal.len() > MOST {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid(at.child("name"), &Value::from(name), why);
    }
}

/// A volume with the pod's lifetime. Its claim is named after both.
fn validate_ephemeral(
    context: &PodContext<'_>,
    volume: &Value,
    ephemeral: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let source_at = at.child("ephemeral");
    match member(ephemeral, "volumeClaimTemplate") {
        None => errors.required(source_at.child("volumeClaimTemplate"), ""),
        Some(template) => {
            validate_volume_claim_template(template, &source_at.child("volumeClaimTemplate"), errors);
        }
    }
    let (Some(pod), name) = (context.pod_name(), text(volume, "name")) else { return };
    if name.is_empty() {
        return;
    }
    let claim = format!("{pod}-{name}");
    for complaint in names::dns1123_subdomain(&claim) {
        let why = format!("PVC name \"{claim}\": {complaint}");
        errors.invalid(at.child("name"), &Value::from(name), why);
    }
}
