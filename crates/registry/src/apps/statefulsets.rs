//! Stateful sets: pods with names and volumes of their own. The name becomes part of host names, hence a
//! DNS label.

mod validate;

use corten_api::{Map, Value};

use crate::core::persistentvolumeclaims::default_claim;
use crate::defaults::{child, fill_absent, fill_zero, is_zero, items, made, pod_template, text_of};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, NameRule, RowContext, Rules, Scale};
use crate::selector::label_selector;
use crate::table::{AGE, CONTAINERS, IMAGES, NAME, age, cells, containers, int_at, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "statefulsets",
    storage_prefix: "statefulsets",
    name: NameRule::DnsLabel,
    generation: Generation::SPEC,
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: validate::validate_subresource,
    warnings: validate::warnings,
    columns: &[NAME, text("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES],
    row,
    scale: Some(Scale {
        spec_replicas: &["spec", "replicas"],
        status_replicas: &["status", "replicas"],
        selector: |o| label_selector(o.at(&["spec", "selector"])).unwrap_or_default(),
    }),
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec", "containers"]);
    let (ready, desired) =
        (int_at(object, &["status", "readyReplicas"]), int_at(object, &["spec", "replicas"]));
    cells![name(object), format!("{ready}/{desired}"), age(object, context), names, images]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_zero(spec, "podManagementPolicy", "OrderedReady");
    fill_absent(spec, "replicas", 1);
    fill_absent(spec, "revisionHistoryLimit", 10);
    update_strategy(made(spec, "updateStrategy"));
    let retention = made(spec, "persistentVolumeClaimRetentionPolicy");
    fill_zero(retention, "whenDeleted", "Retain");
    fill_zero(retention, "whenScaled", "Retain");
    pod_template(spec);
    for claim in items(spec, "volumeClaimTemplates") {
        // Claims always have this type, whatever a client sends.
        for (key, always) in [("apiVersion", "v1"), ("kind", "PersistentVolumeClaim")] {
            if text_of(claim, key) != always {
                claim.insert(key, always);
            }
        }
        default_claim(claim);
    }
}

/// A rolling update strategy without parameters gets no default ones.
fn update_strategy(strategy: &mut Map) {
    if is_zero(strategy, "type") {
        strategy.insert("type", "RollingUpdate");
        made(strategy, "rollingUpdate");
    }
    if text_of(strategy, "type") != "RollingUpdate" {
        return;
    }
    if let Some(rolling) = child(strategy, "rollingUpdate") {
        fill_absent(rolling, "partition", 0);
        fill_absent(rolling, "maxUnavailable", 1);
    }
}
