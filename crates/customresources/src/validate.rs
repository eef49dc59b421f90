//! Validation of values against a schema: JSON-schema validation with the errors of upstream's library.
//!
//! Errors come in the order of upstream's validators: type, junctors, string, format, number, list, enum, object.
//! Fields are visited in order of their names, where upstream's order is random. Of equal errors, one is listed.
//!
//! On update, errors of a value that correlates with an equal old value are tolerated (ratcheting). Values below a
//! junctor are not compared on their own.

mod numbers;
mod outcome;
#[cfg(test)]
mod tests;

use corten_api::status::{ErrorList, shown};
use corten_api::{Map, Value, go};

use crate::correlate::{OldItems, is_unchanged, old_field};
use crate::format::Format;
use crate::schema::{Additional, Check, Node, Schema, Type};
use outcome::{Outcome, Path};

/// Validates a whole custom resource.
pub fn validate_schema(object: &Value, schema: &Schema, errors: &mut ErrorList) {
    validate_node_update(object, None, schema.root(), "", errors);
}

/// Validates a whole custom resource against its schema and its previous state.
pub fn validate_schema_update(object: &Value, old: &Value, schema: &Schema, errors: &mut ErrorList) {
    validate_node_update(object, Some(old), schema.root(), "", errors);
}

/// Validates the `status` of a custom resource, if it has one.
pub fn validate_status_update(object: &Value, old: &Value, schema: &Schema, errors: &mut ErrorList) {
    let (Some(status), Some(node)) = (object.get("status"), schema.root().property("status")) else { return };
    validate_node_update(status, Some(old.get("status").unwrap_or(&Value::Null)), node, "status", errors);
}

/// Validates a default of a node, whose path is `prefix`.
pub(crate) fn validate_default(value: &Value, node: &Node, prefix: &str, errors: &mut ErrorList) {
    let mut outcome = Outcome::new(prefix);
    outcome.is_default = true;
    validate(value, None, node, &Path::ROOT, &mut outcome);
    outcome.errors.0.into_iter().for_each(|error| errors.add(error));
}

fn validate_node_update(
    value: &Value,
    old: Option<&Value>,
    node: &Node,
    prefix: &str,
    errors: &mut ErrorList,
) {
    let mut outcome = Outcome::new(prefix);
    ratchet(value, old, node, &Path::ROOT, &mut outcome);
    outcome.errors.0.into_iter().for_each(|error| errors.add(error));
}

/// Validates a value, and tolerates its errors if it equals the old value.
fn ratchet(value: &Value, old: Option<&Value>, node: &Node, path: &Path<'_>, outcome: &mut Outcome<'_>) {
    let before = outcome.mark();
    let is_changed_below = validate(value, old, node, path, outcome);
    let Some(old) = old.filter(|_| outcome.has_errors_since(&before)) else { return };
    if is_changed_below || !is_unchanged(node, value, old) {
        outcome.is_changed = true;
    } else {
        outcome.forget_errors_since(before);
    }
}

/// Validates a value. Returns true if a part of it has errors and is known to differ from its old value.
fn validate(
    value: &Value,
    old: Option<&Value>,
    node: &Node,
    path: &Path<'_>,
    outcome: &mut Outcome<'_>,
) -> bool {
    let outer = std::mem::take(&mut outcome.is_changed);
    if value.is_null() {
        validate_type(value, node, path, outcome);
        validate_enum(value, node, path, outcome);
    } else {
        if has_type_or_format(node, outcome) {
            validate_type(value, node, path, outcome);
            outcome.matches += 1;
        }
        validate_junctors(value, node, path, outcome);
        outcome.matches += 2;
        match value {
            Value::String(text) => validate_string(text, node, path, outcome),
            Value::Int(_) | Value::Float(_) => numbers::validate(value, node, path, outcome),
            Value::Array(items) => validate_list(items, old, node, path, outcome),
            _ => {}
        }
        validate_enum(value, node, path, outcome);
        outcome.matches += 1;
        if let Value::Object(map) = value {
            validate_object(map, old, node, path, outcome);
            outcome.matches += 1;
        }
        outcome.matches += 1;
    }
    std::mem::replace(&mut outcome.is_changed, outer)
}

fn has_type_or_format(node: &Node, outcome: &Outcome<'_>) -> bool {
    node.kind != Type::Any || is_int_or_string(node, outcome) || format_of(node, outcome).is_some()
}

fn is_int_or_string(node: &Node, outcome: &Outcome<'_>) -> bool {
    node.int_or_string && !outcome.is_default
}

fn format_of<'n>(node: &'n Node, outcome: &Outcome<'_>) -> Option<&'n Format> {
    node.checks.iter().find_map(|check| match check {
        Check::Format(format) => Some(format),
        Check::IgnoredFormat(format) => Some(format).filter(|_| outcome.is_default),
        _ => None,
    })
}

/// Returns true if the schema names a type.
fn has_type(node: &Node, kind: Type, outcome: &Outcome<'_>) -> bool {
    if is_int_or_string(node, outcome) {
        matches!(kind, Type::Integer | Type::String)
    } else {
        node.kind == kind
    }
}

/// The types of a schema in messages.
fn type_names<'n>(node: &'n Node, outcome: &Outcome<'_>) -> &'n str {
    if is_int_or_string(node, outcome) {
        return "integer,string";
    }
    let unknown = node.checks.iter().find_map(|check| match check {
        Check::TypeName(name) => Some(name.as_str()),
        _ => None,
    });
    unknown.unwrap_or(node.kind.name())
}

fn validate_type(value: &Value, node: &Node, path: &Path<'_>, outcome: &mut Outcome<'_>) {
    let names = type_names(node, outcome);
    if value.is_null() {
        if !names.is_empty() && !node.nullable && names != "null" {
            outcome.wrong_type(path, names, "null");
        } else {
            outcome.matches += 1;
        }
        return;
    }
    let kind = Type::of(value);
    let is_integral = matches!(value, Value::Float(number) if numbers::is_integral(*number));
    let fits = has_type(node, kind, outcome)
        || (is_integral && has_type(node, Type::Integer, outcome))
        || (kind == Type::Integer && has_type(node, Type::Number, outcome));
    let is_text_or_list = matches!(kind, Type::String | Type::Array);
    if let Some(format) = format_of(node, outcome).map(|format| format.name.as_str()) {
        let value_format = match value {
            Value::Int(_) => "int64",
            Value::Float(_) => "float64",
            _ => "",
        };
        if !is_text_or_list && !fits && format != value_format {
            outcome.wrong_type(path, format, value_format);
            return;
        }
        let is_number = has_type(node, Type::Integer, outcome) || has_type(node, Type::Number, outcome);
        if is_text_or_list && !is_number {
            // Even a list passes here.
            outcome.matches += 1;
            return;
        }
    }
    if fits {
        outcome.matches += 1;
    } else {
        outcome.wrong_type(path, names, kind.name());
    }
}

fn validate_string(text: &str, node: &Node, path: &Path<'_>, outcome: &mut Outcome<'_>) {
    // Of several violations upstream reports the first.
    if let Some(why) = string_violation(text, node) {
        match why {
            Violation::TooLong(most) => outcome.too_long(path, most),
            Violation::Other(why) => outcome.invalid(path, shown(&Value::from(text)), &why),
        }
    }
    outcome.matches += 1;
    let format = format_of(node, outcome);
    if let Some((format, fits)) = format.and_then(|format| Some((format, format.check?))) {
        if !fits(text) {
            outcome.wrong_format(path, &format.name, text);
        }
        outcome.matches += 1;
    }
}

enum Violation {
    TooLong(i64),
    Other(String),
}

fn string_violation(text: &str, node: &Node) -> Option<Violation> {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    node.checks.iter().find_map(|check| match check {
        Check::MaxLength(most) if length() > *most => Some(Violation::TooLong(*most)),
        Check::MinLength(least) if length() < *least => {
            Some(Violation::Other(format!("should be at least {least} chars long")))
        }
        Check::Pattern(pattern) => pattern.complaint(text).map(Violation::Other),
        _ => None,
    })
}

fn validate_list(
    items: &[Value],
    old: Option<&Value>,
    node: &Node,
    path: &Path<'_>,
    outcome: &mut Outcome<'_>,
) {
    if let Some(item_node) = &node.items {
        let old = old.and_then(|old| OldItems::new(node, old));
        for (i, item) in items.iter().enumerate() {
            let old = old.as_ref().and_then(|old| old.find(node, item)).filter(|old| !old.is_null());
            ratchet(item, old, item_node, &path.index(i), outcome);
        }
    }
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    for check in &node.checks {
        match check {
            Check::MinItems(least) if length < *least => {
                outcome.invalid(path, length.to_string(), &format!("should have at least {least} items"));
            }
            Check::MaxItems(most) if length > *most => outcome.too_many(path, items.len(), *most),
            Check::UniqueItems if corten_api::set_of(items).len() < items.len() => {
                outcome.invalid(path, shown(&Value::from("")), "shouldn't contain duplicates");
            }
            _ => {}
        }
    }
    outcome.matches += 2;
}

fn validate_object(map: &Map, old: Option<&Value>, node: &Node, path: &Path<'_>, outcome: &mut Outcome<'_>) {
    let length = i64::try_from(map.len()).unwrap_or(i64::MAX);
    for check in &node.checks {
        match check {
            Check::MinProperties(least) if length < *least => {
                let why = format!("should have at least {least} properties");
                outcome.invalid(path, length.to_string(), &why);
            }
            Check::MaxProperties(most) if length > *most => outcome.too_many(path, map.len(), *most),
            _ => {}
        }
    }
    validate_unnamed_fields(map, old, node, path, outcome);
    let mut properties = node.in_order();
    for (key, value) in map.iter() {
        let Some(property) = properties.property(key) else { continue };
        // Versions are converted before they are compared, so a change of them is not seen.
        let is_type_meta = path.is_root() && matches!(key.as_str(), "apiVersion" | "kind");
        let old = if is_type_meta { None } else { old_field(node, old, key) };
        ratchet(value, old, property, &path.property(key), outcome);
    }
    for check in &node.checks {
        let Check::Required(names) = check else { continue };
        for name in names.iter().filter(|name| !map.contains_key(name)) {
            outcome.required(&path.unnamed(name));
        }
    }
}

/// Validates the fields that the schema does not name.
fn validate_unnamed_fields(
    map: &Map,
    old: Option<&Value>,
    node: &Node,
    path: &Path<'_>,
    outcome: &mut Outcome<'_>,
) {
    if outcome.is_nested_default {
        return;
    }
    let unnamed = || map.iter().filter(|(key, _)| node.property(key).is_none());
    match &node.additional {
        Additional::Bool(false) => unnamed().for_each(|(key, _)| outcome.forbidden_property(path, key)),
        Additional::Schema(additional) => {
            for (key, value) in unnamed() {
                let old = old_field(node, old, key);
                ratchet(value, old, additional, &path.unnamed(key), outcome);
            }
        }
        Additional::Absent | Additional::Bool(true) => {}
    }
}

fn validate_enum(value: &Value, node: &Node, path: &Path<'_>, outcome: &mut Outcome<'_>) {
    for check in &node.checks {
        if let Check::Enum(allowed) = check
            && !allowed.iter().any(|allowed| equals_allowed(value, allowed))
        {
            outcome.not_supported(path, value, allowed);
        }
    }
}

/// Equality after conversion to the type of the allowed value, as Go converts: a fraction is cut off, and an integer
/// becomes the text of one character. Null equals nothing.
fn equals_allowed(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Int(value), Value::Float(allowed)) => *value as f64 == *allowed,
        (Value::Float(value), Value::Int(allowed)) => go::integer(*value) == *allowed,
        (Value::Int(value), Value::String(allowed)) => {
            let c =
                u32::try_from(*value).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            allowed.as_str() == c.encode_utf8(&mut [0; 4])
        }
        _ => value == allowed,
    }
}

fn validate_junctors(value: &Value, node: &Node, path: &Path<'_>, outcome: &mut Outcome<'_>) {
    for check in &node.checks {
        match check {
            Check::AnyOf(branches) => validate_any_of(value, branches, path, outcome),
            Check::OneOf(branches) => validate_one_of(value, branches, path, outcome),
            Check::AllOf(branches) => validate_all_of(value, branches, path, outcome),
            Check::Not(branch) if !alone(value, branch, path, outcome).is_invalid() => {
                outcome.composite(path, "must not validate the schema (not)");
            }
            _ => {}
        }
    }
}

/// The outcome of one branch of a junctor.
fn alone<'e>(value: &Value, branch: &Node, path: &Path<'_>, outcome: &Outcome<'e>) -> Outcome<'e> {
    let mut alone = Outcome::new(outcome.prefix);
    alone.is_default = outcome.is_default;
    alone.is_nested_default = outcome.is_default;
    validate(value, None, branch, path, &mut alone);
    alone
}

fn validate_any_of(value: &Value, branches: &[Node], path: &Path<'_>, outcome: &mut Outcome<'_>) {
    let mut best: Option<Outcome<'_>> = None;
    for branch in branches {
        let result = alone(value, branch, path, outcome);
        if !result.is_invalid() {
            outcome.merge(result);
            return;
        }
        if best.as_ref().is_none_or(|best| result.matches > best.matches) {
            best = Some(result);
        }
    }
    outcome.composite(path, "must validate at least one schema (anyOf)");
    best.into_iter().for_each(|best| outcome.merge(best));
}

fn validate_one_of(value: &Value, branches: &[Node], path: &Path<'_>, outcome: &mut Outcome<'_>) {
    let (mut best, mut first): (Option<Outcome<'_>>, Option<Outcome<'_>>) = (None, None);
    let mut valid = 0;
    for branch in branches {
        let result = alone(value, branch, path, outcome);
        if !result.is_invalid() {
            valid += 1;
            best = None;
            first = first.or(Some(result));
        } else if valid == 0 && best.as_ref().is_none_or(|best| result.matches > best.matches) {
            best = Some(result);
        }
    }
    if valid == 1 {
        first.into_iter().for_each(|first| outcome.merge(first));
        return;
    }
    let found = if valid == 0 { "none valid".to_owned() } else { format!("{valid} valid alternatives") };
    outcome.composite(path, &format!("must validate one and only one schema (oneOf). Found {found}"));
    best.into_iter().for_each(|best| outcome.merge(best));
}

fn validate_all_of(value: &Value, branches: &[Node], path: &Path<'_>, outcome: &mut Outcome<'_>) {
    let mut valid = 0;
    for branch in branches {
        let result = alone(value, branch, path, outcome);
        valid += usize::from(!result.is_invalid());
        outcome.merge(result);
    }
    if valid != branches.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        outcome.composite(path, &format!("must validate all the schemas (allOf){none}"));
    }
}
