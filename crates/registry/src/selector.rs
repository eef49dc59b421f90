//! Label selectors for display: `app=web,tier in (a,b)`.

use corten_api::{Map, Value};

use crate::table::NONE;

/// A set of labels: `a=b,c=d`, or `<none>`.
pub(crate) fn labels(set: Option<&Value>) -> String {
    match label_set(set) {
        text if text.is_empty() => NONE.to_owned(),
        text => text,
    }
}

/// A set of labels: `a=b,c=d`, empty for none.
pub(crate) fn label_set(set: Option<&Value>) -> String {
    let pairs = set.and_then(Value::as_object).map(Map::iter).into_iter().flatten();
    let texts: Vec<String> = pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    texts.join(",")
}

/// A `LabelSelector` in its text form: empty if it is absent or selects everything. `None` for an invalid
/// selector.
pub(crate) fn label_selector(selector: Option<&Value>) -> Option<String> {
    let Some(selector) = selector else { return Some(String::new()) };
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (key, value) in
        selector.get("matchLabels").and_then(Value::as_object).map(Map::iter).into_iter().flatten()
    {
        parts.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector.items_at(&["matchExpressions"]) {
        let key = expression.str_at(&["key"]).unwrap_or_default();
        let mut values: Vec<&str> =
            expression.items_at(&["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression.str_at(&["operator"])? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        parts.push((key, text));
    }
    // Requirements are sorted by key; those on one key keep their order.
    parts.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    Some(texts.join(","))
}

/// A `LabelSelector` in a table's cell.
pub(crate) fn selector_cell(selector: Option<&Value>) -> Value {
    Value::from(match label_selector(selector) {
        None => "<error>".to_owned(),
        Some(text) if text.is_empty() => NONE.to_owned(),
        Some(text) => text,
    })
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn selectors_read_by_key() {
        let selector = value!({
            "matchLabels": {"tier": "web", "app": "shop"},
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["b", "a"]},
                {"key": "gpu", "operator": "DoesNotExist"},
                {"key": "cpu", "operator": "Exists"},
                {"key": "zone", "operator": "NotIn", "values": ["c"]},
            ],
        });
        assert_eq!(
            label_selector(Some(&selector)).unwrap(),
            "app=shop,cpu,!gpu,tier=web,zone in (a,b),zone notin (c)"
        );
        assert_eq!(selector_cell(Some(&value!({}))), Value::from("<none>"));
        assert_eq!(selector_cell(None), Value::from("<none>"));
        let bad = value!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
        assert_eq!(selector_cell(Some(&bad)), Value::from("<error>"));
        assert_eq!(labels(Some(&value!({"b": "2", "a": "1"}))), "a=1,b=2");
        assert_eq!(labels(None), "<none>");
    }
}
