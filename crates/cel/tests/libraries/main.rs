//! Tables of expressions with the results, errors and costs that an upstream server gives.

mod addresses;
mod collections;
mod kubernetes;
#[path = "../../examples/json_vectors/shown.rs"]
mod shown;
mod text;

use std::sync::Arc;

use corten_cel::library::authz::{Authorizer, Decision, Request, Subject};
use corten_cel::library::jsonpatch;
use corten_cel::{CompileError, Environment, Type, Value};

/// An expression, its result or `error: ` and the error, and its cost; expressions that are not accepted cost 0.
type Case = (&'static str, &'static str, u64);

/// Allows everything.
#[derive(Debug)]
struct Allow;

impl Authorizer for Allow {
    fn authorize(&self, _: &Request<'_>) -> Decision {
        Decision { allowed: true, reason: "because".to_owned(), error: None }
    }
}

fn evaluate(environment: &Environment, expression: &str) -> (String, u64) {
    let program = match environment.compile(expression) {
        Ok(program) => program,
        Err(CompileError::Program(error)) => return (format!("error: {error}"), 0),
        Err(CompileError::Issues(issues)) => {
            let first = issues.iter().next().map(|issue| issue.message.clone());
            return (format!("error: {}", first.unwrap_or_default()), 0);
        }
    };
    let outcome = program.eval(&[Some(Value::opaque(Subject::new(Arc::new(Allow))))], 1_000_000);
    let text = match &outcome.value {
        Ok(value) => shown::show(value),
        Err(error) => format!("error: {error}"),
    };
    (text, outcome.cost)
}

#[track_caller]
fn check(cases: &[Case]) {
    let authorizer = Type::parse("kubernetes.authorization.Authorizer");
    let environment = Environment::stored()
        .with_library(jsonpatch::LIBRARY.declarations, &[])
        .with_variables([("authorizer".into(), authorizer)]);
    for (expression, expected, cost) in cases {
        let found = evaluate(&environment, expression);
        assert_eq!((found.0.as_str(), found.1), (*expected, *cost), "{expression}");
    }
}
