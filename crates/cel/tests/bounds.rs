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
