//! Protobuf against upstream's bytes, against itself for every type, and against invalid bytes.

mod samples;

use corten_api::conform::{Extent, conform};
use corten_api::protobuf::{self, DecodeError};
use corten_api::schema::{self, Struct};
use corten_api::{Value, json, resources, value};

const FIXTURES: &str = include_str!("fixtures/protobuf.tsv");

fn fixtures() -> impl Iterator<Item = (&'static str, Value, Vec<u8>)> {
    FIXTURES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().expect("three columns");
        (next(), json::parse(next().as_bytes()).expect("a fixture is JSON"), unhex(next()))
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

fn conformed(mut value: Value, schema: &Struct) -> Value {
    conform(&mut value, schema, Extent::Whole, &mut Vec::new()).expect("it conforms");
    value
}

fn schema_of(value: &Value) -> schema::StructRef {
    let (group, version) =
        resources::split_api_version(value.str_at(&["apiVersion"]).expect("an apiVersion"));
    let kind = value.str_at(&["kind"]).expect("a kind");
    resources::schema_of(group, version, kind).expect("a built-in type")
}

#[test]
fn upstream_bytes_are_ours_both_ways() {
    for (name, object, bytes) in fixtures() {
        let schema = schema_of(&object);
        let mut ours = Vec::new();
        protobuf::encode_object(&schema, &object, &mut ours).unwrap();
        assert_eq!(ours, bytes, "{name} is written as upstream writes it");
        let read = protobuf::decode_object(&bytes).unwrap();
        assert_eq!(conformed(read, &schema), conformed(object, &schema), "{name} reads back");
    }
}

#[test]
fn every_type_survives_the_round_trip() {
    let mut names: Vec<_> = schema::struct_names().collect();
    names.sort_unstable();
    for (package, name) in names {
        let schema = schema::lookup(package, name).unwrap();
        if schema.fields.is_empty() {
            continue;
        }
        for (seed, percent) in [(1, 0), (2, 30), (3, 60), (4, 100), (5, 100)] {
            let object = samples::object(&schema, &mut samples::Random::new(seed), percent);
            let mut bytes = Vec::new();
            protobuf::encode(&schema, &object, &mut bytes).unwrap();
            let read = protobuf::decode(&schema, &bytes).unwrap();
            assert_eq!(conformed(read, &schema), object, "{package} {name}");
        }
    }
}

#[test]
fn a_list_is_made_of_its_items_messages() {
    let (_, list, bytes) = fixtures().find(|(name, ..)| *name == "podlist").unwrap();
    let pod = schema::lookup("core/v1", "Pod").unwrap();
    let items: Vec<Vec<u8>> = list
        .items_at(&["items"])
        .iter()
        .map(|item| {
            let mut out = Vec::new();
            protobuf::encode(&pod, item, &mut out).unwrap();
            out
        })
        .collect();
    let mut raw = Vec::new();
    let items = items.iter().map(Vec::as_slice);
    protobuf::encode_list_from_items(list.get("metadata").unwrap(), items, &mut raw).unwrap();
    let mut ours = Vec::new();
    protobuf::encode_envelope("v1", "PodList", &raw, &mut ours);
    assert_eq!(ours, bytes);
}

#[test]
fn every_list_has_its_metadata_and_items_where_the_list_writer_puts_them() {
    for resource in resources::all() {
        let kind = format!("{}List", resource.kind);
        let Some(list) = resources::schema_of(&resource.group, &resource.version, &kind) else { continue };
        assert_eq!(list.field("metadata").unwrap().numbers, [1], "{kind}");
        assert_eq!(list.field("items").unwrap().numbers, [2], "{kind}");
    }
}

#[test]
fn a_watch_frame_is_a_bare_event_around_an_enveloped_object() {
    let (_, object, bytes) = fixtures().find(|(name, ..)| *name == "secret").unwrap();
    let mut frame = Vec::new();
    protobuf::encode_watch_event("ADDED", &bytes, &mut frame);
    assert_eq!(frame[..4], u32::try_from(frame.len() - 4).unwrap().to_be_bytes());
    assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
    let event = protobuf::decode(&schema::lookup("meta/v1", "WatchEvent").unwrap(), &frame[4..]).unwrap();
    let secret = event.get("object").unwrap().clone();
    assert_eq!(event.str_at(&["type"]), Some("ADDED"));
    let schema = schema_of(&object);
    assert_eq!(conformed(secret, &schema), conformed(object, &schema));
}

#[test]
fn no_cut_and_no_flipped_byte_panics() {
    for (_, _, bytes) in fixtures() {
        for end in 0..bytes.len() {
            let _ = protobuf::decode_object(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] ^= flip;
                let _ = protobuf::decode_object(&broken);
            }
        }
    }
}

#[test]
fn invalid_messages_are_refused() {
    let pod = schema::lookup("core/v1", "Pod").unwrap();
    let decode = |bytes: &[u8]| protobuf::decode(&pod, bytes).unwrap_err();
    assert_eq!(decode(b"\x0a\x05ab"), DecodeError::UnexpectedEnd);
    assert_eq!(decode(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), DecodeError::UnexpectedEnd);
    assert_eq!(decode(&[0xff; 20]), DecodeError::Overflow);
    assert_eq!(decode(b"\x00\x00").to_string(), "proto: Pod: illegal tag 0 (wire type 0)");
    assert_eq!(decode(b"\x08\x01").to_string(), "proto: wrong wireType = 0 for field metadata");
    assert_eq!(decode(b"\x7c").to_string(), "proto: Pod: wiretype end group for non-group");
    assert_eq!(
        protobuf::decode_envelope(b"{}").unwrap_err().to_string(),
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    );
    assert_eq!(protobuf::decode_envelope(b"k8s\0").unwrap_err(), DecodeError::EmptyBody);
}

#[test]
fn unknown_fields_are_passed_over_groups_included() {
    let schema = schema::lookup("core/v1", "LocalObjectReference").unwrap();
    let bytes = b"\xfb\x07\x0b\x08\x01\x0c\x12\x01x\xfc\x07\xf8\x06\x01\x0a\x01n\xf1\x06abcdefgh\xf5\x06abcd";
    assert_eq!(protobuf::decode(&schema, bytes).unwrap(), value!({"name": "n"}));
}

#[test]
fn nesting_is_limited() {
    let schema = schema::lookup("apiextensions/v1", "JSONSchemaProps").unwrap();
    let mut bytes = Vec::new();
    for _ in 0..10_000 {
        // Field 28 is `not`, another schema.
        let mut outer = vec![0xe2, 0x01];
        let mut length = bytes.len();
        while length >= 0x80 {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.append(&mut bytes);
        bytes = outer;
    }
    assert_eq!(protobuf::decode(&schema, &bytes).unwrap_err(), DecodeError::TooDeep);
}

#[test]
fn repeated_messages_merge_and_repeated_scalars_do_not() {
    let meta = schema::lookup("core/v1", "Pod").unwrap();
    // metadata{name: a, namespace: x} and metadata{name: b}.
    let read = protobuf::decode(&meta, b"\x0a\x06\x0a\x01a\x1a\x01x\x0a\x03\x0a\x01b").unwrap();
    assert_eq!(read, value!({"metadata": {"name": "b", "namespace": "x"}}));
}

#[test]
fn packed_numbers_are_read_too() {
    let schema = schema::lookup("core/v1", "PodSecurityContext").unwrap();
    let number = schema.field("supplementalGroups").unwrap().numbers[0];
    let tag = (number << 3 | 2) as u8;
    let read = protobuf::decode(&schema, &[tag, 3, 1, 0x80, 1]).unwrap();
    assert_eq!(read, value!({"supplementalGroups": [1, 128]}));
}
