//! The label selectors of workloads.

use corten_api::Value;
use corten_api::selector::LabelSelector;

/// The selector of a workload; `None` if it is empty or cannot be parsed.
pub(crate) fn of(object: &Value) -> Option<LabelSelector> {
    let selector = object.at(&["spec", "selector"])?;
    // Replication controllers have plain labels as selector.
    let plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let selector = match selector {
        Value::Object(labels) if plain => LabelSelector::from_labels(labels),
        selector => LabelSelector::from_object(Some(selector)).ok()?,
    };
    (!selector.is_everything()).then_some(selector)
}

/// A selector as messages print it.
pub(crate) fn spelled(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let pairs = labels.into_iter().flat_map(|labels| labels.iter());
    let labels: String = pairs.map(|(key, value)| format!("{key}: {},", text(value))).collect();
    let requirement = |one: &Value| {
        let values: Vec<String> = one.items_at(&["values"]).iter().map(text).collect();
        let field = |key: &str| one.str_at(&[key]).unwrap_or_default();
        let (key, operator, values) = (field("key"), field("operator"), values.join(" "));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    };
    let all: String = selector.items_at(&["matchExpressions"]).iter().map(requirement).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{all}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn selectors_are_spelled_out() {
        let selector = value!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]});
        assert_eq!(
            spelled(Some(&selector)),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}"
        );
        assert_eq!(spelled(None), "nil");
    }
}
