//! Ingresses: HTTP routes into the cluster.

mod validate;

use corten_api::Value;

use crate::core::services::load_balancer;
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, count, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "ingresses",
    prefix_on_update: true,
    storage_prefix: "ingress",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: validate::subresource,
    warnings: validate::warnings,
    columns: &[
        NAME,
        text(
            "Class",
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
        text("Address", "Address is a list containing ingress points for the load-balancer"),
        text("Ports", "Ports of TLS configurations that open"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![
        name(object),
        object.str_at(&["spec", "ingressClassName"]).unwrap_or(NONE),
        hosts(object),
        load_balancer(object),
        if count(object, &["spec", "tls"]) > 0 { "80, 443" } else { "80" },
        age(object, context),
    ]
}

/// The first hosts of rules, and the number of other rules.
fn hosts(object: &Value) -> String {
    const MOST: usize = 3;
    let rules = object.items_at(&["spec", "rules"]);
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == MOST;
        let host = str_at(rule, &["host"]);
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match hosts.join(",") {
        none if none.is_empty() => "*".to_owned(),
        hosts if more => format!("{hosts} + {} more...", rules.len() - MOST),
        hosts => hosts,
    }
}
