//! The kinds of cases: each compares one recorded case with what this crate gives.

use std::sync::Arc;

use corten_api::Value as Tree;
use corten_cel::cost::{NoSizes, estimate};
use corten_cel::library::authz::{Authorizer, Decision, Request, Subject};
use corten_cel::library::jsonpatch;
use corten_cel::schema::Schema;
use corten_cel::{CompileError, Environment, Error, Type, Value, Version};

use crate::schemas::schema;
use crate::shown::show;

/// The version whose features new expressions can use.
const COMPATIBILITY: Version = Version(36);
/// Upstream's limit of one evaluation.
const CALL_LIMIT: u64 = 1_000_000;

pub(crate) fn text<'t>(tree: &'t Tree, member: &str) -> Option<&'t str> {
    tree.get(member).and_then(Tree::as_str)
}

/// A count; the largest ones are texts, because they do not fit integers of trees.
fn count(tree: &Tree, member: &str) -> Option<u64> {
    match tree.get(member)? {
        Tree::Int(value) => u64::try_from(*value).ok(),
        Tree::String(digits) => digits.parse().ok(),
        _ => None,
    }
}

fn is_set(tree: &Tree, member: &str) -> bool {
    tree.get(member).and_then(Tree::as_bool).unwrap_or(false)
}

/// Collects what differs.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, expected: T, found: T) {
        match (expected, found) {
            (expected, found) if expected == found => {}
            (expected, found) => self.0.push(format!("{what}: expected {expected:?}, found {found:?}")),
        }
    }
}

/// Allows everything.
#[derive(Debug)]
struct Allow;

impl Authorizer for Allow {
    fn authorize(&self, _: &Request<'_>) -> Decision {
        Decision { allowed: true, reason: "because".to_owned(), error: None }
    }
}

fn library_environment() -> Environment {
    let authorizer = Type::parse("kubernetes.authorization.Authorizer");
    Environment::stored()
        .with_library(jsonpatch::LIBRARY.declarations, &[])
        .with_variables([("authorizer".into(), authorizer), ("x".into(), Type::Dyn)])
}

pub(crate) fn expression(case: &Tree) -> Vec<String> {
    let mut differences = Differences::default();
    let environment = library_environment();
    let checked = match environment.check(text(case, "expression").unwrap_or_default()) {
        Ok(checked) => checked,
        Err(issues) => {
            differences.compare("compileError", text(case, "compileError"), Some(&*issues.to_string()));
            return differences.0;
        }
    };
    differences.compare("compileError", text(case, "compileError"), None);
    if text(case, "compileError").is_some() {
        return differences.0;
    }
    if let Some(ty) = text(case, "type") {
        let ty = ty
            .replace("google.protobuf.Timestamp", "timestamp")
            .replace("google.protobuf.Duration", "duration");
        let ty = ty.replace("null_type", "null");
        differences.compare("type", Some(ty), Some(checked.output().to_string()));
    }
    let cost = estimate(&checked, &NoSizes);
    differences.compare("estimateMin", count(case, "estimateMin"), Some(cost.min));
    differences.compare("estimateMax", count(case, "estimateMax"), Some(cost.max));
    let program = match environment.program(&checked) {
        Ok(program) => program,
        Err(error) => {
            differences.compare("programError", text(case, "programError"), Some(&*error));
            return differences.0;
        }
    };
    if text(case, "programError").is_some() {
        differences.compare("programError", text(case, "programError"), None);
        return differences.0;
    }
    let variables = [Some(Value::opaque(Subject::new(Arc::new(Allow)))), Some(Value::Int(5))];
    let outcome = program.eval(&variables, CALL_LIMIT);
    differences.compare("cost", count(case, "cost"), Some(outcome.cost));
    if text(case, "result").is_none() && text(case, "error").is_none() {
        return differences.0;
    }
    let (result, error) = match &outcome.value {
        Ok(value) => (Some(show(value)), None),
        Err(error) => (None, Some(error.to_string())),
    };
    differences.compare("result", text(case, "result").map(comparable), result);
    differences.compare("error", text(case, "error").map(str::to_owned), error);
    differences.0
}

/// The environment of a rule: `self` and `oldSelf`.
fn rule_environment(case: &Tree, schema: &Arc<Schema>, base: &Environment) -> Option<Environment> {
    let ty = schema.to_type("selfType")?;
    let old = if is_set(case, "optionalOldSelf") { Type::optional(ty.clone()) } else { ty.clone() };
    Some(base.with_variables([("self".into(), ty), ("oldSelf".into(), old)]))
}

pub(crate) fn compile(case: &Tree) -> Vec<String> {
    // A function that only exists in upstream's test.
    if text(case, "rule").is_some_and(|rule| rule.contains("fakeFunction")) {
        return Vec::new();
    }
    let mut differences = Differences::default();
    let Some(tree) = case.get("schema") else { return vec!["no schema".to_owned()] };
    let schema = Arc::new(schema(tree, is_set(case, "root")));
    let base = match text(case, "environment") {
        Some("new") => Environment::at(COMPATIBILITY),
        _ => Environment::stored(),
    };
    let Some(environment) = rule_environment(case, &schema, &base) else {
        return vec!["the schema has no type".to_owned()];
    };
    let rule = text(case, "rule").unwrap_or_default();
    if rule.trim().is_empty() {
        return Vec::new();
    }
    let outcome = compiled(&environment, &schema, rule, &Type::Bool);
    let error = outcome.as_ref().err().map(|error| match error {
        Failure::Compile(text) => format!("compilation failed: {text}"),
        Failure::Output => "cel expression must evaluate to a bool".to_owned(),
        Failure::Program(text) => format!("program instantiation failed: {text}"),
    });
    differences.compare("error", text(case, "error").map(str::to_owned), error);
    let Ok((cost, uses_old)) = outcome else { return differences.0 };
    if text(case, "error").is_some() {
        return differences.0;
    }
    differences.compare("maxCost", count(case, "maxCost"), Some(cost));
    differences.compare("usesOldSelf", Some(is_set(case, "usesOldSelf")), Some(uses_old));
    let Some(message) = text(case, "messageExpression").filter(|message| !message.is_empty()) else {
        return differences.0;
    };
    let outcome = compiled(&environment, &schema, message, &Type::String);
    let error = outcome.as_ref().err().map(|error| match error {
        Failure::Compile(text) => format!("messageExpression compilation failed: {text}"),
        Failure::Output => "messageExpression must evaluate to a string".to_owned(),
        Failure::Program(text) => format!("messageExpression instantiation failed: {text}"),
    });
    differences.compare("messageError", text(case, "messageError").map(str::to_owned), error);
    if let Ok((cost, _)) = outcome {
        differences.compare("messageMaxCost", count(case, "messageMaxCost"), Some(cost));
    }
    differences.0
}

enum Failure {
    Compile(String),
    Output,
    Program(String),
}

/// The greatest cost of an expression, and whether it reads `oldSelf`.
fn compiled(
    environment: &Environment,
    schema: &Schema,
    expression: &str,
    output: &Type,
) -> Result<(u64, bool), Failure> {
    let checked = environment.check(expression).map_err(|issues| Failure::Compile(issues.to_string()))?;
    if checked.output() != output {
        return Err(Failure::Output);
    }
    environment.program(&checked).map_err(Failure::Program)?;
    let uses_old = environment.variable("oldSelf").is_some_and(|(slot, _)| checked.uses(slot));
    Ok((estimate(&checked, schema).max, uses_old))
}

pub(crate) fn evaluate(case: &Tree) -> Vec<String> {
    let mut differences = Differences::default();
    let Some(tree) = case.get("schema") else { return vec!["no schema".to_owned()] };
    let schema = Arc::new(schema(tree, is_set(case, "root")));
    let Some(environment) = rule_environment(case, &schema, &Environment::stored()) else {
        return vec!["the schema has no type".to_owned()];
    };
    let null = Tree::Null;
    let object = case.get("object").unwrap_or(&null);
    let old = case.get("oldObject").filter(|old| !old.is_null());
    let limit = count(case, "callLimit").unwrap_or(CALL_LIMIT);
    let variables = |optional: bool| {
        let old = old.map(|old| Value::typed(old, &schema));
        let old = match (old, optional) {
            (Some(Ok(old)), true) => Some(Value::some(old)),
            (None, true) => Some(Value::Optional(None)),
            (Some(Ok(old)), false) => Some(old),
            _ => None,
        };
        Value::typed(object, &schema).map(|object| [Some(object), old])
    };
    let mut run = |expression: &str, optional: bool, result: &str, error: &str, cost: &str| {
        let program = match environment.compile(expression) {
            Ok(program) => program,
            Err(CompileError::Issues(issues)) => return differences.0.push(issues.to_string()),
            Err(CompileError::Program(text)) => return differences.0.push(text),
        };
        let variables = match variables(optional) {
            Ok(variables) => variables,
            Err(failed) => return differences.0.push(failed.to_string()),
        };
        let outcome = program.eval(&variables, limit);
        // What a cancelled evaluation cost is never used.
        if !matches!(outcome.value, Err(Error::Cancelled)) {
            differences.compare("cost", count(case, cost), Some(outcome.cost));
        }
        let expected = match case.get(result) {
            Some(Tree::Bool(value)) => Some(value.to_string()),
            Some(Tree::String(text)) => Some((**text).to_owned()),
            _ => None,
        };
        let found = outcome.value.as_ref().ok().map(|value| match value {
            Value::String(text) => (**text).to_owned(),
            value => show(value),
        });
        differences.compare(result, expected, found);
        let failed = outcome.value.as_ref().err().map(ToString::to_string);
        differences.compare(error, text(case, error).map(str::to_owned), failed);
    };
    run(text(case, "rule").unwrap_or_default(), is_set(case, "optionalOldSelf"), "result", "error", "cost");
    if let Some(message) = text(case, "messageExpression") {
        run(message, false, "message", "messageError", "messageCost");
    }
    differences.0
}

/// A recorded result without what a value does not show.
fn comparable(recorded: &str) -> String {
    if recorded.starts_with("quantity(") {
        return "opaque(kubernetes.Quantity)".to_owned();
    }
    if recorded.starts_with("format(") {
        return "opaque(kubernetes.NamedFormat)".to_owned();
    }
    if recorded.starts_with("some(format(") {
        return "some(opaque(kubernetes.NamedFormat))".to_owned();
    }
    recorded.replace("double(0xfff8000000000000)", "double(0x7ff8000000000001)")
}
