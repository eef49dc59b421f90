//! `flowcontrol.apiserver.k8s.io`.

pub(crate) mod flowschemas;
pub(crate) mod prioritylevelconfigurations;

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::fields::part;
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, text};

/// Conditions have a type, which is unique.
fn validate_conditions(object: &Value, errors: &mut ErrorList) {
    let status = Field::new("status");
    let at = status.child("conditions");
    let conditions = list(part(object, "status"), "conditions");
    let repeats = Repeats::of(conditions, |item| text(item, "type"));
    for (i, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        if repeats.at(i) {
            errors.duplicate(at.index(i).child("type"), &Value::from(kind));
        }
        if kind.is_empty() {
            errors.required(at.index(i).child("type"), "");
        }
    }
}

fn validate_status(sub: &str, object: &Value, _: &Value, errors: &mut ErrorList) {
    if sub == "status" {
        validate_conditions(object, errors);
    }
}
