//! Pods. Their rows are in `print`, their preparation in `prepare`.

mod defaults;
mod prepare;
mod print;
mod qos;
pub(crate) mod references;
mod resources;
mod validate;

use corten_api::{Str, Value};

use crate::rules::{Generation, Grace, Path, Rules, Selectable};
use crate::table::{AGE, NAME, field, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "pods",
    storage_prefix: "pods",
    generation: Generation::SPEC,
    default: defaults::pod,
    prepare_create: prepare::create,
    prepare_update: prepare::update,
    prepare_subresource: prepare::subresource,
    reset_fields,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: validate::validate_subresource,
    warnings: validate::warnings,
    grace: Grace::Pod,
    delete_returns_object: true,
    selectable: &[
        Selectable { label: "spec.nodeName", value: |o| field(o, &["spec", "nodeName"]) },
        Selectable { label: "spec.host", value: |o| field(o, &["spec", "nodeName"]) },
        Selectable { label: "spec.restartPolicy", value: |o| field(o, &["spec", "restartPolicy"]) },
        Selectable { label: "spec.schedulerName", value: |o| field(o, &["spec", "schedulerName"]) },
        Selectable { label: "spec.serviceAccountName", value: |o| field(o, &["spec", "serviceAccountName"]) },
        Selectable {
            label: "spec.hostNetwork",
            value: |o| Str::from(o.bool_at(&["spec", "hostNetwork"]).unwrap_or(false).to_string()),
        },
        Selectable { label: "status.phase", value: |o| field(o, &["status", "phase"]) },
        Selectable { label: "status.podIP", value: |o| Str::from(first_ip(o)) },
        // Accepted, but always empty: upstream lists the label without a value.
        Selectable { label: "status.podIPs", value: |_| Str::default() },
        Selectable {
            label: "status.nominatedNodeName",
            value: |o| field(o, &["status", "nominatedNodeName"]),
        },
    ],
    columns: &[
        NAME,
        text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        text("Status", "The aggregate status of the containers in this pod."),
        text(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        ),
        AGE,
        text("IP", "The pod's address.").of("core/v1.PodStatus", "podIP").wide(),
        text("Node", "The node it is on.").of("core/v1.PodSpec", "nodeName").wide(),
        text("Nominated Node", "The node where room is being made for it.")
            .of("core/v1.PodStatus", "nominatedNodeName")
            .wide(),
        text("Readiness Gates", "How many further conditions for readiness hold, of how many.")
            .of("core/v1.PodSpec", "readinessGates")
            .wide(),
    ],
    row: print::row,
    row_conditions: print::row_conditions,
    ..Rules::DEFAULT
};

fn reset_fields(sub: &str) -> &'static [Path] {
    match sub {
        "" => &[&["status"]],
        "status" => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        _ => &[],
    }
}

fn first_ip(pod: &Value) -> &str {
    pod.items_at(&["status", "podIPs"]).first().map_or("", |ip| str_at(ip, &["ip"]))
}
