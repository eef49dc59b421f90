//! Columns for the parameters of policies and their bindings.

use corten_api::{Map, Value};

use crate::table::{UNSET, str_at};

/// The kind of a policy's parameters.
pub(crate) fn param_kind(object: &Value) -> String {
    match object.at(&["spec", "paramKind"]).filter(|kind| !kind.is_null()) {
        Some(kind) => format!("{}/{}", str_at(kind, &["apiVersion"]), str_at(kind, &["kind"])),
        None => UNSET.to_owned(),
    }
}

/// The parameters of a binding: one by name, or those of a selector. A name without a namespace may be
/// in any.
pub(crate) fn param_ref(object: &Value) -> String {
    let Some(reference) = object.at(&["spec", "paramRef"]).filter(|r| !r.is_null()) else {
        return UNSET.to_owned();
    };
    match (str_at(reference, &["namespace"]), str_at(reference, &["name"])) {
        ("", "") | (_, "") => match reference.get("selector").filter(|s| !s.is_null()) {
            Some(selector) => go_selector(selector),
            None => UNSET.to_owned(),
        },
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// A label selector as Go prints the message.
fn go_selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).map(Map::iter).into_iter().flatten();
    let labels: String =
        labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let requirement = |expression: &Value| {
        let values: Vec<&str> = expression.items_at(&["values"]).iter().filter_map(Value::as_str).collect();
        let (key, operator) = (str_at(expression, &["key"]), str_at(expression, &["operator"]));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    };
    let requirements: String = selector.items_at(&["matchExpressions"]).iter().map(requirement).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn parameters_by_name_or_selector() {
        let shown = |reference: Value| param_ref(&value!({"spec": {"paramRef": reference}}));
        assert_eq!(shown(value!({"name": "p", "namespace": "n"})), "n/p");
        assert_eq!(shown(value!({"name": "p"})), "*/p");
        assert_eq!(
            shown(value!({"selector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
            }})),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
        );
        assert_eq!(param_ref(&Value::Null), "<unset>");
        assert_eq!(
            param_kind(&value!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}})),
            "v1/ConfigMap"
        );
        assert_eq!(param_kind(&Value::Null), "<unset>");
    }
}
