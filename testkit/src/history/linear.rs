//! Linearizability of one key, by the search of Wing and Gong with the cache of Lowe: requests are put in an order one by
//! one, and no set of requests is followed by the same state twice.

use std::collections::HashSet;

use super::{Action, Operation, Outcome, State};

/// The requests that have a place in the order so far.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Placed(Vec<u64>);

impl Placed {
    fn none(count: usize) -> Placed {
        Placed(vec![0; count.div_ceil(64)])
    }

    fn has(&self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }

    fn with(&self, index: usize) -> Placed {
        let mut placed = self.clone();
        placed.0[index / 64] |= 1 << (index % 64);
        placed
    }
}

/// Checks the requests about one key, which is absent at first.
pub(super) fn check(operations: &[&Operation]) -> Result<(), String> {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| operation.sent);
    let required: Vec<bool> = operations.iter().map(|operation| !is_unknown(operation)).collect();
    let mut visited: HashSet<(Placed, State)> = HashSet::new();
    let mut open = vec![(Placed::none(operations.len()), None)];
    // The longest order that was found, for the error.
    let mut best = (0, open[0].clone());
    while let Some((placed, state)) = open.pop() {
        let left = || (0..operations.len()).filter(|index| !placed.has(*index));
        let count = operations.len() - left().count();
        if !left().any(|index| required[index]) {
            return Ok(());
        }
        if count > best.0 {
            best = (count, (placed.clone(), state.clone()));
        }
        // A request that was sent after another was answered has no place before it.
        let first_answer =
            left().filter(|index| required[*index]).map(|index| operations[index].answered).min();
        let next =
            left().take_while(|index| first_answer.is_none_or(|first| operations[*index].sent <= first));
        for index in next {
            let Some(after) = apply(&operations[index].action, &state) else { continue };
            let step = (placed.with(index), after);
            if visited.insert(step.clone()) {
                open.push(step);
            }
        }
    }
    let (count, (placed, state)) = best;
    let stuck: Vec<String> = (0..operations.len())
        .filter(|index| !placed.has(*index))
        .take(8)
        .map(|index| format!("{:?}", operations[index]))
        .collect();
    Err(format!(
        "no order explains the responses: after {count} of {} requests the state is {state:?}, and then came\n{}",
        operations.len(),
        stuck.join("\n")
    ))
}

fn is_unknown(operation: &Operation) -> bool {
    matches!(operation.action, Action::Write { outcome: Outcome::Unknown, .. })
}

/// The state after a request, if its response is right in this state.
fn apply(action: &Action, state: &State) -> Option<State> {
    match action {
        Action::Read(seen) => (seen == state).then(|| state.clone()),
        Action::Write { from, to, outcome: Outcome::Done | Outcome::Unknown } => {
            (from == state).then(|| to.clone())
        }
        Action::Write { from, outcome: Outcome::Refused, .. } => (from != state).then(|| state.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn operation(sent: u64, answered: u64, action: Action) -> Operation {
        let time = Duration::from_millis;
        Operation { key: "k".into(), action, revision: None, sent: time(sent), answered: time(answered) }
    }

    fn read(sent: u64, answered: u64, value: &str) -> Operation {
        operation(sent, answered, Action::Read(state(value)))
    }

    fn write(sent: u64, answered: u64, from: &str, to: &str, outcome: Outcome) -> Operation {
        operation(sent, answered, Action::Write { from: state(from), to: state(to), outcome })
    }

    fn state(value: &str) -> State {
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn is_good(operations: &[Operation]) -> bool {
        check(&operations.iter().collect::<Vec<_>>()).is_ok()
    }

    use Outcome::{Done, Refused, Unknown};

    #[test]
    fn histories_that_an_order_explains_are_good() {
        let table: [&[Operation]; 8] = [
            &[],
            &[read(0, 1, ""), write(1, 2, "", "a", Done), read(3, 4, "a")],
            // Concurrent requests have either order.
            &[write(0, 10, "", "a", Done), read(1, 2, ""), read(3, 4, "a")],
            &[write(0, 10, "", "a", Done), write(0, 10, "", "b", Refused), read(11, 12, "a")],
            // The outcome of a write without a response shows later, or never.
            &[write(0, 1, "", "a", Unknown), read(2, 3, ""), read(50, 51, "a")],
            &[write(0, 1, "", "a", Unknown), read(2, 3, ""), write(4, 5, "", "b", Done), read(6, 7, "b")],
            &[
                write(0, 1, "", "a", Done),
                write(2, 3, "a", "", Unknown),
                write(4, 5, "", "b", Refused),
                write(6, 7, "", "b", Done),
            ],
            &[
                write(0, 9, "", "a", Done),
                write(1, 9, "a", "b", Done),
                write(2, 9, "b", "c", Done),
                read(3, 9, "b"),
            ],
        ];
        for operations in table {
            assert!(is_good(operations), "{operations:#?}");
        }
    }

    #[test]
    fn histories_that_no_order_explains_are_bad() {
        let table: [&[Operation]; 9] = [
            // A lost write.
            &[write(0, 1, "", "a", Done), read(2, 3, "")],
            // A stale read.
            &[write(0, 1, "", "a", Done), write(2, 3, "a", "b", Done), read(4, 5, "a")],
            // A read that goes back.
            &[write(0, 9, "", "a", Done), read(1, 2, "a"), read(3, 4, "")],
            // A value from nowhere.
            &[read(0, 1, "a")],
            // Two updates of one value.
            &[write(0, 1, "", "a", Done), write(2, 9, "a", "b", Done), write(2, 9, "a", "c", Done)],
            // Two creations.
            &[write(0, 9, "", "a", Done), write(0, 9, "", "b", Done)],
            // A refusal without a reason.
            &[write(0, 1, "", "a", Done), write(2, 3, "a", "b", Refused)],
            &[write(0, 1, "", "a", Refused)],
            // A write that shows before it was sent.
            &[read(0, 1, "a"), write(2, 3, "", "a", Unknown)],
        ];
        for operations in table {
            assert!(!is_good(operations), "{operations:#?}");
        }
    }

    /// A long history of several clients, made by carrying out requests one after another at random times within
    /// their durations, is good; with one response exchanged for an earlier one it is bad.
    #[test]
    fn a_long_history_is_checked_in_time() {
        let mut random = 7_u64;
        let mut dice = move |sides: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % sides
        };
        let (mut operations, mut current, mut now) = (Vec::new(), String::new(), 100);
        for number in 0..600 {
            now += 10;
            let (sent, answered) = (now - dice(60), now + dice(60));
            let value = format!("v{number}");
            let next = match dice(6) {
                0 | 1 => read(sent, answered, &current),
                2 => write(sent, answered, "stale", &value, Refused),
                3 => write(sent, answered, "stale", &value, Unknown),
                4 if !current.is_empty() => {
                    let delete = write(sent, answered, &current, "", Done);
                    current.clear();
                    delete
                }
                _ => {
                    let update = write(sent, answered, &current, &value, Done);
                    current = value;
                    update
                }
            };
            operations.push(next);
        }
        assert!(is_good(&operations));
        operations.push(read(now + 200, now + 201, &current));
        assert!(is_good(&operations));
        operations.push(read(now + 300, now + 301, "v0"));
        assert!(!is_good(&operations));
    }
}
