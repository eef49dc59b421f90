//! Sets of paths and their text.

use super::*;
use crate::managed::text::{Overlap, overlap};
use crate::value::Str;

#[track_caller]
fn parse(text: &str) -> Set {
    let set = Set::parse(text).unwrap();
    let written = set.to_text();
    assert_eq!(Set::parse(&written).unwrap(), set, "a set reads back");
    assert_eq!(Set::parse(&written).unwrap().to_text(), written, "a set has one text");
    set
}

#[test]
fn texts_come_out_in_upstreams_order() {
    for (text, expected) in [
        ("{}", "{}"),
        (r#"{"f:b":{},"f:a":{}}"#, r#"{"f:a":{},"f:b":{}}"#),
        (r#"{"f:a":{".":{}}}"#, r#"{"f:a":{}}"#),
        (r#"{"f:a":{"f:b":{},".":{}}}"#, r#"{"f:a":{".":{},"f:b":{}}}"#),
        (r#"{"f:a":null, "x:later":{"f:z":{}} }"#, r#"{"f:a":{}}"#),
        (
            r#"{"i:1":{},"v:\"x\"":{},"v:2":{},"v:true":{},"k:{\"b\":1,\"a\":2}":{},"f:z":{},"i:0":{}}"#,
            r#"{"f:z":{},"k:{\"a\":2,\"b\":1}":{},"v:2":{},"v:\"x\"":{},"v:true":{},"i:0":{},"i:1":{}}"#,
        ),
        (
            r#"{"k:{\"n\":10}":{},"k:{\"n\":9}":{},"k:{\"n\":\"9\"}":{},"k:{\"m\":1,\"n\":0}":{}}"#,
            r#"{"k:{\"m\":1,\"n\":0}":{},"k:{\"n\":9}":{},"k:{\"n\":10}":{},"k:{\"n\":\"9\"}":{}}"#,
        ),
        (r#"{"f:a\"b\\c":{}}"#, r#"{"f:a\"b\\c":{}}"#),
        (r#"{"f:a<b":{},"v:\"a<b\"":{}}"#, r#"{"f:a<b":{},"v:\"a\\u003cb\"":{}}"#),
    ] {
        assert_eq!(parse(text).to_text(), expected, "{text}");
    }
}

#[test]
fn broken_texts_are_refused() {
    for text in [
        "",
        "[]",
        "{",
        r#"{"a":{}}"#,
        r#"{"fa":{}}"#,
        r#"{"f:a":1}"#,
        r#"{"k:{a":{}}"#,
        r#"{"i:x":{}}"#,
        "{} {}",
        r#"{"f:a"}"#,
        r#"{"f:a":{}"#,
        "{\"f:a\\",
    ] {
        assert!(Set::parse(text).is_err(), "{text}");
    }
    let deep = format!("{}{}", r#"{"f:a":"#.repeat(1000), "}".repeat(1000));
    assert!(Set::parse(&deep).is_err());
}

#[test]
fn set_arithmetic() {
    let a = parse(r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:d":{}}"#);
    let b = parse(r#"{"f:a":{"f:b":{}},"f:d":{"f:e":{}}}"#);
    for (result, expected) in [
        (a.union(&b), r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:d":{".":{},"f:e":{}}}"#),
        (a.difference(&b), r#"{"f:a":{".":{},"f:c":{}},"f:d":{}}"#),
        (b.difference(&a), r#"{"f:d":{"f:e":{}}}"#),
        (b.recursive_difference(&a), "{}"),
        (a.intersection(&b), r#"{"f:a":{"f:b":{}}}"#),
        (a.leaves(), r#"{"f:a":{"f:b":{},"f:c":{}},"f:d":{}}"#),
        (a.difference(&a), "{}"),
    ] {
        assert_eq!(result.to_text(), expected);
    }
    assert_eq!(a.paths(usize::MAX), [".a", ".d", ".a.b", ".a.c"]);
    assert_eq!((a.size(), b.size()), (4, 2));
    let field = |name: &str| Element::Field(name.into());
    assert!(a.contains(&[field("a")]) && !b.contains(&[field("a")]));
    assert!(b.contains(&[field("a"), field("b")]) && !b.contains(&[]));
}

#[test]
fn only_what_is_below_a_prefix_is_kept() {
    let any = |names: &[&str]| {
        let step = |name: &&str| (*name != "*").then(|| Element::Field((*name).into()));
        names.iter().map(step).collect::<Vec<_>>()
    };
    let filter = Filter::Include(vec![any(&["spec", "containers", "*", "resources"])]);
    let mut set = parse(
        r#"{"f:metadata":{"f:labels":{}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{},"f:resources":{"f:limits":{}}}}}}"#,
    );
    filter.retain(&mut set);
    assert_eq!(set.paths(usize::MAX), [r#".spec.containers[name="c"].resources.limits"#]);
}

/// A small generator of random numbers, so that failures repeat.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn element(&mut self) -> Element {
        let name: Str = ["a", "b", "c\"d", "ü"][self.roll(4) as usize].into();
        match self.roll(5) {
            0 => Element::Key(vec![("k".into(), Value::String(name)), ("n".into(), Value::Int(1))].into()),
            1 => Element::Value(Value::String(name)),
            2 => Element::Value(Value::Int(self.roll(12) as i64)),
            _ => Element::Field(name),
        }
    }

    fn set(&mut self) -> Set {
        let mut set = Set::new();
        for _ in 0..self.roll(12) {
            let length = 1 + self.roll(3);
            let path: Vec<Element> = (0..length).map(|_| self.element()).collect();
            set.insert(&path);
        }
        set
    }
}

#[test]
fn random_sets_read_back_and_obey_set_algebra() {
    let mut dice = Dice(7);
    for _ in 0..2000 {
        let (a, b) = (dice.set(), dice.set());
        let text = a.to_text();
        assert_eq!(Set::parse(&text).unwrap(), a);
        let (union, both, only_a) = (a.union(&b), a.intersection(&b), a.difference(&b));
        assert_eq!(union, b.union(&a));
        assert_eq!(both.union(&only_a), a);
        assert_eq!(union.difference(&b), only_a);
        assert_eq!(union.size(), a.size() + b.size() - both.size());
        assert_eq!(overlap(&text, &b).unwrap().shared, both.size(), "{text} {}", b.to_text());
    }
}

#[test]
fn a_text_is_compared_without_being_read() {
    let text = r#"{"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}},"f:e":{}}"#;
    for (set, shared, deeper) in [
        (r#"{"f:x":{}}"#, 0, false),
        (r#"{"f:a":{".":{},"f:b":{}}}"#, 2, false),
        (r#"{"f:a":{}}"#, 1, true),
        (r#"{"f:c":{}}"#, 0, true),
        (r#"{"f:e":{"f:f":{}}}"#, 0, false),
    ] {
        assert_eq!(overlap(text, &parse(set)).unwrap(), Overlap { shared, deeper }, "{set}");
    }
}

#[test]
fn damaged_texts_never_panic() {
    let mut dice = Dice(11);
    let damage = [b'{', b'}', b'"', b'\\', b':', b',', b' ', b'u', b'n', b'0'];
    for _ in 0..5000 {
        let mut text = dice.set().to_text().to_string().replace('ü', "u").into_bytes();
        for _ in 0..=dice.roll(2) {
            let at = dice.roll(text.len() as u64) as usize;
            match dice.roll(3) {
                0 => text.truncate(at.max(1)),
                1 => text.insert(at, damage[dice.roll(10) as usize]),
                _ => text[at] = damage[dice.roll(10) as usize],
            }
        }
        let text = String::from_utf8(text).unwrap();
        let read = Set::parse(&text);
        let scanned = overlap(&text, &dice.set());
        assert!(read.is_err() || scanned.is_ok(), "{text}");
    }
}
