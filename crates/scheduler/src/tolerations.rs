//! Taints and tolerations.

use corten_api::{Str, Value};

/// The taint that stands for `spec.unschedulable`.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Taint {
    pub(crate) key: Str,
    pub(crate) value: Str,
    pub(crate) effect: Effect,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Toleration {
    key: Str,
    operator: Operator,
    value: Str,
    /// Every effect if `None`.
    effect: Option<Effect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operator {
    Equal,
    Exists,
    Less,
    Greater,
    /// An unknown operator tolerates nothing.
    Unknown,
}

fn effect(of: &Value) -> Option<Effect> {
    match of.str_at(&["effect"])? {
        "NoSchedule" => Some(Effect::NoSchedule),
        "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}

fn text(of: &Value, key: &str) -> Str {
    Str::new(of.str_at(&[key]).unwrap_or_default())
}

impl Taint {
    pub(crate) fn of(taint: &Value) -> Option<Taint> {
        Some(Taint { key: text(taint, "key"), value: text(taint, "value"), effect: effect(taint)? })
    }

    pub(crate) fn unschedulable() -> Taint {
        Taint { key: Str::new_static(UNSCHEDULABLE), value: Str::default(), effect: Effect::NoSchedule }
    }

    /// True for NoSchedule and NoExecute, false for PreferNoSchedule.
    pub(crate) fn rejects_pods(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }
}

impl Toleration {
    pub(crate) fn of(toleration: &Value) -> Toleration {
        let operator = match toleration.str_at(&["operator"]).unwrap_or_default() {
            "" | "Equal" => Operator::Equal,
            "Exists" => Operator::Exists,
            "Lt" => Operator::Less,
            "Gt" => Operator::Greater,
            _ => Operator::Unknown,
        };
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        Toleration { key, operator, value, effect: effect(toleration) }
    }

    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            Operator::Exists => true,
            Operator::Equal => self.value == taint.value,
            Operator::Less => self.compares(taint).is_some_and(|(taint, bound)| taint < bound),
            Operator::Greater => self.compares(taint).is_some_and(|(taint, bound)| taint > bound),
            Operator::Unknown => false,
        }
    }

    fn compares(&self, taint: &Taint) -> Option<(i64, i64)> {
        Some((taint.value.parse().ok()?, self.value.parse().ok()?))
    }

    /// True if it applies to PreferNoSchedule taints.
    pub(crate) fn applies_to_preferences(&self) -> bool {
        self.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule)
    }
}

/// True if every NoSchedule and NoExecute taint is tolerated.
pub(crate) fn tolerates_all(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| toleration.tolerates(taint));
    taints.iter().filter(|taint| taint.rejects_pods()).all(tolerated)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[track_caller]
    fn check(toleration: &Value, expected: bool) {
        let taint = Taint::of(&value!({"key": "k", "value": "5", "effect": "NoSchedule"})).unwrap();
        assert_eq!(Toleration::of(toleration).tolerates(&taint), expected, "{toleration:?}");
    }

    #[test]
    fn tolerations_match_taints() {
        check(&value!({"key": "k", "value": "5"}), true);
        check(&value!({"key": "k", "value": "6"}), false);
        check(&value!({"key": "k", "operator": "Exists"}), true);
        check(&value!({"operator": "Exists"}), true);
        check(&value!({"key": "other", "operator": "Exists"}), false);
        check(&value!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false);
        check(&value!({"key": "k", "value": "5", "effect": "NoSchedule"}), true);
        check(&value!({"key": "k", "operator": "Lt", "value": "6"}), true);
        check(&value!({"key": "k", "operator": "Gt", "value": "6"}), false);
        check(&value!({"key": "k", "operator": "Gt", "value": "4"}), true);
        check(&value!({"key": "k", "operator": "Odd", "value": "5"}), false);
    }
}
