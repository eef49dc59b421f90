//! The conditions of a terminating namespace: five, computed from the findings while its content is deleted. Pure.

use std::collections::BTreeMap;

use corten_api::{Str, Value, time};
use jiff::Timestamp;

use crate::conditions;

/// The findings of one pass over the content.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The error of API discovery, if not all kinds are known.
    pub(super) discovery: Option<String>,
    /// The errors of deletions, by kind.
    pub(super) failures: Vec<String>,
    /// The number of remaining objects by (plural, group).
    pub(super) remaining: BTreeMap<(Str, Str), usize>,
    /// The finalizers they wait for.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// True if only pods were processed, because some of them remain.
    pub(super) pods_first: bool,
}

/// Type, reason and message of each condition without a problem, in their order.
const WELL: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

impl Findings {
    /// Reason and message of a condition that is `True`.
    fn trouble(&self, kind: &str) -> Option<(&'static str, String)> {
        match kind {
            "NamespaceDeletionDiscoveryFailure" => Some(("DiscoveryFailed", self.discovery.clone()?)),
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let mut failures = self.failures.clone();
                failures.sort();
                let (count, list) = (failures.len(), failures.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {list}");
                Some(("ContentDeletionFailed", message))
            }
            // While pods remain, nothing is known about the rest.
            "NamespaceContentRemaining" if !self.remaining.is_empty() && !self.pods_first => {
                let each = self.remaining.iter().map(|((plural, group), count)| {
                    format!("{plural}.{group} has {count} resource instances")
                });
                let list = sorted(each).join(", ");
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {list}")))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() && !self.pods_first => {
                let each = self.finalizers.iter();
                let list = sorted(each.map(|(name, count)| format!("{name} in {count} resource instances")));
                let list = list.join(", ");
                let message = format!("Some content in the namespace has finalizers remaining: {list}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// Updates a namespace's status. Returns true if anything changed.
    pub(super) fn apply(&self, namespace: &mut Value, now: Timestamp) -> bool {
        let mut changed = false;
        let list = namespace.make_object().entry("status").make_object().entry("conditions").make_array();
        for (kind, reason, message) in WELL {
            let new = match self.trouble(kind) {
                Some((reason, message)) => conditions::new(kind, "True", reason, &message, now),
                None => conditions::new(kind, "False", reason, message, now),
            };
            match list.iter_mut().find(|known| known.str_at(&["type"]) == Some(kind)) {
                Some(known) => changed |= replace(known, new, now),
                None => {
                    list.push(new);
                    changed = true;
                }
            }
        }
        changed
    }
}

fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<_> = texts.collect();
    texts.sort();
    texts
}

/// Replaces a condition. Returns true if they differ.
fn replace(known: &mut Value, mut new: Value, now: Timestamp) -> bool {
    let same = |key: &str| known.str_at(&[key]) == new.str_at(&[key]);
    if same("status") && same("reason") && same("message") {
        return false;
    }
    let since = match known.str_at(&["lastTransitionTime"]) {
        Some(since) if same("status") => Str::new(since),
        _ => time::format(now),
    };
    new.set(&["lastTransitionTime"], since);
    *known = new;
    true
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn shown(namespace: &Value) -> Vec<(String, String)> {
        let text = |c: &Value, key: &str| c.str_at(&[key]).unwrap_or_default().to_owned();
        let all = namespace.items_at(&["status", "conditions"]).iter();
        all.map(|c| (text(c, "status"), text(c, "reason"))).collect()
    }

    fn reasons(list: [(&str, &str); 5]) -> Vec<(String, String)> {
        list.iter().map(|(status, reason)| ((*status).to_owned(), (*reason).to_owned())).collect()
    }

    #[test]
    fn a_namespace_without_trouble_says_so_once() {
        let mut namespace = value!({});
        assert!(Findings::default().apply(&mut namespace, at(0)));
        let well = reasons([
            ("False", "ResourcesDiscovered"),
            ("False", "ParsedGroupVersions"),
            ("False", "ContentDeleted"),
            ("False", "ContentRemoved"),
            ("False", "ContentHasNoFinalizers"),
        ]);
        assert_eq!(shown(&namespace), well);
        assert!(!Findings::default().apply(&mut namespace, at(1)), "nothing new is nothing to write");
    }

    #[test]
    fn conditions_report_problems_in_order_and_recover() {
        let mut findings = Findings { discovery: Some("d".to_owned()), ..Findings::default() };
        findings.failures = vec!["z".to_owned(), "a".to_owned()];
        findings.remaining.insert(("pods".into(), "".into()), 3);
        findings.remaining.insert(("jobs".into(), "batch".into()), 1);
        findings.finalizers.insert("x/y".to_owned(), 2);
        let mut namespace = value!({});
        Findings::default().apply(&mut namespace, at(0));
        assert!(findings.apply(&mut namespace, at(5)));
        let messages: Vec<_> = namespace
            .items_at(&["status", "conditions"])
            .iter()
            .map(|c| c.str_at(&["message"]).unwrap_or_default())
            .collect();
        assert_eq!(
            messages,
            [
                "d",
                "All legacy kube types successfully parsed",
                "Failed to delete all resource types, 2 remaining: a, z",
                "Some resources are remaining: jobs.batch has 1 resource instances, pods. has 3 resource instances",
                "Some content in the namespace has finalizers remaining: x/y in 2 resource instances",
            ]
        );
        findings.remaining.remove(&("pods".into(), "".into()));
        assert!(findings.apply(&mut namespace, at(9)));
        let remaining = &namespace.items_at(&["status", "conditions"])[3];
        assert_eq!(remaining.str_at(&["lastTransitionTime"]), Some(time::format(at(5)).as_str()));
        assert!(Findings::default().apply(&mut namespace, at(12)));
        let remaining = &namespace.items_at(&["status", "conditions"])[3];
        assert_eq!(remaining.str_at(&["lastTransitionTime"]), Some(time::format(at(12)).as_str()));
    }

    #[test]
    fn while_pods_are_left_the_rest_is_not_spoken_of() {
        let mut findings = Findings { pods_first: true, ..Findings::default() };
        findings.remaining.insert(("pods".into(), "".into()), 3);
        let mut namespace = value!({});
        findings.apply(&mut namespace, at(0));
        assert_eq!(shown(&namespace)[3], ("False".to_owned(), "ContentRemoved".to_owned()));
    }
}
