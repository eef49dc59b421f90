//! Defaults that webhooks and policies share.

use corten_api::{Map, Value};

use crate::defaults::{child, fill_absent, items, made, service_reference};

/// All webhooks of a configuration.
pub(super) fn webhooks(object: &mut Map) {
    for webhook in items(object, "webhooks") {
        fill_absent(webhook, "failurePolicy", "Fail");
        fill_absent(webhook, "timeoutSeconds", 10);
        matching(webhook);
        service_reference(made(webhook, "clientConfig"));
        rules(webhook, "rules");
    }
}

/// The member of a policy or binding that selects requests.
pub(super) fn match_resources(spec: &mut Map, key: &str) {
    let Some(resources) = child(spec, key) else { return };
    matching(resources);
    rules(resources, "resourceRules");
    rules(resources, "excludeResourceRules");
}

fn matching(map: &mut Map) {
    fill_absent(map, "matchPolicy", "Equivalent");
    fill_absent(map, "namespaceSelector", Value::object());
    fill_absent(map, "objectSelector", Value::object());
}

fn rules(map: &mut Map, key: &str) {
    for rule in items(map, key) {
        fill_absent(rule, "scope", "*");
    }
}
