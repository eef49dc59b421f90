//! Compilation of expressions before they are stored.
//!
//! An expression that the stored object already has may use newer features than a new one, so that an object that a newer
//! server stored can still be changed after a rollback.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Value};
use corten_policies::{CompileError, ConditionChecker, ErrorKind, Mode, PolicyChecker, Purpose};

use crate::validation::text::{list, member, text};

/// Lists the error of an expression that does not compile.
fn report(outcome: Result<(), CompileError>, expression: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let Err(error) = outcome else { return };
    match error.kind {
        ErrorKind::Invalid => errors.invalid(at, &Value::from(expression), error.detail),
        ErrorKind::Internal => errors.internal(at, error.detail),
    }
}

fn mode(stored: &HashSet<&str>, expression: &str) -> Mode {
    if stored.contains(expression) { Mode::Stored } else { Mode::New }
}

/// Match conditions of a webhook or policy.
pub(super) struct Conditions<'o> {
    checker: ConditionChecker,
    stored: HashSet<&'o str>,
}

impl<'o> Conditions<'o> {
    /// Checks conditions of a webhook or policy; `stored` are owners of conditions that are stored.
    pub(super) fn new(has_params: bool, stored: impl IntoIterator<Item = &'o Value>) -> Conditions<'o> {
        let conditions = stored.into_iter().flat_map(|owner| list(owner, "matchConditions"));
        let stored = conditions.map(|condition| text(condition, "expression")).collect();
        Conditions { checker: ConditionChecker::new(has_params), stored }
    }

    pub(super) fn validate(&self, expression: &str, at: &Field<'_>, errors: &mut ErrorList) {
        let expression = expression.trim();
        if expression.is_empty() {
            errors.required(at, "");
            return;
        }
        let outcome = self.checker.check(expression, mode(&self.stored, expression));
        report(outcome, expression, at, errors);
    }
}

/// The expressions of a policy.
pub(super) struct Expressions<'o> {
    checker: PolicyChecker,
    validations: HashSet<&'o str>,
    messages: HashSet<&'o str>,
    annotations: HashSet<&'o str>,
    configurations: HashSet<&'o str>,
}

impl<'o> Expressions<'o> {
    pub(super) fn new(spec: &Value, old: Option<&'o Value>, is_composed: bool) -> Expressions<'o> {
        let texts = |items: &str, field: &str| -> HashSet<&'o str> {
            let items = old.map(|old| list(old, items)).unwrap_or_default().iter();
            items.map(|item| text(item, field)).filter(|text| !text.is_empty()).collect()
        };
        let mutations = old.map(|old| list(old, "mutations")).unwrap_or_default().iter();
        let configurations = mutations.filter_map(|mutation| member(mutation, "applyConfiguration"));
        Expressions {
            checker: PolicyChecker::new(member(spec, "paramKind").is_some(), is_composed),
            validations: texts("validations", "expression"),
            messages: texts("validations", "messageExpression"),
            annotations: texts("auditAnnotations", "valueExpression"),
            configurations: configurations.map(|configuration| text(configuration, "expression")).collect(),
        }
    }

    /// A variable, which later expressions can use.
    pub(super) fn variable(&mut self, name: &str, expression: &str, at: &Field<'_>, errors: &mut ErrorList) {
        if expression.trim().is_empty() {
            errors.required(at, "expression is not specified");
            return;
        }
        let mode = mode(&self.validations, expression);
        report(self.checker.variable(name, expression, mode), expression, at, errors);
    }

    /// An expression that is not empty. Those of some purposes are trimmed before they are compiled.
    pub(super) fn validate(
        &mut self,
        purpose: Purpose,
        expression: &str,
        at: &Field<'_>,
        errors: &mut ErrorList,
    ) {
        let (stored, is_trimmed) = match purpose {
            Purpose::Validation => (&self.validations, false),
            Purpose::Message => (&self.messages, false),
            Purpose::AuditAnnotation => (&self.annotations, true),
            // Upstream looks both up among configurations.
            Purpose::ApplyConfiguration | Purpose::JsonPatch => (&self.configurations, true),
        };
        let mode = mode(stored, expression);
        let compiled = if is_trimmed { expression.trim() } else { expression };
        // An annotation is shown as it is written.
        let shown = if purpose == Purpose::AuditAnnotation { expression } else { compiled };
        report(self.checker.expression(purpose, compiled, mode), shown, at, errors);
    }
}
