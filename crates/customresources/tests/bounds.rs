//! The cost of every step is bounded by the sizes of schema and object: schemas and objects that are as expensive as
//! possible. See `crates/api/tests/bounds/meter.rs` for the measure.

#[path = "../../api/tests/bounds/meter.rs"]
mod meter;

use std::fmt::Write;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, json};
use corten_customresources::decode::{Options, decode};
use corten_customresources::jsonpath::{JsonPath, MissingKeys};
use corten_customresources::{Schema, Version, defaults, typed};
use meter::{excess, settle};

/// The schema of a field `a`, the field's value, and its previous value.
type Case = (String, String, String);

/// A name and the case of a size.
type NamedCase = (&'static str, fn(usize) -> Case);

const CASES: [NamedCase; 15] = [
    ("unknown fields", |n| {
        (
            "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\"}}}".into(),
            members(n, "1"),
            "{}".into(),
        )
    }),
    ("named fields", |n| {
        let properties = members(n, "{\"type\":\"string\",\"default\":\"d\",\"maxLength\":1}");
        (format!("{{\"type\":\"object\",\"properties\":{properties}}}"), members(n, "\"long\""), "{}".into())
    }),
    ("additional properties", |n| {
        let schema = "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}";
        (schema.into(), members(n, "\"x\""), members(n, "1"))
    }),
    ("items with errors", |n| {
        let schema = "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":5,\"enum\":[1,2]}}";
        (schema.into(), items(n, |_| "3.5".into()), items(n, |_| "4".into()))
    }),
    ("sets", |n| {
        let schema =
            "{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\",\"items\":{\"type\":\"string\"}}";
        (schema.into(), items(n, |i| format!("\"{}\"", i / 2)), items(n, |i| format!("\"{i}\"")))
    }),
    ("maps", |n| {
        let schema = "{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"k\"],\"items\":{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"integer\"},\"v\":{\"type\":\"string\",\"maxLength\":1}}}}";
        let item = |i: usize| format!("{{\"k\":{i},\"v\":\"long\"}}");
        (schema.into(), items(n, item), items(n, |i| item(n - i)))
    }),
    ("branches", |n| {
        let branches = items(n, |i| format!("{{\"minimum\":{i}}}"));
        (
            format!(
                "{{\"type\":\"integer\",\"anyOf\":{branches},\"oneOf\":{branches},\"allOf\":{branches}}}"
            ),
            "-1".into(),
            "0".into(),
        )
    }),
    ("enumerations", |n| {
        (
            format!("{{\"type\":\"string\",\"enum\":{}}}", items(n, |i| format!("\"e{i}\""))),
            "\"x\"".into(),
            "\"y\"".into(),
        )
    }),
    ("required fields", |n| {
        (
            format!("{{\"type\":\"object\",\"required\":{}}}", items(n, |i| format!("\"e{i}\""))),
            "{}".into(),
            "1".into(),
        )
    }),
    ("long texts", |n| {
        let schema =
            "{\"type\":\"string\",\"pattern\":\"^(a|ab|b*)*$\",\"maxLength\":5,\"format\":\"hostname\"}";
        (schema.into(), format!("\"{}!\"", "ab".repeat(n)), "\"\"".into())
    }),
    ("long formats", |n| {
        let formats = ["email", "uri", "duration", "date-time", "byte", "ipv6", "cidr", "creditcard", "isbn"];
        let branch = |format: &&str| format!("{{\"format\":\"{format}\"}}");
        let branches: Vec<String> = formats.iter().map(branch).collect();
        let schema = format!("{{\"type\":\"string\",\"allOf\":[{}]}}", branches.join(","));
        (schema, format!("\"{}\"", "a(1 h):".repeat(n)), "\"\"".into())
    }),
    ("default lists", |n| {
        let list = items(n, |_| "{}".into());
        (
            format!(
                "{{\"type\":\"object\",\"properties\":{{\"l\":{{\"type\":\"array\",\"default\":{list},\"items\":{{\"type\":\"object\",\"properties\":{{\"x\":{{\"type\":\"string\",\"default\":\"x\"}}}}}}}}}}}}"
            ),
            "{}".into(),
            "{}".into(),
        )
    }),
    ("embedded resources", |n| {
        let schema = "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,\"x-kubernetes-preserve-unknown-fields\":true}}";
        let item = |i: usize| {
            format!("{{\"metadata\":{{\"name\":\"/{i}\",\"zz\":1,\"labels\":{{\"a b\":\"c d\"}}}}}}")
        };
        (schema.into(), items(n, item), "[]".into())
    }),
    ("rules of items", |n| {
        let schema = "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"x-kubernetes-validations\":[{\"rule\":\"self > 1\"}]}}";
        let list = items(n, |i| (i % 2).to_string());
        (schema.into(), list.clone(), list)
    }),
    ("unchanged values with errors at every depth", |n| {
        let (mut schema, mut value) = (
            "{\"type\":\"array\",\"maxItems\":0,\"items\":{\"type\":\"integer\"}}".to_owned(),
            items(n, |i| i.to_string()),
        );
        for _ in 0..20 {
            schema = format!("{{\"type\":\"object\",\"minProperties\":2,\"properties\":{{\"x\":{schema}}}}}");
            value = format!("{{\"x\":{value}}}");
        }
        (schema, value.clone(), value)
    }),
];

fn members(n: usize, value: &str) -> String {
    let mut out = String::from("{");
    for i in 0..n {
        let comma = if i > 0 { "," } else { "" };
        write!(out, "{comma}\"field{i}\":{value}").expect("strings can be written to");
    }
    out + "}"
}

fn items(n: usize, item: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..n).map(item).collect::<Vec<_>>().join(","))
}

struct Input {
    version: Value,
    object: Value,
    old: Value,
    bytes: usize,
}

fn input(case: fn(usize) -> Case, n: usize) -> Input {
    let (schema, new, old) = case(n);
    let parse = |text: String| json::parse(text.as_bytes()).expect("is JSON");
    let bytes = schema.len() + new.len() + old.len();
    Input {
        version: parse(format!(
            "{{\"schema\":{{\"openAPIV3Schema\":{{\"type\":\"object\",\"properties\":{{\"a\":{schema}}}}}}}}}"
        )),
        object: parse(format!("{{\"kind\":\"K\",\"a\":{new}}}")),
        old: parse(format!("{{\"kind\":\"K\",\"a\":{old}}}")),
        bytes,
    }
}

fn all_steps(input: &Input) {
    let version = Version::compile(&Value::Null, &input.version).expect("is structural");
    let mut object = input.object.clone();
    let mut unknown = Vec::new();
    let _ = decode(&mut object, &version.schema, Options::STORED, Some(&mut unknown));
    let _ = version.set_defaults(&mut object);
    let mut errors = ErrorList::new();
    version.validate_create(&input.object, &mut errors);
    version.validate_update(&input.object, &input.old, &mut errors);
    version.validate_status_update(&input.object, &input.old, &mut errors);
    let schema = input.version.at(&["schema", "openAPIV3Schema"]).expect("is there");
    let schema = Schema::compile_unpruned(schema).expect("is structural");
    defaults::validate_defaults(&schema, true, &Field::ROOT, &mut errors);
    drop((errors.summary(), unknown, typed::resource_type(&schema, "g/v1", "K", false)));
}

#[test]
fn schemas_and_objects() {
    let complaints: Vec<String> = CASES
        .iter()
        .filter_map(|(name, case)| excess(name, 1_000, |n| input(*case, n), |input| input.bytes, all_steps))
        .collect();
    settle(&complaints);
}

#[test]
fn deep_schemas_and_objects() {
    let nested = |n: usize| {
        let (mut schema, mut value) = ("{\"type\":\"string\"}".to_owned(), "1".to_owned());
        for i in 0..n {
            let junctor = if i % 2 == 0 { "" } else { ",\"anyOf\":[{\"required\":[\"x\"]}]" };
            schema = format!(
                "{{\"type\":\"object\",\"properties\":{{\"x\":{schema}}},\"default\":{{}}{junctor}}}"
            );
            value = format!("{{\"x\":{value}}}");
        }
        (schema, value.clone(), value)
    };
    all_steps(&input(nested, 100));
}

#[test]
fn paths() {
    let object = input(CASES[12].1, 2_000).object;
    for template in [
        "{..*..*..*}",
        "{.a[*]..metadata..*}",
        "{range .a[*]}{range ..*}{range ..*}{@}{end}{end}{end}",
        "{.a[?(@.metadata.name==\"x\")]}",
        &"{range .a[*]}".repeat(1_000),
        &"{.a[0,1,2]}".repeat(1_000),
    ] {
        if let Ok(path) = JsonPath::parse(template) {
            let _ = path.execute(&object, MissingKeys::Allowed);
        }
    }
}

/// A schema of a hundred fields, as generators write them.
#[test]
fn a_schema_is_compact() {
    let property = |i: usize| {
        let schema = match i % 4 {
            0 => {
                "{\"type\":\"string\",\"description\":\"A long description of the field.\",\"maxLength\":63,\"pattern\":\"^[a-z]+$\"}"
            }
            1 => "{\"type\":\"integer\",\"format\":\"int32\",\"minimum\":0,\"default\":1}",
            2 => {
                "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}"
            }
            _ => "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}}",
        };
        format!("\"field{i}\":{schema}")
    };
    let properties: Vec<String> = (0..66).map(property).collect();
    let schema = format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", properties.join(","));
    let schema = json::parse(schema.as_bytes()).expect("is JSON");
    let held = meter::allocations::peak(|| Schema::compile(&schema));
    assert!(held < 30_000, "{held} bytes");
}

/// Patterns that are a few bytes each, and megabytes once compiled.
#[test]
fn patterns_are_compiled_within_budgets() {
    let pattern = |i: usize| format!("\\\\pL{{20}}x{i}");
    let texts = items(300, |i| format!("\"{}\"", pattern(i)));
    let schemas: [(&str, String, String); 3] = [
        (
            "patterns",
            format!(
                "{{\"type\":\"string\",\"allOf\":{}}}",
                items(300, |i| format!("{{\"pattern\":\"{}\"}}", pattern(i)))
            ),
            "\"x\"".into(),
        ),
        (
            "patterns of a rule's list",
            "{\"type\":\"array\",\"maxItems\":300,\"items\":{\"type\":\"string\",\"maxLength\":20},\"x-kubernetes-validations\":[{\"rule\":\"self.all(x, !'a'.matches(x))\"}]}".into(),
            texts.clone(),
        ),
        (
            "patterns of a rule of items",
            "{\"type\":\"array\",\"maxItems\":300,\"items\":{\"type\":\"string\",\"maxLength\":20,\"x-kubernetes-validations\":[{\"rule\":\"!'a'.matches(self)\"}]}}".into(),
            texts,
        ),
    ];
    for (name, schema, value) in schemas {
        let parse = |text: String| json::parse(text.as_bytes()).expect("is JSON");
        let version = parse(format!(
            "{{\"schema\":{{\"openAPIV3Schema\":{{\"type\":\"object\",\"properties\":{{\"a\":{schema}}}}}}}}}"
        ));
        let object = parse(format!("{{\"a\":{value}}}"));
        let version = Version::compile(&Value::Null, &version).expect("is structural");
        let mut errors = ErrorList::new();
        let held = meter::allocations::peak(|| version.validate_create(&object, &mut errors));
        assert!(held < 24 << 20, "{name}: {held} bytes");
        let refused = errors.causes().iter().any(|cause| cause.message.contains("expression too large"));
        assert!(refused, "{name}: {:?}", errors.summary());
    }
}
