//! Every decoder on mutated seeds: the fuzz targets' checks, a few thousand times, always the same way.

#[path = "../../../fuzz/bodies/conformed.rs"]
mod conformed;
#[path = "../../../fuzz/bodies/envelope.rs"]
mod envelope;
#[path = "../../../fuzz/bodies/fieldsets.rs"]
mod fieldsets_body;
#[path = "../../../fuzz/bodies/json.rs"]
mod json_body;
#[path = "../../../fuzz/bodies/patches.rs"]
mod patches_body;
#[path = "../../../fuzz/bodies/protobuf.rs"]
mod protobuf_body;
#[path = "../../../fuzz/bodies/quantity.rs"]
mod quantity_body;
#[path = "samples/random.rs"]
mod random;
#[path = "../../../fuzz/bodies/selectors.rs"]
mod selectors_body;
#[path = "../../../fuzz/bodies/yaml.rs"]
mod yaml_body;

use corten_api::{json, yaml};
use random::Random;

const ROUNDS: u64 = 3000;

/// Fixtures as JSON and as protobuf in an envelope.
fn fixtures() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    include_str!("fixtures/protobuf.tsv").lines().filter(|line| !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let hex = columns[2];
        let bytes = (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex"))
            .collect();
        (columns[1], bytes)
    })
}

/// A copy of a seed with a few bytes changed, removed, doubled or taken from another one.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.pick(seeds).clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len().max(1));
        let length = random.below(16).min(bytes.len() - at.min(bytes.len()));
        match random.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
            2 => drop(bytes.drain(at..at + length)),
            3 => bytes.truncate(at),
            4 => {
                let doubled = bytes[at..at + length].to_vec();
                bytes.splice(at..at, doubled);
            }
            _ => {
                let other = random.pick(seeds);
                let from = random.below(other.len().max(1));
                let piece = other[from..(from + 32).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

fn run(seeds: &[Vec<u8>], check: fn(&[u8])) {
    for seed in seeds {
        check(seed);
    }
    for round in 0..ROUNDS {
        let input = mutated(seeds, &mut Random::new(round + 1));
        check(&input);
    }
}

#[test]
fn json_survives() {
    let seeds: Vec<Vec<u8>> = fixtures().map(|(text, _)| text.as_bytes().to_vec()).collect();
    run(&seeds, json_body::check);
}

#[test]
fn protobuf_survives() {
    let raw = |bytes: &[u8]| corten_api::protobuf::decode_envelope(bytes).unwrap().raw.to_vec();
    let seeds: Vec<Vec<u8>> = fixtures().map(|(_, bytes)| raw(&bytes)).collect();
    run(&seeds, protobuf_body::check);
}

#[test]
fn envelopes_survive() {
    let seeds: Vec<Vec<u8>> = fixtures().map(|(_, bytes)| bytes).collect();
    run(&seeds, envelope::check);
}

#[test]
fn yaml_survives() {
    let mut seeds: Vec<Vec<u8>> = fixtures()
        .map(|(text, _)| yaml::to_string(&json::parse(text.as_bytes()).unwrap()).into_bytes())
        .collect();
    for text in [
        "a: &x {k: 1}\nb: *x\nc: {<<: *x, l: [yes, 0x1F, ~, 1e3, 2024-01-02]}\n",
        "? complex\n: |+\n  text\n\n- x\n",
        "a: >-\n  folded\n  text\nb: \"q\\n\\u00e9\"\nc: 'it''s'\n",
        "!!str 1: !!float 2\n...\n---\nsecond\n",
    ] {
        seeds.push(text.into());
    }
    run(&seeds, yaml_body::check);
}

fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

#[test]
fn selectors_survive() {
    let seeds = [
        "a=b,c!=d,e in (x,y),!f,g notin (z),h>1,h<2",
        "metadata.name=x,spec.nodeName!=y\\,z",
        "example.com/key==value , other",
    ];
    run(&texts(&seeds), selectors_body::check);
}

#[test]
fn quantities_survive() {
    let seeds = ["100m", "1.5Gi", "1e3", "-0.5", "12345678901234567890Ei", "1E", "+1.000000001n"];
    run(&texts(&seeds), quantity_body::check);
}

#[test]
fn patches_survive() {
    let seeds = [
        r#"[{"op":"add","path":"/metadata/labels/x","value":"y"},{"op":"move","from":"/spec/volumes/0","path":"/spec/volumes/-"}]"#,
        r#"[{"op":"test","path":"/spec/containers/-1/name","value":"c"},{"op":"copy","from":"/metadata","path":"/m~1x"}]"#,
        r#"{"metadata":{"labels":{"a":null,"$patch":"replace"}},"spec":{"containers":[{"name":"c","$patch":"delete"}]}}"#,
        r#"{"spec":{"$setElementOrder/containers":[{"name":"d"},{"name":"c"}],"containers":[{"name":"d","image":"x"}],"volumes":[{"name":"v","$retainKeys":["name"]}]}}"#,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/b"],"finalizers":["c/d"]}}"#,
    ];
    run(&texts(&seeds), patches_body::check);
}

#[test]
fn field_sets_survive() {
    let seeds = [
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}}}}"#,
        r#"{"v:\"x\"":{},"i:3":{},"f:a":{"f:b":{}}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"c"}},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80},{"containerPort":80,"protocol":"UDP"}]}]}}"#,
    ];
    run(&texts(&seeds), fieldsets_body::check);
}
