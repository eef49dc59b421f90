//! Node selection by pods: node selectors, required node affinity, tolerations of taints.

use crate::{Map, Str, Value};

/// The properties of a node that pods can select.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub name: &'a str,
    pub labels: &'a Map,
}

/// Returns true if a node satisfies a pod's node selector and required node affinity.
pub fn is_required(spec: &Value, node: Place<'_>) -> bool {
    let selector = spec.get("nodeSelector").and_then(Value::as_object);
    if !selector.is_none_or(|wanted| wanted.iter().all(|(key, value)| node.labels.get(key) == Some(value))) {
        return false;
    }
    let path = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(required) = spec.at(&path) else { return true };
    required.items_at(&["nodeSelectorTerms"]).iter().any(|term| fits(term, node))
}

fn fits(term: &Value, node: Place<'_>) -> bool {
    let expressions = term.items_at(&["matchExpressions"]);
    let fields = term.items_at(&["matchFields"]);
    let named: Map = [(Str::new_static("metadata.name"), Value::from(node.name))].into_iter().collect();
    // A term without requirements matches no node.
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| satisfies(requirement, node.labels))
        && fields.iter().all(|requirement| satisfies(requirement, &named))
}

fn satisfies(requirement: &Value, labels: &Map) -> bool {
    let has = requirement.str_at(&["key"]).and_then(|key| labels.get(key)).and_then(Value::as_str);
    let values = requirement.items_at(&["values"]);
    let listed = has.is_some_and(|has| values.iter().any(|value| value.as_str() == Some(has)));
    let numbers = || {
        let limit = values.first().and_then(Value::as_str)?.parse::<i64>().ok()?;
        Some((has?.parse::<i64>().ok()?, limit))
    };
    match requirement.str_at(&["operator"]).unwrap_or_default() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => has.is_some(),
        "DoesNotExist" => has.is_none(),
        "Gt" => numbers().is_some_and(|(has, limit)| has > limit),
        "Lt" => numbers().is_some_and(|(has, limit)| has < limit),
        _ => false,
    }
}

/// Returns true if the tolerations cover every taint of these effects.
pub fn tolerates(tolerations: &[Value], taints: &[Value], effects: &[&str]) -> bool {
    taints
        .iter()
        .filter(|taint| taint.str_at(&["effect"]).is_some_and(|effect| effects.contains(&effect)))
        .all(|taint| tolerations.iter().any(|toleration| covers(toleration, taint)))
}

/// Returns true if a toleration covers a taint.
pub fn covers(toleration: &Value, taint: &Value) -> bool {
    fn text<'a>(value: &'a Value, key: &str) -> &'a str {
        value.str_at(&[key]).unwrap_or_default()
    }
    let same = |key: &str| text(toleration, key).is_empty() || text(toleration, key) == text(taint, key);
    let value = match text(toleration, "operator") {
        "" | "Equal" => text(toleration, "value") == text(taint, "value"),
        operator => operator == "Exists",
    };
    same("effect") && same("key") && value
}
