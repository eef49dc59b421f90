//! Functions of lists and sets.

use crate::{Case, check};

#[rustfmt::skip]
const LISTS: &[Case] = &[
    ("[1, 2, 2].isSorted()", "true", 3),
    (r#"["b", "a"].isSorted()"#, "false", 0),
    ("[].isSorted()", "true", 0),
    ("[1, 3].sum()", "4", 2),
    ("[1.5, 2.5].sum()", "double(0x4010000000000000)", 2),
    (r#"[duration("1m"), duration("1s")].sum()"#, "duration(61000000000)", 2),
    ("[].sum()", "0", 0),
    ("[9223372036854775807, 1].sum()", "error: integer overflow", 2),
    ("[18446744073709551615u, 1u].sum()", "error: unsigned integer overflow", 2),
    ("[dyn(1), dyn(2.0)].sum()", "error: no such overload", 2),
    (r#"["b", "a"].min()"#, r#""a""#, 0),
    ("[1, 3, 2].max()", "3", 3),
    ("[].min()", "error: min called on empty list", 0),
    (r#"[dyn("a"), dyn(2.0)].min()"#, r#""a""#, 1),
    ("dyn([[1]]).max()", "error: no such overload: max(list)", 1),
    (r#"["a", "b", "a"].indexOf("a")"#, "0", 0),
    (r#"["a", "b", "a"].lastIndexOf("a")"#, "2", 0),
    ("[1].indexOf(2)", "-1", 1),
    ("[1, 2].includes(2)", "true", 2),
    (r#""a".includes("a")"#, "true", 0),
    ("dyn(1).includes(1.0)", "true", 1),
    ("[3, 1, 2].sort()", "[1,2,3]", 29),
    (r#"[1.5, double("nan"), 0.5].sort()"#, "[double(0x3ff8000000000000),double(0x7ff8000000000001),double(0x3fe0000000000000)]", 29),
    (r#"[dyn(1), dyn("a")].sort()"#, "error: list elements must have the same type", 1),
    ("dyn([[1]]).sort()", "error: list elements must be comparable", 1),
    ("dyn(1).sort()", "error: no such overload: sort", 1),
    (r#"["foo", "ba", "x"].sortBy(e, e.size())"#, r#"["x","ba","foo"]"#, 74),
    ("[1, 2, 3].slice(1, 3)", "[2,3]", 13),
    ("[1, 2, 3].slice(-1, 2)", "error: cannot slice(-1, 2), negative indexes not supported", 12),
    ("[1, 2, 3].slice(2, 1)", "error: cannot slice(2, 1), start index must be less than or equal to end index", 12),
    ("[1, 2, 3].slice(0, 4)", "error: cannot slice(0, 4), list is length 3", 12),
    ("[[1], [2, 3], []].flatten()", "[1,2,3]", 14),
    ("[dyn(1), dyn([2, [3]])].flatten(0)", "error: expected type 'int' but found 'list(int)'", 0),
    ("[dyn(1), dyn([dyn(2), dyn([3])])].flatten(2)", "[1,2,3]", 15),
    ("[dyn(1)].flatten(-1)", "error: level must be non-negative", 12),
    ("dyn(1).flatten()", "error: no such overload: int.flatten()", 12),
    ("lists.range(3)", "[0,1,2]", 14),
    ("lists.range(-1)", "error: lists.range: size must be non-negative, got -1", 12),
    ("lists.range(1000001)", "error: lists.range: size 1000001 exceeds maximum allowed (1000000)", 12),
    ("[1, 2].reverse()", "[2,1]", 13),
    (r#"["a", "a", "b"].distinct()"#, r#"["a","b"]"#, 29),
    (r#"[dyn(1), dyn(1.0), dyn("1")].distinct()"#, r#"[1,"1"]"#, 29),
];

#[rustfmt::skip]
const SETS: &[Case] = &[
    ("sets.contains([1, 2, 3], [2])", "true", 4),
    ("sets.contains([1], [1, 2])", "false", 3),
    ("sets.contains([], [])", "true", 1),
    ("sets.equivalent([1, 2], [2, 1, 1])", "true", 13),
    ("sets.equivalent([dyn(1)], [dyn(1u), dyn(1.0)])", "true", 5),
    ("sets.intersects([1, 2], [3, 2])", "true", 5),
    ("sets.intersects([], [1])", "false", 1),
    (r#"sets.contains([dyn(1)], [dyn(ip("::1"))])"#, "false", 14),
];

#[test]
fn lists() {
    check(LISTS);
}

#[test]
fn sets() {
    check(SETS);
}
