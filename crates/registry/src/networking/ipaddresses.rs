//! IP addresses: which service holds which. The name is the address.

use corten_api::Value;

use crate::rules::{NameRule, RowContext, Rules};
use crate::table::{NAME, NONE, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "ipaddresses",
    storage_prefix: "ipaddresses",
    name: NameRule::PathSegment,
    columns: &[NAME, text("ParentRef", "What the address was given to.")],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let parent = object.at(&["spec", "parentRef"]).filter(|p| !p.is_null()).map(|parent| {
        let (group, resource) = (str_at(parent, &["group"]), str_at(parent, &["resource"]));
        let mut shown = match group {
            "" => resource.to_lowercase(),
            group => format!("{resource}.{group}").to_lowercase(),
        };
        for key in ["namespace", "name"] {
            let part = str_at(parent, &[key]);
            if !part.is_empty() || key == "name" {
                shown.push('/');
                shown.push_str(part);
            }
        }
        shown
    });
    cells![name(object), parent.unwrap_or_else(|| NONE.to_owned())]
}
