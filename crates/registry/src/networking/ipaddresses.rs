//! IP addresses: allocated to services. The name is the address.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::same;
use crate::rules::{NameRule, RowContext, Rules};
use crate::table::{NAME, NONE, age, cells, name, str_at, text};
use crate::validation::{ip, text as texts};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "ipaddresses",
    storage_prefix: "ipaddresses",
    name: NameRule::Any,
    validate_create,
    validate_update,
    columns: &[
        NAME,
        text("ParentRef", "What the address was given to.").of("networking/v1.IPAddressSpec", "parentRef"),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
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
    // The age has no column, but clients that know the printed form get it.
    cells![name(object), parent.unwrap_or_else(|| NONE.to_owned()), age(object, context)]
}

const PARENT: Field<'static> = Field::new("spec").child("parentRef");

fn validate_create(object: &Value, errors: &mut ErrorList) {
    validate_names(object, errors);
    let Some(parent) = object.at(&["spec", "parentRef"]).filter(|p| !p.is_null()) else {
        errors.required(PARENT, "");
        return;
    };
    let part = |key: &str| str_at(parent, &[key]);
    texts::optional(part("group"), names::dns1123_subdomain, &PARENT.child("group"), errors);
    texts::required(part("resource"), names::path_segment_name, &PARENT.child("resource"), errors);
    texts::required(part("name"), names::path_segment_name, &PARENT.child("name"), errors);
    texts::optional(part("namespace"), names::path_segment_name, &PARENT.child("namespace"), errors);
}

/// The name is an address, and so must be the prefix of a generated one.
fn validate_names(object: &Value, errors: &mut ErrorList) {
    for key in ["generateName", "name"] {
        let name = str_at(object, &["metadata", key]);
        if !name.is_empty() {
            texts::complain(&Field::new("metadata").child(key), name, ip::canonical_ip(name), errors);
        }
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    const PATH: &[&str] = &["spec", "parentRef"];
    validate_names(object, errors);
    if !same(object, old, PATH) {
        validate_create(object, errors);
        errors.invalid(PARENT, &Value::Null, "field is immutable");
    }
}
