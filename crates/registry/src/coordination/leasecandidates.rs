//! Lease candidates: possible holders of a lease.

use std::cmp::Ordering;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::coordination::strategy::{OLDEST, validate_strategy};
use crate::rules::{NameRule, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};
use crate::validation::fields::{immutable, part};
use crate::validation::text::complain;

pub(crate) const RULES: Rules = Rules {
    group: "coordination.k8s.io",
    resource: "leasecandidates",
    storage_version: "v1beta1",
    storage_prefix: "leasecandidates",
    name: NameRule::Any,
    qualified_finalizers: false,
    validate_create,
    validate_update,
    unconditional_update: false,
    create_on_update: true,
    columns: &[
        NAME,
        text("LeaseName", "The lease it would take.")
            .of("coordination/v1alpha2.LeaseCandidateSpec", "leaseName"),
        text("BinaryVersion", ""),
        text("EmulationVersion", ""),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let spec = |key: &str| str_at(object, &["spec", key]);
    cells![
        name(object),
        spec("leaseName"),
        spec("binaryVersion"),
        spec("emulationVersion"),
        age(object, context)
    ]
}

const SPEC: Field<'static> = Field::new("spec");

fn validate_create(candidate: &Value, errors: &mut ErrorList) {
    let metadata = Field::new("metadata");
    let name = str_at(candidate, &["metadata", "name"]);
    if !name.is_empty() {
        complain(&metadata.child("name"), name, names::config_map_key(name), errors);
    }
    validate(candidate, errors);
}

fn validate_update(candidate: &Value, old: &Value, errors: &mut ErrorList) {
    validate(candidate, errors);
    immutable(part(candidate, "spec"), part(old, "spec"), "leaseName", &SPEC, errors);
}

fn validate(candidate: &Value, errors: &mut ErrorList) {
    let spec = |key: &str| str_at(candidate, &["spec", key]);
    if spec("leaseName").is_empty() {
        errors.required(SPEC.child("leaseName"), "");
    }
    let emulated = validate_version(spec("emulationVersion"), &SPEC.child("emulationVersion"), errors);
    let binary = spec("binaryVersion");
    if binary.is_empty() {
        errors.required(SPEC.child("binaryVersion"), "");
    }
    let version = validate_version(binary, &SPEC.child("binaryVersion"), errors);
    let both = !binary.is_empty() && !spec("emulationVersion").is_empty();
    if both && version.unwrap_or_default().cmp(&emulated.unwrap_or_default()) == Ordering::Less {
        let why = "must be greater than or equal to `emulationVersion`";
        errors.invalid(SPEC.child("binaryVersion"), &Value::from(binary), why);
    }
    match spec("strategy") {
        "" => errors.required(SPEC.child("strategy"), ""),
        strategy => {
            if strategy == OLDEST && emulated.unwrap_or_default() == Version::default() {
                let why = "must be specified when `strategy` is 'OldestEmulationVersion'";
                errors.required(SPEC.child("emulationVersion"), why);
            }
            validate_strategy(strategy, &SPEC.child("strategy"), errors);
        }
    }
}

/// Major, minor, patch.
type Version = [u64; 3];

/// The numbers of a semantic version, if there is one.
fn validate_version(text: &str, at: &Field<'_>, errors: &mut ErrorList) -> Option<Version> {
    if text.is_empty() {
        return None;
    }
    let version = parse_version(text);
    if version.is_none() {
        errors.invalid(at, &Value::from(text), "must be a valid semantic version");
    }
    version
}

fn parse_version(text: &str) -> Option<Version> {
    let core = text.split(['-', '+']).next()?;
    let mut version = Version::default();
    let mut parts = core.split('.');
    for slot in &mut version {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || (part.len() > 1 && part.starts_with('0')) {
            return None;
        }
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(version)
}
