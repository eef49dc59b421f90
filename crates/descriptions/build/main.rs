//! Writes the descriptions that `corten-descriptions` embeds: `descriptions.bin`, the deflated blocks, and
//! `blocks.rs`, a table of their positions.
//!
//! Takes the JSON schema of every type of `k8s-openapi`, and keeps of each only its own description and those of its
//! fields. `k8s-openapi` has one generic list type without a schema, so lists are described here.
//!
//! Invariant: the output depends on nothing but the version of `k8s-openapi`.

#[path = "../src/format.rs"]
mod format;
mod roots;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use schemars::SchemaGenerator;
use serde_json::Value;

use format::{RECORD_END, UNIT_END};

/// A kind that can be listed.
pub(crate) struct Listable {
    /// In full: `io.k8s.api.core.v1.Pod`.
    type_name: String,
    kind: &'static str,
    list_kind: &'static str,
}

/// Description by (type without group, field), for one group; the type's own is under the empty field.
type Group = BTreeMap<(String, String), String>;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/format.rs");

    let mut generator = SchemaGenerator::default();
    let listables = roots::visit(&mut generator);
    let mut groups = BTreeMap::<String, Group>::new();
    for (type_name, schema) in generator.definitions() {
        let (group, name) = split(type_name)?;
        describe(groups.entry(group.to_owned()).or_default(), name, schema);
    }
    for listable in &listables {
        let (group, _) = split(&listable.type_name)?;
        describe_list(groups.entry(group.to_owned()).or_default(), listable);
    }
    describe_watch_event(groups.entry("io.k8s.apimachinery.pkg.apis.meta.v1".to_owned()).or_default());
    write_blocks(&groups)
}

/// Splits a full name into its group and the rest.
fn split(type_name: &str) -> Result<(&str, &str), String> {
    type_name.rsplit_once('.').ok_or_else(|| format!("{type_name} is not the full name of a type"))
}

fn describe(group: &mut Group, name: &str, schema: &Value) {
    let description = |schema: &Value| schema["description"].as_str().map(str::to_owned);
    group.insert((name.to_owned(), String::new()), description(schema).unwrap_or_default());
    let fields = schema["properties"].as_object().into_iter().flatten();
    for (field, schema) in fields {
        if let Some(description) = description(schema) {
            group.insert((name.to_owned(), field.clone()), description);
        }
    }
}

fn describe_list(group: &mut Group, listable: &Listable) {
    let Listable { kind, list_kind, .. } = listable;
    let mut insert =
        |field: &str, description| group.insert(((*list_kind).to_owned(), field.to_owned()), description);
    insert("", format!("{list_kind} is a list of {kind} objects."));
    insert("items", format!("List of {kind} objects."));
    insert("metadata", "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds".to_owned());
    for field in ["apiVersion", "kind"] {
        if let Some(same) = group.get(&((*kind).to_owned(), field.to_owned())).cloned() {
            group.insert(((*list_kind).to_owned(), field.to_owned()), same);
        }
    }
}

/// The object of `k8s-openapi`'s watch event is generic, and has no description.
fn describe_watch_event(group: &mut Group) {
    let text = "The object after the change, or its last state if it was deleted. With type BOOKMARK only its resource \
                version is meaningful; with type ERROR it is usually a Status.";
    group.entry(("WatchEvent".to_owned(), "object".to_owned())).or_insert_with(|| text.to_owned());
}

fn write_blocks(groups: &BTreeMap<String, Group>) -> Result<(), Box<dyn Error>> {
    let mut blob = Vec::new();
    let mut table = String::from("&[\n");
    for (name, group) in groups {
        let text = encode(group)?;
        let start = blob.len();
        let mut encoder = DeflateEncoder::new(&mut blob, Compression::best());
        encoder.write_all(text.as_bytes())?;
        encoder.finish()?;
        let (end, inflated_len) = (blob.len(), text.len());
        writeln!(
            table,
            "Block {{ group: {name:?}, start: {start}, end: {end}, inflated_len: {inflated_len} }},"
        )?;
    }
    table.push(']');
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is set by cargo")?);
    std::fs::write(out.join("descriptions.bin"), blob)?;
    std::fs::write(out.join("blocks.rs"), table)?;
    Ok(())
}

fn encode(group: &Group) -> Result<String, String> {
    let mut text = String::new();
    for ((type_name, field), description) in group {
        for unit in [type_name, field, description] {
            if unit.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
                return Err(format!("control character in what describes {type_name}.{field}"));
            }
        }
        text.push_str(type_name);
        text.push(UNIT_END);
        text.push_str(field);
        text.push(UNIT_END);
        text.push_str(description);
        text.push(RECORD_END);
    }
    Ok(text)
}
