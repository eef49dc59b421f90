//! Terms of pods about other pods: affinity, anti-affinity and spreading.

use corten_api::selector::{LabelSelector, Operator, Requirement};
use corten_api::{Map, Str, Value};

/// The most terms of one list. Each has its own counter, and each required affinity term is compared with all others. A pod with
/// more is not scheduled.
pub(crate) const MOST_TERMS: usize = 256;

/// An affinity term: pods, and the topology key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodTerm {
    pub(crate) pods: PodSelector,
    pub(crate) topology_key: Str,
}

/// Pods by their labels, in some namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodSelector {
    pub(crate) namespaces: Vec<Str>,
    pub(crate) namespace_selector: Option<LabelSelector>,
    pub(crate) labels: LabelSelector,
}

impl PodSelector {
    /// True if it selects pods with these labels in a namespace with those.
    pub(crate) fn matches(&self, namespace: &str, of_namespace: Option<&Map>, labels: &Map) -> bool {
        let by_labels = || {
            let selector = self.namespace_selector.as_ref();
            selector.is_some_and(|selector| selector.matches(of_namespace.unwrap_or(&Map::new())))
        };
        (self.namespaces.iter().any(|known| known == namespace) || by_labels()) && self.labels.matches(labels)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WeightedTerm {
    pub(crate) weight: i64,
    pub(crate) term: PodTerm,
}

/// The terms of one kind of affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodTerms {
    pub(crate) required: Vec<PodTerm>,
    pub(crate) preferred: Vec<WeightedTerm>,
    /// There are more than count.
    pub(crate) too_many: bool,
}

impl PodTerms {
    pub(crate) fn of(affinity: Option<&Value>, namespace: &str) -> PodTerms {
        let list = |key: &str| affinity.map_or(&[][..], |affinity| affinity.items_at(&[key]));
        let required = list("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = list("preferredDuringSchedulingIgnoredDuringExecution");
        let weighted = |item: &Value| {
            let weight = item.int_at(&["weight"]).unwrap_or(0);
            Some(WeightedTerm { weight, term: PodTerm::of(item.get("podAffinityTerm")?, namespace) })
        };
        PodTerms {
            required: required.iter().take(MOST_TERMS).map(|term| PodTerm::of(term, namespace)).collect(),
            preferred: preferred.iter().take(MOST_TERMS).filter_map(weighted).collect(),
            too_many: required.len().max(preferred.len()) > MOST_TERMS,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.required.is_empty() && self.preferred.is_empty()
    }
}

impl PodTerm {
    fn of(term: &Value, namespace: &str) -> PodTerm {
        let selector = term.get("namespaceSelector").filter(|selector| !selector.is_null());
        let mut namespaces: Vec<Str> =
            term.items_at(&["namespaces"]).iter().filter_map(Value::as_str).map(Str::new).collect();
        if namespaces.is_empty() && selector.is_none() {
            namespaces.push(namespace.into());
        }
        PodTerm {
            pods: PodSelector {
                namespaces,
                namespace_selector: selector.map(|selector| read(Some(selector))),
                labels: read(term.get("labelSelector")),
            },
            topology_key: Str::new(term.str_at(&["topologyKey"]).unwrap_or_default()),
        }
    }
}

/// A selector that cannot be parsed selects nothing.
pub(crate) fn read(selector: Option<&Value>) -> LabelSelector {
    LabelSelector::from_object(selector).unwrap_or(LabelSelector::nothing())
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) max_skew: i64,
    pub(crate) topology_key: Str,
    pub(crate) selector: LabelSelector,
    pub(crate) min_domains: i64,
    pub(crate) honors_affinity: bool,
    pub(crate) honors_taints: bool,
    /// True for `ScheduleAnyway`.
    pub(crate) soft: bool,
}

impl Spread {
    pub(crate) fn of(constraint: &Value, labels: &Map) -> Spread {
        let honors = |key: &str, unless_said: bool| {
            constraint.str_at(&[key]).map_or(unless_said, |policy| policy == "Honor")
        };
        Spread {
            max_skew: constraint.int_at(&["maxSkew"]).unwrap_or(1),
            topology_key: Str::new(constraint.str_at(&["topologyKey"]).unwrap_or_default()),
            selector: merged(constraint, labels),
            min_domains: constraint.int_at(&["minDomains"]).unwrap_or(1),
            honors_affinity: honors("nodeAffinityPolicy", true),
            honors_taints: honors("nodeTaintsPolicy", false),
            soft: constraint.str_at(&["whenUnsatisfiable"]) == Some("ScheduleAnyway"),
        }
    }
}

/// The constraint's selector, with the pod's own values of `matchLabelKeys`.
fn merged(constraint: &Value, labels: &Map) -> LabelSelector {
    let selector = read(constraint.get("labelSelector"));
    if selector.is_nothing() {
        return selector;
    }
    let mut all = selector.requirements().to_vec();
    for key in constraint.items_at(&["matchLabelKeys"]).iter().filter_map(Value::as_str) {
        let Some(value) = labels.get(key).and_then(Value::as_str) else { continue };
        all.extend(Requirement::new(key, Operator::In, vec![value.into()]));
    }
    LabelSelector::all(all)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn terms_default_to_the_pods_own_namespace() {
        let term = value!({"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"});
        let labels = value!({"a": "b"});
        let labels = labels.as_object().unwrap();
        let own = PodTerm::of(&term, "mine");
        assert!(own.pods.matches("mine", None, labels) && !own.pods.matches("other", None, labels));
        let mut everywhere = term.clone();
        everywhere.set(&["namespaceSelector"], value!({}));
        assert!(PodTerm::of(&everywhere, "mine").pods.matches("other", None, labels));
        let mut selected = term;
        selected.set(&["namespaceSelector"], value!({"matchLabels": {"team": "x"}}));
        let selected = PodTerm::of(&selected, "mine");
        let team = value!({"team": "x"});
        assert!(selected.pods.matches("other", team.as_object(), labels));
        assert!(!selected.pods.matches("mine", None, labels));
    }

    #[test]
    fn spreads_take_on_the_pods_own_labels() {
        let labels = value!({"app": "web", "hash": "1"});
        let labels = labels.as_object().unwrap();
        let constraint = value!({"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["hash", "missing"]});
        let spread = Spread::of(&constraint, labels);
        assert_eq!(spread.selector.to_string(), "app=web,hash in (1)");
        assert!(!spread.soft && spread.honors_affinity && !spread.honors_taints);
    }
}
