//! Programs: transactions with conditions, reads and ranges, as etcd's API has them.
//!
//! A program is decided as a whole: all conditions, also those of nested programs, see the state before the first write, and
//! then the steps of the chosen branches run in order and see the writes before them. All writes have one revision. A
//! program that writes a key twice is invalid; its caller checks that, because only the caller knows its keys beforehand.

use std::{cmp::Ordering, ops::Bound, sync::Arc};

use bytes::Bytes;

use crate::{Entry, Error, LeaseId, Revision, plan::Planner};

/// One key, or the keys of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    pub start: Arc<str>,
    pub end: End,
}

/// The end of [`Keys`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The start is the only key.
    Same,
    Before(Arc<str>),
    Unbounded,
}

impl Keys {
    pub fn one(key: impl Into<Arc<str>>) -> Keys {
        Keys { start: key.into(), end: End::Same }
    }

    pub fn contains(&self, key: &str) -> bool {
        match &self.end {
            End::Same => key == &*self.start,
            End::Before(end) => key >= &*self.start && key < &**end,
            End::Unbounded => key >= &*self.start,
        }
    }

    /// The bounds for an ordered map; `None` if they contain nothing.
    pub(crate) fn bounds(&self) -> Option<(Bound<&str>, Bound<&str>)> {
        let start = Bound::Included(&*self.start);
        match &self.end {
            End::Same => Some((start, Bound::Included(&*self.start))),
            End::Before(end) if *end <= self.start => None,
            End::Before(end) => Some((start, Bound::Excluded(&**end))),
            End::Unbounded => Some((start, Bound::Unbounded)),
        }
    }

    /// The longest prefix that all keys have.
    pub fn prefix(&self) -> &str {
        let end: &str = match &self.end {
            End::Same => &self.start,
            End::Before(end) => end,
            End::Unbounded => "",
        };
        let same = self.start.chars().zip(end.chars()).take_while(|(a, b)| a == b);
        &self.start[..same.map(|(a, _)| a.len_utf8()).sum()]
    }
}

/// A transaction with conditions: the steps of `success` run if all conditions hold, otherwise those of `failure`.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub conditions: Vec<Condition>,
    pub success: Vec<Step>,
    pub failure: Vec<Step>,
}

/// A comparison that holds for a key, or for every key of a range that exists. An absent key compares as zeros, and never
/// as a value.
#[derive(Clone, Debug)]
pub struct Condition {
    pub keys: Keys,
    pub target: Target,
    pub relation: Relation,
}

/// A property of an entry, and the value it is compared with.
#[derive(Clone, Debug)]
pub enum Target {
    Version(i64),
    Created(i64),
    Modified(i64),
    Value(Bytes),
    Lease(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Greater,
    Less,
}

/// An operation of a program.
#[derive(Clone, Debug)]
pub enum Step {
    Read {
        keys: Keys,
        /// The maximum number of entries to return; `None` for all.
        limit: Option<usize>,
        /// The revision that the caller reads afterwards, if not the current one; it is only checked.
        revision: Option<Revision>,
    },
    Put {
        key: Arc<str>,
        /// `None` keeps the current value; the key has to exist.
        value: Option<Bytes>,
        lease: PutLease,
    },
    Delete(Keys),
    Program(Box<Program>),
}

/// The lease of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutLease {
    None,
    Some(LeaseId),
    /// Keeps the current lease; the key has to exist.
    Keep,
}

/// The result of a program.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The revision of its writes, or the one at which it was decided if it wrote nothing.
    pub revision: Revision,
    /// True if the conditions held.
    pub succeeded: bool,
    /// One for each step of the branch that ran.
    pub results: Vec<StepResult>,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub enum StepResult {
    Read {
        entries: Vec<Arc<Entry>>,
        /// The number of entries in the range, also beyond the limit.
        count: u64,
        revision: Revision,
    },
    /// The caller reads this revision.
    Deferred(Revision),
    Put {
        previous: Option<Arc<Entry>>,
        revision: Revision,
    },
    /// The deleted entries.
    Deleted {
        entries: Vec<Arc<Entry>>,
        revision: Revision,
    },
    Program(Outcome),
}

impl Program {
    /// True if no branch writes.
    pub fn is_read_only(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|step| match step {
            Step::Read { .. } => true,
            Step::Put { .. } | Step::Delete(_) => false,
            Step::Program(nested) => nested.is_read_only(),
        })
    }

    /// The bytes of all keys and values that are put.
    pub(crate) fn bytes(&self) -> usize {
        let size = |step: &Step| match step {
            Step::Put { key, value, .. } => key.len() + value.as_ref().map_or(0, Bytes::len),
            Step::Program(nested) => nested.bytes(),
            Step::Read { .. } | Step::Delete(_) => 0,
        };
        self.success.iter().chain(&self.failure).map(size).sum()
    }
}

impl Condition {
    fn holds(&self, planner: &Planner<'_>) -> bool {
        let mut exists = false;
        let all = planner.entries(&self.keys).all(|entry| {
            exists = true;
            self.compare(Some(&entry))
        });
        if exists { all } else { self.compare(None) }
    }

    fn compare(&self, entry: Option<&Entry>) -> bool {
        // Revisions and versions never exceed the positive half of `i64`.
        let number = |of: fn(&Entry) -> u64, other: &i64| (entry.map_or(0, of) as i64).cmp(other);
        let ordering = match &self.target {
            Target::Version(other) => number(|entry| entry.version, other),
            Target::Created(other) => number(|entry| entry.create_revision, other),
            Target::Modified(other) => number(|entry| entry.mod_revision, other),
            Target::Lease(other) => number(|entry| entry.lease.map_or(0, |id| id.0), other),
            Target::Value(other) => match entry {
                Some(entry) => entry.value.cmp(other),
                None => return false,
            },
        };
        match self.relation {
            Relation::Equal => ordering == Ordering::Equal,
            Relation::NotEqual => ordering != Ordering::Equal,
            Relation::Greater => ordering == Ordering::Greater,
            Relation::Less => ordering == Ordering::Less,
        }
    }
}

/// A program whose conditions are decided: the steps to run.
struct Decided {
    succeeded: bool,
    steps: Vec<DecidedStep>,
}

enum DecidedStep {
    Read { keys: Keys, limit: Option<usize> },
    Deferred(Revision),
    Put { key: Arc<str>, value: Bytes, sealed: Option<Vec<u8>>, lease: Option<LeaseId> },
    Delete(Keys),
    Program(Decided),
}

impl Planner<'_> {
    /// Runs a program, or fails without a change.
    pub(crate) fn program(&mut self, program: Program) -> Result<Outcome, Error> {
        let decided = self.decide(program)?;
        let revision = self.next_revision();
        Ok(self.run(decided, revision))
    }

    /// Decides all conditions, and checks the steps that will run.
    fn decide(&self, program: Program) -> Result<Decided, Error> {
        let succeeded = program.conditions.iter().all(|condition| condition.holds(self));
        let steps = if succeeded { program.success } else { program.failure };
        let steps = steps.into_iter().map(|step| {
            Ok(match step {
                Step::Read { keys, limit, revision: None } => DecidedStep::Read { keys, limit },
                Step::Read { revision: Some(revision), .. } => {
                    self.check_readable(revision)?;
                    DecidedStep::Deferred(revision)
                }
                Step::Put { key, value, lease } => self.decide_put(key, value, lease)?,
                Step::Delete(keys) => DecidedStep::Delete(keys),
                Step::Program(nested) => DecidedStep::Program(self.decide(*nested)?),
            })
        });
        Ok(Decided { succeeded, steps: steps.collect::<Result<_, Error>>()? })
    }

    fn decide_put(&self, key: Arc<str>, value: Option<Bytes>, lease: PutLease) -> Result<DecidedStep, Error> {
        if let PutLease::Some(id) = lease
            && !self.has_lease(id)
        {
            return Err(Error::UnknownLease);
        }
        let current = self.current(&key);
        let kept = || current.as_ref().ok_or(Error::KeyNotFound);
        let lease = match lease {
            PutLease::None => None,
            PutLease::Some(id) => Some(id),
            PutLease::Keep => kept()?.lease,
        };
        let value = match value {
            Some(value) => value,
            None => kept()?.value.clone(),
        };
        // Sealing can fail, and afterwards nothing may.
        let sealed = self.seal(&key, &value)?;
        Ok(DecidedStep::Put { key, value, sealed, lease })
    }

    fn run(&mut self, program: Decided, revision: Revision) -> Outcome {
        let results = program.steps.into_iter().map(|step| self.step(step, revision)).collect();
        Outcome { revision: self.visible(), succeeded: program.succeeded, results }
    }

    fn step(&mut self, step: DecidedStep, revision: Revision) -> StepResult {
        match step {
            DecidedStep::Deferred(revision) => StepResult::Deferred(revision),
            DecidedStep::Program(nested) => StepResult::Program(self.run(nested, revision)),
            DecidedStep::Read { keys, limit } => {
                let mut all = self.entries(&keys);
                let entries: Vec<_> = all.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
                let count = (entries.len() + all.count()) as u64;
                StepResult::Read { entries, count, revision: self.visible() }
            }
            DecidedStep::Put { key, value, sealed, lease } => {
                let previous = self.current(&key);
                let put = Self::put_bytes(key, value, None, lease, previous.clone(), revision);
                self.write(put, sealed);
                StepResult::Put { previous, revision }
            }
            DecidedStep::Delete(keys) => {
                let entries: Vec<_> = self.entries(&keys).collect();
                entries.iter().for_each(|entry| self.write(Self::deletion(entry, revision), None));
                StepResult::Deleted { entries, revision: self.visible() }
            }
        }
    }
}

#[cfg(test)]
mod tests;
