//! The built-in types, read from the text table in `schema/`.
//!
//! One block per type, one indented line per field in the order of upstream's Go type: `name protobuf-path type attribute…`. Attributes:
//! `req`, `default=JSON`, `list=atomic|set|map(keys)`, `map=atomic|granular`, `patch=strategies:mergeKey`,
//! `enum=a,b` (`~` is a space), `ptr` (a pointer upstream: zero differs from absent), `keep` (encoded even when
//! zero), `zero` (OpenAPI shows an empty default), `go=type` (the Go type where it has its own name; `~` is a space),
//! `in=struct` (the embedded struct that has the field), `off` (the field's feature gate is off); on a type, `map=atomic`, `union(discriminator:members)` and
//! `required(fields)` (the order of required fields where it is not that of their numbers). The table is part of the program: a line that
//! cannot be read is a bug caught by this module's tests, not an input error.

use std::collections::HashMap;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::{
    AnyForm, Field, GoField, Kind, ListTopology, MapTopology, OpenApiFacts, PatchStrategy, StatedTopology,
    Struct, StructRef, Union,
};
use crate::json;
use crate::value::Str;

macro_rules! sources {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../../schema/", $name, ".types")))),*] };
}

const SOURCES: &[(&str, &str)] = sources![
    "admissionregistration.v1",
    "admissionregistration.v1alpha1",
    "admissionregistration.v1beta1",
    "apiextensions.v1",
    "apiregistration.v1",
    "apiserverinternal.v1alpha1",
    "apps.v1",
    "authentication.v1",
    "authorization.v1",
    "autoscaling.v1",
    "autoscaling.v2",
    "batch.v1",
    "certificates.v1",
    "certificates.v1beta1",
    "coordination.v1",
    "coordination.v1alpha2",
    "coordination.v1beta1",
    "core.v1",
    "discovery.v1",
    "events.v1",
    "flowcontrol.v1",
    "lifecycle.v1alpha1",
    "meta.v1",
    "metrics.v1",
    "metrics.v1beta1",
    "networking.v1",
    "node.v1",
    "policy.v1",
    "rbac.v1",
    "resource.v1",
    "resource.v1alpha3",
    "resource.v1beta1",
    "resource.v1beta2",
    "scheduling.v1",
    "scheduling.v1alpha3",
    "scheduling.v1beta1",
    "storage.v1",
    "storagemigration.v1",
    "storagemigration.v1beta1",
    "version",
];

struct Table {
    structs: HashMap<(&'static str, &'static str), &'static OnceLock<Struct>>,
    packages: Vec<String>,
}

/// The built-in type `name` of a package such as `core/v1`.
pub fn lookup(package: &str, name: &str) -> Option<StructRef> {
    let table = table();
    // The map's keys are 'static; a lookup with shorter-lived text needs the same shape of key.
    table.structs.get(&(package, name)).map(|cell| StructRef::BuiltIn(cell))
}

/// Package and name of every built-in type.
pub fn struct_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    table().structs.keys().copied()
}

/// Differs whenever the table differs.
pub(crate) fn fingerprint() -> &'static [u8; 32] {
    static FINGERPRINT: OnceLock<[u8; 32]> = OnceLock::new();
    FINGERPRINT.get_or_init(|| {
        let mut digest = Sha256::new();
        for (name, text) in SOURCES {
            digest.update(name);
            digest.update(text);
        }
        digest.finalize().into()
    })
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(read)
}

fn read() -> Table {
    let mut table = Table { structs: HashMap::new(), packages: Vec::new() };
    for (file, text) in SOURCES {
        let package: &'static str = Box::leak(file.replace('.', "/").into_boxed_str());
        table.packages.push(package.to_owned());
        for line in text.lines().filter(|l| !l.starts_with(' ') && !l.is_empty()) {
            let name = line.split(' ').next().unwrap_or_default();
            table.structs.insert((package, name), Box::leak(Box::new(OnceLock::new())));
        }
    }
    for (i, (_, text)) in SOURCES.iter().enumerate() {
        let package = table.packages[i].clone();
        let mut lines = text.lines().peekable();
        while let Some(head) = lines.next() {
            let mut fields = Vec::new();
            let mut go_fields = Vec::new();
            while let Some(line) = lines.next_if(|l| l.starts_with(' ')) {
                fields.push(field(&table, &package, line));
                go_fields.push(line);
            }
            define(&table, &package, head, fields, &go_fields);
        }
    }
    table
}

fn define(table: &Table, package: &str, head: &str, fields: Vec<Field>, lines: &[&str]) {
    let mut words = head.split(' ');
    let name = words.next().unwrap_or_default();
    let mut made = Struct::new(package.into(), name.into(), fields);
    for word in words {
        match word.split_once(['(', '=']) {
            Some(("union", rest)) => made.union = Some(union(rest.trim_end_matches(')'))),
            Some(("required", rest)) => made.required_order = names(rest.trim_end_matches(')')),
            Some(("map", text)) => made.stated_topology = map_topology(text),
            _ => {}
        }
    }
    made.go_fields = lines.iter().filter_map(|line| go_field(&made, line)).collect();
    made.atomic = made.stated_topology == StatedTopology::Map(MapTopology::Atomic);
    let cell = table.structs.get(&(package, name)).expect("every head was declared");
    cell.set(made).expect("a type is defined once");
}

fn union(text: &str) -> Union {
    let (discriminator, members) = match text.split_once(':') {
        Some((discriminator, members)) => (Some(discriminator.into()), members),
        None => (None, text),
    };
    Union { discriminator, members: names(members) }
}

fn names(text: &str) -> Vec<Str> {
    text.split(',').map(Str::from).collect()
}

fn field(table: &Table, package: &str, line: &str) -> Field {
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default();
    let (name, numbers, kind) = (word(), word(), word());
    let mut field = Field {
        name: name.into(),
        kind: self::kind(table, package, kind),
        numbers: numbers.split('.').filter_map(|n| n.parse().ok()).collect(),
        required: false,
        default: None,
        pointer: false,
        keep: false,
        patch: PatchStrategy::default(),
        enum_values: Vec::new(),
        openapi: OpenApiFacts::default(),
    };
    for attribute in words {
        match attribute.split_once('=').unwrap_or((attribute, "")) {
            ("req", _) => field.required = true,
            ("ptr", _) => field.pointer = true,
            ("keep", _) => field.keep = true,
            ("default", text) => {
                field.default = Some(json::parse(text.as_bytes()).expect("a default is JSON"))
            }
            ("zero", _) => field.openapi.empty_default = true,
            ("enum", text) => field.enum_values = names(&text.replace('~', " ")),
            ("patch", text) => field.patch = patch(text),
            ("list", text) => {
                field.openapi.topology = StatedTopology::List;
                if let Kind::List(_, topology) = &mut field.kind {
                    *topology = list_topology(text);
                }
            }
            ("map", text) => {
                field.openapi.topology = map_topology(text);
                if let (Kind::Map(_, topology), "atomic") = (&mut field.kind, text) {
                    *topology = MapTopology::Atomic;
                }
            }
            _ => {}
        }
    }
    field
}

fn go_field(owner: &Struct, line: &str) -> Option<GoField> {
    let mut words = line.split_whitespace();
    let position = owner.position(words.next()?)?;
    let attribute = |name: &str| {
        let text = words.clone().find_map(|word| word.strip_prefix(name))?;
        Some(text.replace('~', " ").into())
    };
    let disabled = words.clone().any(|word| word == "off");
    Some(GoField { position, type_name: attribute("go="), embedded: attribute("in="), disabled })
}

fn patch(text: &str) -> PatchStrategy {
    let (strategies, key) = text.split_once(':').unwrap_or((text, ""));
    let has = |strategy: &str| strategies.split(',').any(|s| s == strategy);
    PatchStrategy {
        merge: has("merge"),
        replace: has("replace"),
        retain_keys: has("retainKeys"),
        merge_key: (!key.is_empty()).then(|| key.into()),
    }
}

fn list_topology(text: &str) -> ListTopology {
    match text.strip_prefix("map(") {
        Some(keys) => ListTopology::Map(names(keys.trim_end_matches(')'))),
        None if text == "set" => ListTopology::Set,
        None => ListTopology::Atomic,
    }
}

fn map_topology(text: &str) -> StatedTopology {
    StatedTopology::Map(if text == "atomic" { MapTopology::Atomic } else { MapTopology::Granular })
}

fn kind(table: &Table, package: &str, text: &str) -> Kind {
    if let Some(item) = text.strip_prefix('[') {
        return Kind::List(Box::new(kind(table, package, item.trim_end_matches(']'))), ListTopology::Atomic);
    }
    if let Some(item) = text.strip_prefix('{') {
        let item = item.strip_suffix('}').unwrap_or(item);
        return Kind::Map(Box::new(kind(table, package, item)), MapTopology::Granular);
    }
    match text {
        "string" => Kind::String,
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "quantity" => Kind::Quantity,
        "intstr" => Kind::IntOrString,
        "time" => Kind::Time,
        "microtime" => Kind::MicroTime,
        "duration" => Kind::Duration,
        "raw" => Kind::Raw,
        "fieldsv1" => Kind::FieldsV1,
        "any" | "object" => Kind::Any(AnyForm::Free),
        "JSON" => Kind::Any(AnyForm::Json),
        "JSONSchemaPropsOrArray" => Kind::Any(AnyForm::SchemaOrArray),
        "JSONSchemaPropsOrBool" => Kind::Any(AnyForm::SchemaOrBool),
        "JSONSchemaPropsOrStringArray" => Kind::Any(AnyForm::SchemaOrStringArray),
        name => {
            let (package, name) = match name.rsplit_once('.') {
                Some((package, name)) => (package, name),
                None => (package, name),
            };
            let cell = table.structs.get(&(package, name));
            let cell = cell.unwrap_or_else(|| panic!("schema table: no type {package}.{name}"));
            Kind::Struct(StructRef::BuiltIn(cell))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_reads() {
        let count = struct_names()
            .filter(|(package, name)| !lookup(package, name).unwrap().fields.is_empty())
            .count();
        assert!(count > 800, "{count}");
    }

    #[test]
    fn a_pod_is_a_pod() {
        let pod = lookup("core/v1", "Pod").unwrap();
        let Kind::Struct(spec) = &pod.field("spec").unwrap().kind else { panic!("spec is a struct") };
        let containers = spec.field("containers").unwrap();
        assert_eq!(containers.numbers, [2]);
        assert!(containers.required && containers.patch.merge);
        let Kind::List(container, ListTopology::Map(keys)) = &containers.kind else { panic!("a list map") };
        assert_eq!(keys, &["name"]);
        let Kind::Struct(container) = &**container else { panic!("of structs") };
        let Kind::List(_, ListTopology::Map(keys)) = &container.field("ports").unwrap().kind else {
            panic!("a list map")
        };
        assert_eq!(keys, &["containerPort", "protocol"]);
        let volume = lookup("core/v1", "Volume").unwrap();
        assert_eq!(volume.field("awsElasticBlockStore").unwrap().numbers, [2, 4]);
    }
}
