//! Tests of the codec.

use bytes::Bytes;
use std::collections::BTreeMap;

use super::*;

messages! {
    Outer {
        1 text: String, 2 number: i64, 3 list: Vec<i64>, 4 inner: Vec<Inner>, 5 map: BTreeMap<String, String>,
        6 kind: Kind, 7 bytes: Bytes, 16 limit: Option<i64>,
    }
    Inner { 1 on: bool }
    Tree { 1 branch: Option<Box<Tree>> }
}

enumerations! {
    Kind { 0 Small, 1 Large }
}

choices! {
    Picked { 1 Number(i64), 2 Text(Bytes), 3 Tree(Box<Outer>) }
}

#[test]
fn messages_come_back_as_they_went() {
    let outer = Outer {
        text: "hello".to_owned(),
        number: -2,
        list: vec![1, 300, -1],
        inner: vec![Inner { on: true }, Inner { on: false }],
        map: [("a".to_owned(), "b".repeat(200))].into(),
        kind: Kind::Other(7),
        bytes: Bytes::from_static(b"\xff\0"),
        limit: Some(0),
    };
    assert_eq!(Outer::decode(&outer.encode()), Some(outer));
    assert_eq!(Outer::default().encode(), b"");
}

#[test]
fn bytes_are_protobufs() {
    let outer = Outer { text: "hi".to_owned(), number: 150, limit: Some(7), ..Outer::default() };
    assert_eq!(outer.encode(), [0x0a, 2, b'h', b'i', 0x10, 0x96, 1, 0x82, 1, 2, 8, 7]);
    assert_eq!(Outer::decode(&[0x18, 5, 0xf8, 7, 1]), Some(Outer { list: vec![5], ..Outer::default() }));
    for wrong in [&[0x0a, 9][..], &[0x0b], &[0x08], &[0xff; 12], &[0x00, 0x00]] {
        assert_eq!(Outer::decode(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_choice_is_written_also_if_it_is_a_default_and_the_last_one_wins() {
    for picked in [Picked::Number(0), Picked::Text(Bytes::new()), Picked::Tree(Box::default())] {
        assert_eq!(Picked::decode(&picked.encode()), Some(picked));
    }
    assert_eq!(Picked::decode(&[0x08, 1, 0x12, 1, b'a']), Some(Picked::Text(Bytes::from_static(b"a"))));
    assert_eq!(Picked::decode(b""), Some(Picked::None));
}

#[test]
fn a_message_that_occurs_twice_is_merged() {
    let mut bytes = Picked::Tree(Box::new(Outer { number: 1, ..Outer::default() })).encode();
    bytes.extend([0x82, 1, 2, 8, 7, 0x82, 1, 0]);
    assert_eq!(Outer::decode(&bytes[2..]).map(|outer| (outer.number, outer.limit)), Some((1, Some(7))));
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: u32| {
        let mut bytes = Vec::new();
        for _ in 0..levels {
            let mut outer = Vec::new();
            put_bytes(1, &bytes, &mut outer);
            bytes = outer;
        }
        Tree::decode(&bytes).is_some()
    };
    assert!(nested(u32::from(MAX_DEPTH)));
    assert!(!nested(u32::from(MAX_DEPTH) + 1));
    assert!(!nested(5_000));
}
