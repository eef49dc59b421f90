//! Validating policies: what a policy decides about one request with one parameter.

#[cfg(test)]
mod tests;

use corten_api::{Str, Value as Tree};
use corten_cel::{Environment, Value};

use crate::POLICY_COST_BUDGET;
use crate::activation::{Activation, Bindings, Composited, Request};
use crate::expression::{Expression, Returns};
use crate::match_conditions::{FailurePolicy, Match, MatchConditions, Matched};
use crate::policy::{Composition, items, text};

/// Maximum length of an evaluated message in bytes.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// A compiled ValidatingAdmissionPolicy.
#[derive(Debug)]
pub struct ValidatingPolicy {
    failure_policy: FailurePolicy,
    conditions: MatchConditions,
    variables: Box<Composited>,
    validations: Box<[Validation]>,
    annotations: Box<[(Str, Expression)]>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: Str,
    message_expression: Option<Expression>,
    reason: Option<Str>,
}

/// The decisions of a policy about one request. Validations that pass are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validated {
    pub conditions: Matched,
    pub decisions: Vec<Decision>,
    pub annotations: Vec<(Str, Annotation)>,
}

/// A validation that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The position of the expression.
    pub index: usize,
    /// The request is denied; otherwise the policy ignores the failure.
    pub denies: bool,
    /// The expression could not be evaluated.
    pub is_error: bool,
    pub message: String,
    pub reason: Option<Str>,
}

/// The outcome of an audit annotation's expression. One without a value is not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Annotation {
    Publish(String),
    /// The request is denied.
    Error(String),
}

impl ValidatingPolicy {
    /// Compiles the specification of a stored policy.
    pub fn compile(spec: &Tree) -> ValidatingPolicy {
        let composition = Composition::of_spec(spec);
        let environment = composition.environment();
        let messages = composition.message_environment();
        let annotation = |annotation: &Tree| {
            let expression = text(annotation, "valueExpression");
            let compiled = Expression::compile(&environment, expression, Returns::StringOrNull);
            (Str::from(text(annotation, "key")), compiled)
        };
        let failure_policy = FailurePolicy::of(spec);
        ValidatingPolicy {
            failure_policy,
            conditions: MatchConditions::compile_in(
                &environment,
                spec.get("matchConditions"),
                failure_policy,
            ),
            validations: items(spec, "validations")
                .iter()
                .map(|validation| Validation::compile(validation, &environment, &messages))
                .collect(),
            annotations: items(spec, "auditAnnotations").iter().map(annotation).collect(),
            variables: composition.into_variables(),
        }
    }

    /// Evaluates the policy for a request.
    pub fn evaluate(&self, request: &dyn Request, params: Option<&Tree>) -> Validated {
        let conditions = self.conditions.evaluate_with(request, params, &self.variables);
        match &conditions.verdict {
            Match::Yes => self.validate(request, params),
            Match::No(_) => Validated { conditions, ..Validated::default() },
            Match::Error(why) => {
                let failed = self.failed(why.clone());
                Validated { conditions, ..failed }
            }
        }
    }

    fn validate(&self, request: &dyn Request, params: Option<&Tree>) -> Validated {
        let bindings = Bindings { params, namespace: true, authorizer: true };
        let activation = Activation::new(request, bindings, &self.variables);
        let mut budget = POLICY_COST_BUDGET;
        let mut failures = Vec::new();
        for (index, validation) in self.validations.iter().enumerate() {
            match activation.evaluate(&validation.expression, &mut budget) {
                Err(out_of_budget) => return self.failed(out_of_budget.to_owned()),
                Ok(Ok(Value::Bool(true))) => {}
                Ok(Ok(_)) => failures.push((index, None)),
                Ok(Err(error)) => failures.push((index, Some(error))),
            }
        }
        let decisions = self.decide(failures, request, bindings, budget);
        match self.annotate(request, bindings) {
            Ok(annotations) => Validated { decisions, annotations, ..Validated::default() },
            Err(out_of_budget) => self.failed(out_of_budget.to_owned()),
        }
    }

    fn failed(&self, message: String) -> Validated {
        Validated { decisions: vec![self.error(0, message)], ..Validated::default() }
    }

    fn error(&self, index: usize, message: String) -> Decision {
        let denies = self.failure_policy == FailurePolicy::Fail;
        Decision { index, denies, is_error: true, message, reason: None }
    }

    /// The decisions of validations that failed. Messages are evaluated only now: those of other validations are not
    /// needed, apart from what they cost.
    fn decide(
        &self,
        failures: Vec<(usize, Option<String>)>,
        request: &dyn Request,
        bindings: Bindings<'_>,
        mut budget: u64,
    ) -> Vec<Decision> {
        if failures.is_empty() {
            return Vec::new();
        }
        let bindings = Bindings { authorizer: false, ..bindings };
        let activation = Activation::new(request, bindings, &self.variables);
        let mut messages = Vec::with_capacity(self.validations.len());
        let mut out_of_budget = None;
        for validation in &self.validations {
            let expression = validation.message_expression.as_ref();
            match expression.map(|expression| activation.evaluate(expression, &mut budget)) {
                None => messages.push(None),
                Some(Ok(value)) => messages.push(value.ok()),
                Some(Err(error)) => {
                    out_of_budget = Some(error);
                    break;
                }
            }
        }
        let decide = |(index, error): (usize, Option<String>)| match (error, out_of_budget) {
            (Some(error), _) => self.error(index, error),
            (None, Some(error)) => self.error(index, format!("failed messageExpression: {error}")),
            (None, None) => {
                let evaluated = messages.get(index).and_then(Option::as_ref);
                let validation = &self.validations[index];
                Decision {
                    index,
                    denies: true,
                    is_error: false,
                    message: validation.message(evaluated),
                    reason: validation.reason.clone(),
                }
            }
        };
        failures.into_iter().map(decide).collect()
    }

    fn annotate(
        &self,
        request: &dyn Request,
        bindings: Bindings<'_>,
    ) -> Result<Vec<(Str, Annotation)>, &'static str> {
        if self.annotations.is_empty() {
            return Ok(Vec::new());
        }
        let bindings = Bindings { authorizer: false, ..bindings };
        let activation = Activation::new(request, bindings, &self.variables);
        let mut budget = POLICY_COST_BUDGET;
        let mut found = Vec::new();
        for (key, expression) in &self.annotations {
            let annotation = match activation.evaluate(expression, &mut budget)? {
                Ok(Value::String(value)) if !value.trim().is_empty() => {
                    Annotation::Publish(value.trim().to_owned())
                }
                Ok(Value::String(_) | Value::Null) => continue,
                Ok(other) => {
                    let (text, ty) = (&expression.text, other.type_name());
                    Annotation::Error(format!(
                        "valueExpression '{text}' resulted in unsupported return type: {ty}. Return type must be either string or null."
                    ))
                }
                Err(_) if self.failure_policy == FailurePolicy::Ignore => continue,
                Err(error) => Annotation::Error(error),
            };
            found.push((key.clone(), annotation));
        }
        Ok(found)
    }
}

impl Validation {
    fn compile(validation: &Tree, environment: &Environment, messages: &Environment) -> Validation {
        let message_expression = match text(validation, "messageExpression") {
            "" => None,
            text => Some(Expression::compile(messages, text, Returns::String)),
        };
        Validation {
            expression: Expression::compile(environment, text(validation, "expression"), Returns::Bool),
            message: Str::from(text(validation, "message")),
            message_expression,
            reason: validation.get("reason").and_then(Tree::as_str).map(Str::from),
        }
    }

    /// The message of a validation that failed: evaluated, or as the policy has it, or the expression.
    fn message(&self, evaluated: Option<&Value<'_>>) -> String {
        let usable =
            |text: &&str| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
        if let Some(text) = evaluated.and_then(Value::as_str).map(str::trim).filter(usable) {
            return text.to_owned();
        }
        match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.text.trim()),
            message => message.to_owned(),
        }
    }
}
