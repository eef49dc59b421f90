//! The status of definitions: accepted names, and the conditions that follow from the specification.
//!
//! Pure. A name belongs to the first definition of its group that has it accepted; definitions that want it too are not
//! served under it until it is free.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use corten_api::{Str, Value, meta, value};
use http::Uri;

use super::definition::is_true;

/// The finalizer that keeps a deleted definition until its objects are removed.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const APPROVAL: &str = "api-approved.kubernetes.io";
const PULL_REQUEST: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// The names that the definitions of a group have accepted. A definition may have one name twice, so they are counted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Taken {
    resources: HashMap<Str, usize>,
    kinds: HashMap<Str, usize>,
}

/// The accepted names of one definition.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Accepted {
    resources: Vec<Str>,
    kinds: Vec<Str>,
}

impl Accepted {
    pub(super) fn of(definition: &Value) -> Accepted {
        let names = definition.at(&["status", "acceptedNames"]).unwrap_or(&Value::Null);
        let collect = |keys: &[&str]| keys.iter().flat_map(|key| texts(names, key)).map(Str::from).collect();
        Accepted {
            resources: collect(&["plural", "singular", "shortNames"]),
            kinds: collect(&["kind", "listKind"]),
        }
    }
}

impl Taken {
    pub(super) fn add(&mut self, accepted: &Accepted) {
        for (taken, names) in [(&mut self.resources, &accepted.resources), (&mut self.kinds, &accepted.kinds)]
        {
            for name in names {
                *taken.entry(name.clone()).or_default() += 1;
            }
        }
    }

    pub(super) fn remove(&mut self, accepted: &Accepted) {
        for (taken, names) in [(&mut self.resources, &accepted.resources), (&mut self.kinds, &accepted.kinds)]
        {
            for name in names {
                if let Entry::Occupied(mut count) = taken.entry(name.clone()) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
        }
    }
}

/// Returns true if a definition has all the names it wants: names that become free do not concern it.
pub(super) fn has_its_names(definition: &Value) -> bool {
    definition.at(&["spec", "names"]) == definition.at(&["status", "acceptedNames"])
        && is_true(definition, "NamesAccepted")
}

/// The definition with its status brought up to date; `None` if it is.
pub(super) fn reconciled(definition: &Value, taken: &Taken, now: &str) -> Option<Value> {
    let mut new = definition.clone();
    accept_names(&mut new, taken, now);
    if is_true(&new, "NamesAccepted") && !is_true(&new, "Established") {
        establish(&mut new, now);
    }
    judge_structure(&mut new, now);
    judge_approval(&mut new, now);
    (new != *definition).then_some(new)
}

/// Accepts the names that are free.
fn accept_names(definition: &mut Value, taken: &Taken, now: &str) {
    let wanted = definition.at(&["spec", "names"]).cloned().unwrap_or_default();
    let accepted = definition.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    if has_its_names(definition) {
        return;
    }
    let mut names = if accepted.is_null() { Value::object() } else { accepted.clone() };
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("{name:?} is already in use");
    for (key, reason, used) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let refused: Vec<String> = texts(&wanted, key)
            .filter(|name| !texts(&accepted, key).any(|own| own == *name) && used.contains_key(*name))
            .map(in_use)
            .collect();
        match refused.as_slice() {
            [] => copy(&wanted, &mut names, key),
            [only] => conflict = Some((reason, only.clone())),
            several => conflict = Some((reason, format!("[{}]", several.join(", ")))),
        }
    }
    copy(&wanted, &mut names, "categories");
    definition.set(&["status", "acceptedNames"], names);
    let is_accepted = conflict.is_none();
    let (status, reason, message) = match conflict {
        Some((reason, message)) => ("False", reason, message),
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
    };
    set_condition(definition, "NamesAccepted", status, reason, &message, now);
    if is_true(definition, "Established") {
        return;
    }
    let (reason, message) = match is_accepted {
        true => ("Installing", "the initial names have been accepted"),
        false => ("NotAccepted", "not all names are accepted"),
    };
    if is_accepted || condition(definition, "Established").is_none() {
        set_condition(definition, "Established", "False", reason, message, now);
    }
}

/// A name, or a list of names.
fn texts<'v>(names: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    let value = names.get(key).unwrap_or(&Value::Null);
    let items = value.as_array().unwrap_or_default();
    value.as_str().into_iter().chain(items.iter().filter_map(Value::as_str))
}

fn copy(from: &Value, to: &mut Value, key: &str) {
    match from.get(key) {
        Some(value) => to.set(&[key], value.clone()),
        None => drop(to.remove(&[key])),
    }
}

fn establish(definition: &mut Value, now: &str) {
    let bundle = definition.at(&["spec", "conversion", "webhook", "clientConfig", "caBundle"]);
    let is_usable = bundle.is_none_or(|bundle| {
        use base64::Engine as _;
        let decoded = base64::engine::general_purpose::STANDARD.decode(bundle.as_str().unwrap_or_default());
        decoded.is_ok_and(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            text.trim().is_empty() || corten_pki::pem_certificates(&text).is_ok_and(|found| !found.is_empty())
        })
    });
    let (status, reason, message) = match is_usable {
        true => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        false => ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid"),
    };
    set_condition(definition, "Established", status, reason, message, now);
}

/// Definitions of old servers may keep unknown fields, which no structural schema does.
fn judge_structure(definition: &mut Value, now: &str) {
    const KIND: &str = "NonStructuralSchema";
    if definition.bool_at(&["spec", "preserveUnknownFields"]) == Some(true) {
        let message = "spec.preserveUnknownFields: Invalid value: true: must be false";
        set_condition(definition, KIND, "True", "Violations", message, now);
    } else if condition(definition, KIND).is_some()
        && let Some(Value::Array(conditions)) =
            definition.get_mut("status").and_then(|status| status.as_object_mut()?.get_mut("conditions"))
    {
        conditions.retain(|condition| condition.str_at(&["type"]) != Some(KIND));
    }
}

/// Groups of the Kubernetes community need an approval.
fn judge_approval(definition: &mut Value, now: &str) {
    let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !is_protected {
        return;
    }
    let approval = definition.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
    let is_url = || approval.parse::<Uri>().is_ok_and(|url| url.scheme().is_some() && url.host().is_some());
    let (status, reason, message) = match approval {
        "" => (
            "False",
            "MissingAnnotation",
            format!("protected groups must have approval annotation {APPROVAL:?}, see {PULL_REQUEST}"),
        ),
        text if text.starts_with("unapproved") => {
            ("False", "UnapprovedAnnotation", format!("not approved: {text:?}"))
        }
        text if is_url() => ("True", "ApprovedAnnotation", format!("approved in {text}")),
        _ => (
            "False",
            "InvalidAnnotation",
            format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \
                 \"unapproved\", see {PULL_REQUEST}"
            ),
        ),
    };
    set_condition(definition, "KubernetesAPIApprovalPolicyConformant", status, reason, &message, now);
}

fn condition<'v>(definition: &'v Value, kind: &str) -> Option<&'v Value> {
    definition.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

/// Sets a condition; its time changes with its status.
pub(super) fn set_condition(
    definition: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let since = condition(definition, kind)
        .filter(|old| old.str_at(&["status"]) == Some(status))
        .and_then(|old| old.str_at(&["lastTransitionTime"]).map(str::to_owned));
    let new = value!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": (since.unwrap_or_else(|| now.to_owned())),
    });
    let conditions = definition.make_object().entry("status").make_object().entry("conditions").make_array();
    match conditions.iter_mut().find(|c| c.str_at(&["type"]) == Some(kind)) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// Marks a definition that is being deleted for the first time: its objects are removed before it.
pub(crate) fn mark_deleted(definition: &mut Value, now: &str) {
    meta::set_text(definition, "deletionTimestamp", now);
    let finalizers = meta::of(definition).entry("finalizers").make_array();
    if !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(CLEANUP)) {
        finalizers.push(Value::from(CLEANUP));
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(definition, "Terminating", "True", "InstanceDeletionPending", message, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn definition(group: &str, names: Value, accepted: Value) -> Value {
        value!({"metadata": {}, "spec": {"group": group, "names": names}, "status": {"acceptedNames": accepted}})
    }

    fn names(plural: &str, kind: &str) -> Value {
        value!({"plural": plural, "singular": (kind.to_lowercase()), "kind": kind, "listKind": (format!("{kind}List"))})
    }

    fn taken<'v>(definitions: impl IntoIterator<Item = &'v Value>) -> Taken {
        let mut taken = Taken::default();
        definitions.into_iter().for_each(|definition| taken.add(&Accepted::of(definition)));
        taken
    }

    #[track_caller]
    fn check(definition: &Value, others: &[Value], expected: &[(&str, &str, &str)]) {
        let taken = taken(others);
        let new = reconciled(definition, &taken, NOW).unwrap();
        let found: Vec<(&str, &str, &str)> = new
            .items_at(&["status", "conditions"])
            .iter()
            .map(|c| {
                let text = |key| c.str_at(&[key]).unwrap();
                (text("type"), text("status"), text("reason"))
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn free_names_are_accepted() {
        check(
            &definition("example.com", names("widgets", "Widget"), Value::Null),
            &[],
            &[("NamesAccepted", "True", "NoConflicts"), ("Established", "True", "InitialNamesAccepted")],
        );
    }

    #[test]
    fn names_belong_to_the_first() {
        let first = definition("example.com", names("widgets", "Widget"), names("widgets", "Widget"));
        let second = definition("example.com", names("gadgets", "Widget"), Value::Null);
        check(
            &second,
            std::slice::from_ref(&first),
            &[("NamesAccepted", "False", "ListKindConflict"), ("Established", "False", "NotAccepted")],
        );
        check(
            &second,
            &[],
            &[("NamesAccepted", "True", "NoConflicts"), ("Established", "True", "InitialNamesAccepted")],
        );
    }

    #[test]
    fn an_accepted_definition_is_unchanged() {
        let wanted = definition("example.com", names("a", "A"), Value::Null);
        let new = reconciled(&wanted, &Taken::default(), NOW).unwrap();
        assert_eq!(reconciled(&new, &taken([&new]), "2027-01-01T00:00:00Z"), None);
    }

    #[test]
    fn names_are_free_again_when_the_last_definition_gives_them_up() {
        let of = |plural: &str, kind: &str| {
            Accepted::of(&definition("example.com", Value::Null, names(plural, kind)))
        };
        let mut taken = Taken::default();
        taken.add(&of("widgets", "Widget"));
        taken.add(&of("gadgets", "Widget"));
        taken.remove(&of("widgets", "Widget"));
        assert!(taken.kinds.contains_key("Widget") && !taken.resources.contains_key("widgets"));
        taken.remove(&of("gadgets", "Widget"));
        assert_eq!(taken, Taken::default());
    }

    #[test]
    fn a_definition_that_returns_to_its_accepted_names_is_accepted_again() {
        let mut changed = definition("example.com", names("a", "A"), names("a", "A"));
        set_condition(&mut changed, "NamesAccepted", "False", "KindConflict", "\"B\" is already in use", NOW);
        check(
            &changed,
            &[changed.clone()],
            &[("NamesAccepted", "True", "NoConflicts"), ("Established", "True", "InitialNamesAccepted")],
        );
    }

    #[test]
    fn protected_groups_need_an_approval() {
        let with = |approval: &str| {
            let mut definition = definition("a.k8s.io", names("as", "A"), names("as", "A"));
            definition.set(&["metadata", "annotations", APPROVAL], approval);
            let new = reconciled(&definition, &Taken::default(), NOW).unwrap();
            let found = condition(&new, "KubernetesAPIApprovalPolicyConformant").unwrap();
            found.str_at(&["reason"]).unwrap().to_owned()
        };
        assert_eq!(with("unapproved, testing"), "UnapprovedAnnotation");
        assert_eq!(with("https://example.com/1"), "ApprovedAnnotation");
        assert_eq!(with("yes"), "InvalidAnnotation");
        assert_eq!(with(""), "MissingAnnotation");
    }
}
