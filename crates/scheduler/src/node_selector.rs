//! Node selectors: required labels, and node selector terms with their fields.
//!
//! A term without requirements matches nothing, and neither does one that cannot be parsed.

use corten_api::selector::{LabelSelector, Operator, Requirement};
use corten_api::{Str, Value};

use crate::node::Node;

/// The requirements of a pod on its node: all labels, and one of the terms if there are any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequiredNodes {
    labels: Option<LabelSelector>,
    terms: Option<Vec<NodeTerm>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeTerm {
    /// `None` if the term cannot be parsed or is empty.
    labels: Option<LabelSelector>,
    fields: Vec<(Operator, Vec<Str>)>,
}

/// A term with a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreferredTerm {
    pub(crate) weight: i64,
    pub(crate) term: NodeTerm,
}

impl RequiredNodes {
    pub(crate) fn of(spec: &Value) -> RequiredNodes {
        let labels = spec.get("nodeSelector").and_then(Value::as_object).map(LabelSelector::from_labels);
        let path = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        RequiredNodes { labels, terms: spec.at(&path).filter(|required| !required.is_null()).map(terms) }
    }

    /// One of the terms of a node selector.
    pub(crate) fn of_selector(selector: &Value) -> RequiredNodes {
        RequiredNodes { labels: None, terms: Some(terms(selector)) }
    }

    pub(crate) fn is_anything(&self) -> bool {
        self.labels.is_none() && self.terms.is_none()
    }

    pub(crate) fn matches(&self, node: &Node) -> bool {
        self.labels.as_ref().is_none_or(|labels| labels.matches(&node.labels))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// The nodes named by every term, if all terms name some: no other can match.
    pub(crate) fn named(&self) -> Option<Vec<Str>> {
        let terms = self.terms.as_ref().filter(|terms| !terms.is_empty())?;
        let mut all: Vec<Str> = Vec::new();
        for term in terms {
            all.extend(term.named()?);
        }
        all.sort();
        all.dedup();
        Some(all)
    }
}

fn terms(selector: &Value) -> Vec<NodeTerm> {
    selector.items_at(&["nodeSelectorTerms"]).iter().map(NodeTerm::of).collect()
}

impl NodeTerm {
    pub(crate) fn of(term: &Value) -> NodeTerm {
        let (expressions, fields) = (term.items_at(&["matchExpressions"]), term.items_at(&["matchFields"]));
        if expressions.is_empty() && fields.is_empty() {
            return NodeTerm { labels: None, fields: Vec::new() };
        }
        let requirements: Option<Vec<Requirement>> = expressions.iter().map(requirement).collect();
        let fields: Option<Vec<_>> = fields.iter().map(field).collect();
        let labels = requirements.filter(|_| fields.is_some()).map(LabelSelector::all);
        NodeTerm { labels, fields: fields.unwrap_or_default() }
    }

    pub(crate) fn matches(&self, node: &Node) -> bool {
        let named = |(operator, names): &(Operator, Vec<Str>)| {
            names.contains(&node.name) == matches!(operator, Operator::In)
        };
        self.labels.as_ref().is_some_and(|labels| labels.matches(&node.labels))
            && self.fields.iter().all(named)
    }

    /// The names it allows, if it restricts them.
    fn named(&self) -> Option<Vec<Str>> {
        let mut lists = self.fields.iter().filter(|(operator, _)| *operator == Operator::In);
        let mut names = lists.next()?.1.clone();
        for (_, others) in lists {
            names.retain(|name| others.contains(name));
        }
        Some(names)
    }
}

impl PreferredTerm {
    pub(crate) fn all(list: &[Value]) -> Vec<PreferredTerm> {
        let read = |item: &Value| {
            let weight = item.int_at(&["weight"])?;
            Some(PreferredTerm { weight, term: NodeTerm::of(item.get("preference")?) })
        };
        list.iter().filter_map(read).filter(|preferred| preferred.weight != 0).collect()
    }
}

fn operator(of: &Value) -> Option<Operator> {
    Some(match of.str_at(&["operator"])? {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        _ => return None,
    })
}

fn values(of: &Value) -> Vec<Str> {
    of.items_at(&["values"]).iter().filter_map(Value::as_str).map(Str::new).collect()
}

fn requirement(expression: &Value) -> Option<Requirement> {
    Requirement::new(expression.str_at(&["key"])?, operator(expression)?, values(expression)).ok()
}

/// `metadata.name` is the only field.
fn field(expression: &Value) -> Option<(Operator, Vec<Str>)> {
    let operator = operator(expression).filter(|o| matches!(o, Operator::In | Operator::NotIn))?;
    (expression.str_at(&["key"]) == Some("metadata.name")).then(|| (operator, values(expression)))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[track_caller]
    fn check(spec: &Value, expected: bool) {
        let node = Node::of(&value!({"metadata": {"name": "n1", "labels": {"disk": "ssd", "cores": "8"}}}));
        assert_eq!(RequiredNodes::of(spec).matches(&node), expected, "{spec:?}");
    }

    fn with_terms(terms: Value) -> Value {
        value!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": (terms)}}}})
    }

    fn with_expression(key: &str, operator: &str, values: Value) -> Value {
        with_terms(
            value!([{"matchExpressions": [{"key": (key), "operator": (operator), "values": (values)}]}]),
        )
    }

    #[test]
    fn node_selector_terms_match_labels_and_names() {
        check(&value!({}), true);
        check(&value!({"nodeSelector": {"disk": "ssd"}}), true);
        check(&value!({"nodeSelector": {"disk": "hdd"}}), false);
        check(&with_expression("disk", "In", value!(["hdd", "ssd"])), true);
        check(&with_expression("disk", "NotIn", value!(["ssd"])), false);
        check(&with_expression("disk", "Exists", value!([])), true);
        check(&with_expression("gpu", "DoesNotExist", value!([])), true);
        check(&with_expression("cores", "Gt", value!(["4"])), true);
        check(&with_expression("cores", "Lt", value!(["4"])), false);
        check(&with_expression("disk", "Gt", value!(["4"])), false);
        check(&with_expression("disk", "Like", value!(["s*"])), false);
        check(&with_terms(value!([])), false);
        check(&with_terms(value!([{}])), false);
        let by_name = |name: &str| {
            with_terms(
                value!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [(name)]}]}]),
            )
        };
        check(&by_name("n1"), true);
        check(&by_name("n2"), false);
        assert_eq!(RequiredNodes::of(&by_name("n2")).named(), Some(vec!["n2".into()]));
        assert_eq!(RequiredNodes::of(&with_expression("disk", "Exists", value!([]))).named(), None);
    }
}
