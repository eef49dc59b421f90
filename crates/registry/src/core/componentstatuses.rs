//! Component statuses: the health of the control plane, computed on request.

use corten_api::Value;

use crate::rules::{RowContext, Rules};
use crate::table::{NAME, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "componentstatuses",
    stored: false,
    columns: &[
        NAME,
        text("Status", "Status of the component conditions"),
        text("Message", "Message of the component conditions"),
        text("Error", "Error of the component conditions"),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let healthy = object.items_at(&["conditions"]).iter().find(|c| c.str_at(&["type"]) == Some("Healthy"));
    let Some(healthy) = healthy else { return cells![name(object), "Unknown", "", ""] };
    let status = if healthy.str_at(&["status"]) == Some("True") { "Healthy" } else { "Unhealthy" };
    cells![name(object), status, str_at(healthy, &["message"]), str_at(healthy, &["error"])]
}
