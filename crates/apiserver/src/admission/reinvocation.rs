//! The second round of mutating admission: after a webhook or a policy has changed an object, all built-in plugins run once
//! more, and so do the webhooks and policies that ask for it, if the object has changed since they saw it.

use std::collections::BTreeSet;

use corten_api::Value;

/// The state of a request's rounds.
#[derive(Default)]
pub(super) struct Reinvocation {
    is_second_round: bool,
    is_required: bool,
    pub(super) webhooks: Invoked,
    pub(super) policies: Invoked,
}

impl Reinvocation {
    /// Requires a second round.
    pub(super) fn require(&mut self) {
        self.is_required = true;
    }

    pub(super) fn is_second_round(&self) -> bool {
        self.is_second_round
    }

    /// True once, if a second round is required.
    pub(super) fn begin_second_round(&mut self) -> bool {
        !std::mem::replace(&mut self.is_second_round, self.is_required) && self.is_required
    }
}

/// The webhooks, or the policies, that ran in the first round.
#[derive(Default)]
pub(super) struct Invoked {
    /// The object after they ran.
    output: Option<Value>,
    /// Those that ask to be reinvoked and have seen the last change.
    current: BTreeSet<String>,
    /// Those that must be reinvoked.
    outdated: BTreeSet<String>,
}

impl Invoked {
    /// Compares the object with the one after the last invocation: other plugins may have changed it since.
    pub(super) fn compare(&mut self, object: Option<&Value>) {
        if self.output.as_ref() != object {
            self.outdate();
        }
    }

    /// Marks all that ran before a change.
    pub(super) fn outdate(&mut self) {
        self.outdated.append(&mut self.current);
    }

    /// Notes that one ran that asks to be reinvoked.
    pub(super) fn add(&mut self, uid: &str) {
        self.current.insert(uid.to_owned());
    }

    pub(super) fn is_outdated(&self, uid: &str) -> bool {
        self.outdated.contains(uid)
    }

    pub(super) fn set_output(&mut self, object: Option<&Value>) {
        self.output = object.cloned();
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn there_is_one_second_round_and_only_if_it_is_required() {
        let mut rounds = Reinvocation::default();
        assert!(!rounds.begin_second_round() && !rounds.is_second_round());
        rounds.require();
        assert!(rounds.begin_second_round() && rounds.is_second_round());
        rounds.require();
        assert!(!rounds.begin_second_round(), "never a third");
    }

    #[test]
    fn a_change_outdates_those_that_ran_before_it() {
        let mut invoked = Invoked::default();
        invoked.add("a");
        invoked.outdate();
        invoked.add("b");
        assert!(invoked.is_outdated("a") && !invoked.is_outdated("b"));
        invoked.set_output(Some(&value!({"x": 1})));
        invoked.compare(Some(&value!({"x": 1})));
        assert!(!invoked.is_outdated("b"), "nothing has changed");
        invoked.compare(Some(&value!({"x": 2})));
        assert!(invoked.is_outdated("b"));
    }
}
