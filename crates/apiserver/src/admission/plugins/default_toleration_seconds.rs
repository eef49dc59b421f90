//! DefaultTolerationSeconds: a pod without such tolerations tolerates the taints of nodes that are not ready or unreachable
//! for a time: five minutes by default.

use corten_api::{Status, Value, value};

use super::{Admit, CREATE, Plugin, UPDATE, Validate};
use crate::admission::Attributes;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "DefaultTolerationSeconds",
    operations: CREATE | UPDATE,
    admit: Admit::Now(admit),
    validate: Validate::Nothing,
};

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The toleration seconds of the two taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TolerationSeconds {
    pub not_ready: i64,
    pub unreachable: i64,
}

impl Default for TolerationSeconds {
    fn default() -> Self {
        TolerationSeconds { not_ready: 300, unreachable: 300 }
    }
}

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.is_object("", "pods") {
        tolerate(object, attributes.backend().admission.toleration_seconds);
    }
    Ok(())
}

pub(super) fn tolerate(pod: &mut Value, seconds: TolerationSeconds) {
    let tolerations = pod.items_at(&["spec", "tolerations"]);
    let tolerated = |taint: &str| {
        tolerations.iter().any(|toleration| {
            let is = |field: &str, wanted: &str| {
                let value = toleration.str_at(&[field]).unwrap_or_default();
                value.is_empty() || value == wanted
            };
            is("key", taint) && is("effect", "NoExecute")
        })
    };
    let wanted = TAINTS.into_iter().zip([seconds.not_ready, seconds.unreachable]);
    let missing = wanted.filter(|(taint, _)| !tolerated(taint));
    let missing: Vec<Value> = missing.map(|(taint, seconds)| toleration(taint, seconds)).collect();
    if !missing.is_empty() {
        let spec = pod.make_object().entry("spec").make_object();
        spec.entry("tolerations").make_array().extend(missing);
    }
}

fn toleration(taint: &str, seconds: i64) -> Value {
    value!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tolerations: &[Value], added: &[&str]) {
        let mut pod = value!({"spec": {"tolerations": (tolerations.to_vec())}});
        tolerate(&mut pod, TolerationSeconds { not_ready: 7, unreachable: 300 });
        let all = pod.items_at(&["spec", "tolerations"]);
        let new: Vec<_> = all[tolerations.len()..].iter().map(|t| t.str_at(&["key"]).unwrap()).collect();
        assert_eq!(new, added, "{tolerations:?}");
        for added in &all[tolerations.len()..] {
            let seconds = if added.str_at(&["key"]) == Some(TAINTS[0]) { 7 } else { 300 };
            assert_eq!(added.int_at(&["tolerationSeconds"]), Some(seconds));
        }
    }

    #[test]
    fn missing_tolerations_are_added_with_a_limit() {
        check(&[], &TAINTS);
        check(&[value!({"key": "other", "operator": "Exists"})], &TAINTS);
        check(&[value!({"operator": "Exists"})], &[]);
        check(&[value!({"operator": "Exists", "effect": "NoSchedule"})], &TAINTS);
        check(&[toleration(TAINTS[0], 1)], &[TAINTS[1]]);
        check(&[value!({"key": (TAINTS[1]), "operator": "Exists"})], &[TAINTS[0]]);
    }
}
