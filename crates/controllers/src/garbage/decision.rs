//! The decision about an object, given the states of its owners. Pure.

use corten_api::{Str, Value, meta};
use corten_client::Propagation;

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It exists.
    Solid,
    /// It does not exist.
    Absent,
    /// It is being deleted in the foreground, after its dependents.
    Waiting,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Keep,
    /// It stays, without these owners.
    DropOwners(Vec<Str>),
    Delete {
        policy: Propagation,
        /// Its references must not block its owners: it is part of a cycle.
        unblock: bool,
    },
}

/// Decides about an object, in its newest state, by its owners.
pub(super) fn decide(
    object: &Value,
    owners: &[(Str, OwnerState)],
    has_dependents: bool,
    dependent_waits: bool,
) -> Decision {
    let any = |owner_state: OwnerState| owners.iter().any(|(_, is)| *is == owner_state);
    if owners.is_empty() {
        return Decision::Keep;
    }
    if any(OwnerState::Solid) {
        let others: Vec<_> = owners.iter().filter(|(_, is)| *is != OwnerState::Solid).collect();
        return match others.as_slice() {
            [] => Decision::Keep,
            others => Decision::DropOwners(others.iter().map(|(uid, _)| uid.clone()).collect()),
        };
    }
    if any(OwnerState::Waiting) && has_dependents {
        return Decision::Delete { policy: Propagation::Foreground, unblock: dependent_waits };
    }
    let has = |finalizer: &str| meta::finalizers(object).any(|f| f == finalizer);
    let policy = if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Decision::Delete { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::OwnerState::{Absent, Solid, Waiting};
    use super::*;

    fn decided(finalizers: &[&str], owners: &[OwnerState], has_dependents: bool, waits: bool) -> Decision {
        let finalizers: Vec<Value> = finalizers.iter().map(|f| Value::from(*f)).collect();
        let object = value!({"metadata": {"finalizers": (finalizers)}});
        let owners: Vec<_> =
            owners.iter().enumerate().map(|(n, is)| (Str::new(n.to_string()), *is)).collect();
        decide(&object, &owners, has_dependents, waits)
    }

    #[test]
    fn objects_stay_while_an_owner_does() {
        assert_eq!(decided(&[], &[], true, true), Decision::Keep);
        assert_eq!(decided(&[], &[Solid], false, false), Decision::Keep);
        let dropped = Decision::DropOwners(vec!["0".into(), "2".into()]);
        assert_eq!(decided(&[], &[Absent, Solid, Waiting], true, true), dropped);
    }

    #[test]
    fn objects_without_owners_go_as_they_were_meant_to() {
        let delete = |policy, unblock| Decision::Delete { policy, unblock };
        let cases = [
            (&[][..], &[Absent][..], false, false, delete(Propagation::Background, false)),
            (&[ORPHAN], &[Absent], false, false, delete(Propagation::Orphan, false)),
            (&[FOREGROUND], &[Absent], false, false, delete(Propagation::Foreground, false)),
            (&[ORPHAN, FOREGROUND], &[Absent], false, false, delete(Propagation::Orphan, false)),
            (&[], &[Waiting], false, false, delete(Propagation::Background, false)),
            (&[], &[Waiting, Absent], true, false, delete(Propagation::Foreground, false)),
            (&[], &[Waiting], true, true, delete(Propagation::Foreground, true)),
        ];
        for (finalizers, owners, has_dependents, waits, expected) in cases {
            assert_eq!(
                decided(finalizers, owners, has_dependents, waits),
                expected,
                "{finalizers:?} {owners:?}"
            );
        }
    }
}
