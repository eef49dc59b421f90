//! Match conditions of webhooks and policies: expressions that must all be true for a request.
//!
//! A condition that is false decides, whichever others fail. Otherwise a failed condition is an error, or, if failures
//! are ignored, a request that does not match.

#[cfg(test)]
mod tests;

use corten_api::{Str, Value as Tree};
use corten_cel::{Environment, Value};

use crate::MATCH_CONDITIONS_COST_BUDGET;
use crate::activation::{Activation, Bindings, Composited, Request};
use crate::environment::{Declared, Mode, environment};
use crate::expression::{Expression, Returns};

/// The treatment of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    /// The `failurePolicy` of a webhook or of a policy's specification.
    pub fn of(owner: &Tree) -> FailurePolicy {
        match owner.get("failurePolicy").and_then(Tree::as_str) {
            Some("Ignore") => FailurePolicy::Ignore,
            _ => FailurePolicy::Fail,
        }
    }
}

/// The outcome of match conditions, and the errors that metrics count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    pub verdict: Match,
    /// Conditions that could not be evaluated, up to the first that is false.
    pub errors: u64,
}

/// The verdict of match conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Match {
    #[default]
    Yes,
    /// The named condition is false; empty if conditions failed and failures are ignored.
    No(Str),
    /// Conditions failed.
    Error(String),
}

/// Compiled match conditions.
#[derive(Debug)]
pub struct MatchConditions {
    conditions: Box<[(Str, Expression)]>,
    failure_policy: FailurePolicy,
}

impl MatchConditions {
    /// Compiles the `matchConditions` of a webhook.
    pub fn compile(conditions: Option<&Tree>, failure_policy: FailurePolicy) -> MatchConditions {
        let declared = Declared { params: false, authorizer: true, patch_types: false };
        MatchConditions::compile_in(&environment(Mode::Stored, declared), conditions, failure_policy)
    }

    pub(crate) fn compile_in(
        environment: &Environment,
        conditions: Option<&Tree>,
        failure_policy: FailurePolicy,
    ) -> MatchConditions {
        let text = |condition: &Tree, field: &str| {
            condition.get(field).and_then(Tree::as_str).unwrap_or_default().to_owned()
        };
        let compile = |condition: &Tree| {
            let expression = Expression::compile(environment, &text(condition, "expression"), Returns::Bool);
            (Str::from(text(condition, "name")), expression)
        };
        let conditions = conditions.and_then(Tree::as_array).unwrap_or_default();
        MatchConditions { conditions: conditions.iter().map(compile).collect(), failure_policy }
    }

    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Evaluates the conditions of a webhook.
    pub fn evaluate(&self, request: &dyn Request) -> Matched {
        self.evaluate_with(request, None, &[])
    }

    pub(crate) fn evaluate_with(
        &self,
        request: &dyn Request,
        params: Option<&Tree>,
        composited: &Composited,
    ) -> Matched {
        if self.conditions.is_empty() {
            return Matched::default();
        }
        let bindings = Bindings { params, namespace: false, authorizer: true };
        let activation = Activation::new(request, bindings, composited);
        let mut budget = MATCH_CONDITIONS_COST_BUDGET;
        let (mut refused, mut errors) = (None, Vec::new());
        let mut counted = 0;
        // All conditions are evaluated, because a budget that any of them exceeds is an error.
        for (name, expression) in &self.conditions {
            match activation.evaluate(expression, &mut budget) {
                Err(out_of_budget) => {
                    return Matched { verdict: self.failed(out_of_budget.to_owned()), errors: 0 };
                }
                Ok(Ok(Value::Bool(false))) => refused = refused.or(Some(name)),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    counted += u64::from(refused.is_none());
                    errors.push(error);
                }
            }
        }
        let verdict = match refused {
            Some(name) => Match::No(name.clone()),
            None if errors.is_empty() => Match::Yes,
            None => self.failed(aggregate(errors)),
        };
        Matched { verdict, errors: counted }
    }

    fn failed(&self, why: String) -> Match {
        match self.failure_policy {
            FailurePolicy::Fail => Match::Error(why),
            FailurePolicy::Ignore => Match::No(Str::default()),
        }
    }
}

/// The text of several errors, without repetitions.
pub(crate) fn aggregate(mut errors: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
