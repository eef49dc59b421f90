//! Expressions whose patterns are a few bytes each, and megabytes once compiled: they are refused before that.

#[path = "../../api/tests/bounds/allocations.rs"]
mod allocations;

use std::sync::Arc;

use allocations::{allowance, peak};
use corten_cel::library::regex::{Budget, Patterns};
use corten_cel::{CompileError, Environment, Program, Type, Value};

const TOO_LARGE: &str = "expression too large";

fn environment() -> Environment {
    Environment::stored().with_variables([(Arc::from("self"), Type::Dyn)])
}

fn compile(text: &str) -> Result<Program, String> {
    environment().compile(text).map_err(|error| match error {
        CompileError::Issues(issues) => issues.to_string(),
        CompileError::Program(why) => why,
    })
}

/// `count` patterns, each different, joined to an expression.
fn constants(pattern: &str, count: usize) -> String {
    let parts: Vec<String> = (0..count).map(|i| format!("self.matches(r'{pattern}{i}')")).collect();
    parts.join(" && ")
}

#[test]
fn constant_patterns_are_not_compiled_if_they_are_too_large() {
    for (text, accepted) in [
        (constants("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 200), true),
        (constants("^.{1,1000}$", 4), true),
        (constants(r"\pL{20}x", 2), true),
        (constants(r"\pL{20}x", 200), false),
        (constants(r"\pL{60}x", 200), false),
        (constants(r"\pL{1000}x", 1), false),
        (constants(r"(\pL{30}){30}x", 1), false),
        (constants(&r"(?i)\pL".repeat(1_000), 1), false),
        (constants(&r"(?i)[\x00-\x{10FFFF}]".repeat(100), 1), false),
    ] {
        let start: String = text.chars().take(60).collect();
        let mut refusal = None;
        let held = peak(|| refusal = compile(&text).err());
        assert!(held < allowance(text.len()), "{start}…: {held} bytes");
        assert_eq!(refusal.is_none(), accepted, "{start}…: {refusal:?}");
        assert!(refusal.is_none_or(|why| why.contains(TOO_LARGE)), "{start}…");
    }
}

#[test]
fn stored_expressions_beyond_the_budget_are_evaluated_within_another() {
    let environment = environment();
    for (count, evaluates) in [(3, true), (10, false)] {
        let text = constants(r"b|\pL{20}x", count);
        let checked = environment.check(&text).expect("is valid");
        let program = environment.program_within(&checked, &Budget::lenient(1_000_000)).expect("compiles");
        let mut found = None;
        let held = peak(|| {
            let value = program.eval(&[Some(Value::from("b"))], 1_000_000).value;
            found = Some(value.map(|value| value.to_string()).map_err(|error| error.to_string()));
        });
        assert!(held < 24 << 20, "{count} patterns: {held} bytes");
        let found = found.expect("was evaluated");
        assert_eq!(found.is_ok(), evaluates, "{count} patterns: {found:?}");
        assert!(evaluates || found.is_err_and(|why| why.contains(TOO_LARGE)), "{count} patterns");
    }
}

#[test]
fn patterns_of_evaluations_are_compiled_once_and_within_a_budget() {
    let program = compile("self.all(x, !'a'.matches(x))").expect("compiles");
    for (distinct, evaluates) in [(1, true), (4, true), (200, false)] {
        let patterns: Vec<String> = (0..200).map(|i| format!(r"\pL{{20}}x{}", i % distinct)).collect();
        let items: Vec<Value<'_>> = patterns.iter().map(|pattern| Value::from(pattern.as_str())).collect();
        let list = Value::list(items);
        let compiled = Patterns::default();
        let mut failure = None;
        let held = peak(|| {
            failure = program.eval_with(&[Some(list.clone())], 1_000_000, &compiled).value.err();
        });
        assert!(held < 24 << 20, "{distinct} patterns: {held} bytes");
        assert_eq!(failure.is_none(), evaluates, "{distinct} patterns: {failure:?}");
        assert!(failure.is_none_or(|why| why.to_string().contains(TOO_LARGE)), "{distinct} patterns");
    }
}
