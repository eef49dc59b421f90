//! Expressions: parser, checker, estimate and evaluation.

use std::sync::Arc;

use corten_api::{Value as Tree, value};
use corten_cel::cost::{NoSizes, estimate};
use corten_cel::{Environment, Type, Value};

/// Far below the limit of real evaluations, so that many inputs run in a second.
const COST_LIMIT: u64 = 20_000;

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let environment = Environment::stored().with_variables([
        (Arc::from("self"), Type::Dyn),
        (Arc::from("items"), Type::list(Type::String)),
        (Arc::from("labels"), Type::map(Type::String, Type::Int)),
    ]);
    let checked = match environment.check(text) {
        Ok(checked) => checked,
        Err(issues) => {
            assert!(issues.to_string().starts_with("ERROR: <input>:"), "{text:?}: {issues}");
            return;
        }
    };
    let range = estimate(&checked, &NoSizes);
    assert!(range.min <= range.max, "{text:?}: {range:?}");
    let Ok(program) = environment.program(&checked) else { return };
    let object: Tree = value!({"replicas": 3, "name": "web", "ports": [80, 443], "labels": {"a": 1, "b": 2}});
    let items: Tree = value!(["a", "b", "cc"]);
    let variables =
        [Some(Value::plain(&object)), Some(Value::plain(&items)), object.get("labels").map(Value::plain)];
    let first = program.eval(&variables, COST_LIMIT);
    let second = program.eval(&variables, COST_LIMIT);
    assert_eq!(first.cost, second.cost, "{text:?}");
    assert_eq!(first.value.is_ok(), second.value.is_ok(), "{text:?}");
}
