//! The deepest and longest expressions, on the stack that the API server's threads have: each is compiled and evaluated,
//! or refused with upstream's message.

use std::sync::Arc;

use corten_cel::cost::{NoSizes, estimate};
use corten_cel::{Environment, Type, Value};

/// As in `corten server`.
const STACK: usize = 16 << 20;

/// Compiles, estimates and evaluates; returns the first error's message.
fn outcome(text: &str) -> Result<(), String> {
    let environment = Environment::stored().with_variables([(Arc::from("self"), Type::Dyn)]);
    let checked = environment
        .check(text)
        .map_err(|issues| issues.iter().next().map(|issue| issue.message.clone()).unwrap_or_default())?;
    estimate(&checked, &NoSizes);
    let program = environment.program(&checked).map_err(|error| error.to_string())?;
    // The result does not matter: deep selections of a number fail.
    drop(program.eval(&[Some(Value::Int(1))], 1_000_000));
    Ok(())
}

fn nested(open: &str, leaf: &str, close: &str, count: usize) -> String {
    format!("{}{leaf}{}", open.repeat(count), close.repeat(count))
}

#[test]
fn depth_is_limited_before_the_stack_is() {
    let run = || {
        for count in [200, 249, 1_000, 5_000] {
            for text in [
                nested("(", "1", ")", count),
                nested("[", "", "]", count),
                nested("{1:", "1", "}", count),
                nested("size(", "self", ")", count),
                nested("-(", "1", ")", count),
                nested("!(", "true", ")", count),
                nested("[1].all(x, ", "true", ")", count),
                nested("[1].map(x, ", "x", ")", count),
                nested("self[", "0", "]", count),
                nested("true ? true : ", "true", "", count),
                nested("1 + ", "1", "", count),
                nested("1 in ", "[1]", "", count),
                nested("true && ", "true", "", count),
                nested("1 == ", "1", "", count),
                nested("", "self", ".a", count),
                nested("", "self", "[0]", count),
                nested("", "[1]", ".map(x, x)", count),
                nested("", "''", ".trim()", count),
            ] {
                let start: String = text.chars().take(20).collect();
                match outcome(&text) {
                    Ok(()) => assert!(count < 250 || text.contains('&'), "{start}… {count}"),
                    Err(why) => {
                        let limits =
                            ["max recursion depth exceeded", "expression recursion limit exceeded: 250"];
                        let is_limit = limits.contains(&why.as_str());
                        assert!(is_limit || count < 1_000, "{start}… {count}: {why}");
                    }
                }
            }
        }
        for text in [
            nested("1 + ", "1", "", 24_000),
            nested("", "self", ".a", 45_000),
            nested("", "self", "[0]", 30_000),
        ] {
            assert_eq!(outcome(&text), Err("max recursion depth exceeded".to_owned()));
        }
        let long = "true && ".repeat(20_000) + "true";
        let refusal = "expression code point size exceeds limit: size: 160004, limit 100000";
        assert_eq!(outcome(&long), Err(refusal.to_owned()));
    };
    std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread").join().expect("no panic");
}

/// The value or the error of an expression, as text.
fn result(text: &str) -> String {
    let environment = Environment::stored().with_variables([(Arc::from("self"), Type::Dyn)]);
    let checked = match environment.check(text) {
        Ok(checked) => checked,
        Err(issues) => return issues.iter().map(|issue| issue.message.clone()).collect(),
    };
    let program = environment.program(&checked).expect("a program");
    let tree = corten_api::json::parse(SELF).expect("JSON");
    let outcome = program.eval(&[Some(Value::plain(&tree))], 1_000_000);
    outcome.value.map_or_else(|error| error.to_string(), |value| value.to_string())
}

const SELF: &[u8] = br#"{"a": [{"b": {"c": "d"}, "e": [1, 2, "f"]}], "g": "h"}"#;
const CANCELLED: &str = "operation cancelled: actual cost limit exceeded";

/// Wraps a value in two of itself, and that in two of itself, and so on: `2^count` values.
fn doubled(value: &str, count: usize) -> String {
    format!("[{value}]{}", ".map(x, [x, x])".repeat(count))
}

#[test]
fn values_that_contain_others_twice_are_compared_within_the_cost_limit() {
    let many = doubled("1", 60);
    for text in [
        format!("{many}.all(x, x == x)"),
        format!("{many}.all(x, !(x != x))"),
        format!("{many}.all(x, x in [[], x])"),
        format!("{many}.all(x, [x].exists(y, y == x))"),
        format!("{many}.all(x, {{'a': x}} == {{'a': x}})"),
        format!("{many}.all(x, optional.of(x) == optional.of(x))"),
        format!("{many}.all(x, sets.contains([x], [x]))"),
        format!("{many}.all(x, sets.intersects([x], [x]))"),
        format!("{many}.all(x, dyn([x]).indexOf(x) == 0)"),
        format!("{many}.all(x, [x, x].distinct() == [])"),
        format!("{}.flatten(400) == []", doubled("[]", 60)),
        format!("'%s'.format({many}) == ''"),
    ] {
        let found = result(&text);
        assert!(found == CANCELLED || found.contains("no matching overload"), "{text}: {found}");
    }
    // Real values are far smaller, and cost what they cost upstream.
    assert_eq!(result(&format!("{}.all(x, x == x)", doubled("1", 10))), "true");
    assert_eq!(result("self == self && self.a in [self.a] && [self, self].distinct().size() == 1"), "true");
}

#[test]
fn values_that_contain_others_twice_are_shown_in_part() {
    let found = result(&format!("{}.all(x, [?dyn(x)] == [])", doubled("'é'", 60)));
    assert!(
        found.starts_with("cannot initialize optional list element from non-optional value [[["),
        "{found:.200}"
    );
    assert!(found.len() < 100 << 10, "{}", found.len());
}

#[test]
fn the_depth_of_values_is_limited() {
    let run = || {
        let wrap = |count: usize| format!(".map(x, {}dyn(x){})", "[".repeat(count), "]".repeat(count));
        assert_eq!(result(&format!("size([1]{}) == 1", wrap(100).repeat(4))), "true");
        for (what, text) in [
            ("lists", format!("size([1]{}) == 1", wrap(100).repeat(100))),
            ("maps", format!("size([1]{}) == 1", ".map(x, {'a': {'a': {'a': dyn(x)}}})".repeat(200))),
            (
                "optional values",
                format!("size([1]{}) == 1", ".map(x, [optional.of(optional.of(dyn(x)))])".repeat(200)),
            ),
            ("joined lists", format!("size([1]{}) == 1", ".map(x, [[[1] + [dyn(x)]]])".repeat(200))),
        ] {
            assert_eq!(result(&text), CANCELLED, "{what}");
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread").join().expect("no panic");
}

#[test]
fn the_size_of_types_is_limited() {
    let refused = "the type of the expression is too large";
    for text in [
        format!("size([1]{}) == 1", ".map(x, {x: x})".repeat(100)),
        format!("size([[]]{}) == 1", ".map(x, {x: x})".repeat(100)),
        format!("size([1]{}) == 1", format!(".map(x, {}x{})", "[".repeat(100), "]".repeat(100)).repeat(60)),
    ] {
        let found = result(&text);
        assert!(found.contains(refused), "{text:.60}: {found:.200}");
    }
}
