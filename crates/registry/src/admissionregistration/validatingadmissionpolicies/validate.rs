//! Validation of a validating admission policy: its checks and audit annotations.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};
use corten_policies::Purpose;

use crate::admissionregistration::expressions::Expressions;
use crate::admissionregistration::policies::validate_policy;
use crate::admissionregistration::validate::{SPEC, refuse_static_name, spec, validate_choice};
use crate::validation::conditions::validate_conditions;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, text};

const AUDIT_ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_MAX_LENGTH: usize = 5 * 1024;

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    validate_spec(object, None, errors);
    refuse_static_name(object, errors);
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    validate_spec(object, Some(spec(old)), errors);
}

pub(super) fn subresource(name: &str, object: &Value, _: &Value, errors: &mut ErrorList) {
    if name != "status" {
        return;
    }
    const STATUS: Field<'static> = Field::new("status");
    let at = STATUS.child("typeChecking");
    let at = at.child("expressionWarnings");
    let warnings = object.items_at(&["status", "typeChecking", "expressionWarnings"]);
    for (i, warning) in warnings.iter().enumerate() {
        for key in ["warning", "fieldRef"].iter().filter(|key| text(warning, key).trim().is_empty()) {
            errors.required(at.index(i).child(key), "");
        }
    }
    let conditions = object.items_at(&["status", "conditions"]);
    validate_conditions(conditions, &STATUS.child("conditions"), errors);
}

fn validate_spec(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let policy = spec(object);
    let mut expressions = validate_policy(policy, old, false, errors);
    let (validations, annotations) = (list(policy, "validations"), list(policy, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for key in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.required(SPEC.child(key), why);
        }
        return;
    }
    for (i, validation) in validations.iter().enumerate() {
        validate_validation(validation, &mut expressions, &SPEC.child("validations").index(i), errors);
    }
    let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
    validate_annotations(name, annotations, &mut expressions, &SPEC.child("auditAnnotations"), errors);
}

fn validate_validation(
    validation: &Value,
    expressions: &mut Expressions<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let expression = text(validation, "expression");
    match expression.trim() {
        "" => errors.required(at.child("expression"), "expression is not specified"),
        _ => expressions.validate(Purpose::Validation, expression, &at.child("expression"), errors),
    }
    for key in ["messageExpression", "message"] {
        let message = text(validation, key);
        let at = at.child(key);
        if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(at, &Value::from(message), "must be non-empty if specified");
        } else if key == "message" && message.trim().contains(['\n', '\r']) {
            errors.invalid(at, &Value::from(message), "must not contain line breaks");
        } else if key == "messageExpression" && !message.is_empty() {
            expressions.validate(Purpose::Message, message, &at, errors);
        }
    }
    let reasons = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
    validate_choice(validation, "reason", reasons, at, errors);
}

fn validate_annotations(
    policy: &str,
    annotations: &[Value],
    expressions: &mut Expressions<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let why = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        errors.invalid(at, &Value::from(annotations.to_vec()), why);
    }
    let repeats = Repeats::of(annotations, |item| text(item, "key"));
    for (i, annotation) in annotations.iter().enumerate() {
        let (at, key) = (at.index(i), text(annotation, "key"));
        if policy.is_empty() {
            errors.invalid(at.child("key"), &Value::from(key), "requires metadata.name be non-empty");
        } else {
            let qualified = format!("{policy}/{key}");
            complain(&at.child("key"), &qualified, names::qualified_name(&qualified), errors);
        }
        let (value, value_at) = (text(annotation, "valueExpression"), at.child("valueExpression"));
        if value.trim().len() > VALUE_EXPRESSION_MAX_LENGTH {
            let why = format!("must not exceed {VALUE_EXPRESSION_MAX_LENGTH} bytes in length");
            errors.required(value_at, why);
        } else if value.trim().is_empty() {
            errors.required(value_at, "valueExpression is not specified");
        } else {
            expressions.validate(Purpose::AuditAnnotation, value, &value_at, errors);
        }
        if repeats.at(i) {
            errors.duplicate(at.child("key"), &Value::from(key));
        }
    }
}
