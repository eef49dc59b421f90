//! What becomes of an object, given what its owners are. Pure.

use corten_api::{Str, Value, meta};
use corten_client::Propagation;

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// What an owner turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is there.
    Solid,
    /// There is no such object.
    Absent,
    /// It is being deleted, and waits for its dependents to be deleted first.
    Waiting,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// It stays, without these owners.
    DropOwners(Vec<Str>),
    Delete {
        policy: Propagation,
        /// Its references must not hold up its owners: it is part of a circle.
        unblock: bool,
    },
}

/// Decides about an object, in its newest state, by its owners.
pub(super) fn decide(
    object: &Value,
    owners: &[(Str, Standing)],
    has_dependents: bool,
    dependent_waits: bool,
) -> Verdict {
    let any = |standing: Standing| owners.iter().any(|(_, is)| *is == standing);
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if any(Standing::Solid) {
        let others: Vec<_> = owners.iter().filter(|(_, is)| *is != Standing::Solid).collect();
        return match others.as_slice() {
            [] => Verdict::Keep,
            others => Verdict::DropOwners(others.iter().map(|(uid, _)| uid.clone()).collect()),
        };
    }
    if any(Standing::Waiting) && has_dependents {
        return Verdict::Delete { policy: Propagation::Foreground, unblock: dependent_waits };
    }
    let has = |finalizer: &str| meta::finalizers(object).any(|f| f == finalizer);
    let policy = if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Verdict::Delete { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::Standing::{Absent, Solid, Waiting};
    use super::*;

    fn decided(finalizers: &[&str], owners: &[Standing], has_dependents: bool, waits: bool) -> Verdict {
        let finalizers: Vec<Value> = finalizers.iter().map(|f| Value::from(*f)).collect();
        let object = value!({"metadata": {"finalizers": (finalizers)}});
        let owners: Vec<_> =
            owners.iter().enumerate().map(|(n, is)| (Str::new(n.to_string()), *is)).collect();
        decide(&object, &owners, has_dependents, waits)
    }

    #[test]
    fn objects_stay_while_an_owner_does() {
        assert_eq!(decided(&[], &[], true, true), Verdict::Keep);
        assert_eq!(decided(&[], &[Solid], false, false), Verdict::Keep);
        let dropped = Verdict::DropOwners(vec!["0".into(), "2".into()]);
        assert_eq!(decided(&[], &[Absent, Solid, Waiting], true, true), dropped);
    }

    #[test]
    fn objects_without_owners_go_as_they_were_meant_to() {
        let delete = |policy, unblock| Verdict::Delete { policy, unblock };
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
