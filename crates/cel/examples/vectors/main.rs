//! Runs the conformance tests of the language: `vectors DIR`, where DIR has the files of `tests/simple/testdata`.
//!
//! Tests of features that upstream's API server does not enable are skipped, with the reason. Prints the numbers for
//! each file and the names of failed tests; the exit code is 1 if one failed.

mod expect;
mod textproto;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use corten_cel::parser::BINDINGS;
use corten_cel::{Environment, Type, Value};
use textproto::{Message, parse};

/// Files of libraries and features that upstream's API server does not enable.
const DISABLED: [(&str, &str); 9] = [
    ("block_ext", "blocks"),
    ("encoders_ext", "encoders library"),
    ("enums", "enums"),
    ("math_ext", "math library"),
    ("network_ext", "network library"),
    ("proto2", "messages"),
    ("proto2_ext", "messages"),
    ("proto3", "messages"),
    ("wrappers", "messages"),
];

/// Tests, by file and the start of their section and name, in which upstream differs from the specification.
const DIFFERENT: [(&str, &str, &str); 10] = [
    ("fields", "map_fields/map_bad_key_type_", "constant keys that fail when compiled"),
    ("fields", "qualified_identifier_resolution/map_key_float", "keys of maps"),
    ("fields", "qualified_identifier_resolution/map_value_repeat_key", "keys of maps"),
    ("optionals", "optionals/map_null_entry_no_such_key", "fields of optional values"),
    ("optionals", "optionals/map_present_key_invalid_field", "fields of optional values"),
    ("string_ext", "format", "newer strings library"),
    ("string_ext", "reverse/", "newer strings library"),
    ("string_ext", "value_errors/indexof_out_of_range", "newer strings library"),
    ("string_ext", "value_errors/lastindexof_out_of_range", "newer strings library"),
    (
        "type_deduction",
        "legacy_nullable_types/null_assignable_to_abstract_parameter_candidate",
        "types of null",
    ),
];

enum Verdict {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: Vec<String>,
    skipped: BTreeMap<&'static str, usize>,
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: vectors DIR");
        return ExitCode::from(2);
    };
    match run(Path::new(&folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Returns true if no test failed.
fn run(folder: &Path) -> Result<bool, String> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "textproto"));
    files.sort();
    if files.is_empty() {
        return Err(format!("no *.textproto in {}", folder.display()));
    }
    let environment = Environment::stored().with_library(&[], BINDINGS);
    let mut total = Counts::default();
    for path in &files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let file = parse(&text).map_err(|error| format!("{name}: {error}"))?;
        let counts = run_file(&name, &file, &environment);
        print_counts(&name, &counts);
        total.passed += counts.passed;
        total.failed.extend(counts.failed);
        for (reason, count) in counts.skipped {
            *total.skipped.entry(reason).or_default() += count;
        }
    }
    print_counts("total", &Counts { failed: Vec::new(), ..total });
    println!("failed: {}", total.failed.len());
    Ok(total.failed.is_empty())
}

fn print_counts(name: &str, counts: &Counts) {
    let skipped: usize = counts.skipped.values().sum();
    println!(
        "{name}: {} passed, {} failed, {skipped} skipped {:?}",
        counts.passed,
        counts.failed.len(),
        counts.skipped
    );
    for failure in &counts.failed {
        println!("  {failure}");
    }
}

fn run_file(name: &str, file: &Message, environment: &Environment) -> Counts {
    let mut counts = Counts::default();
    let disabled = DISABLED.iter().find(|(file, _)| *file == name).map(|(_, reason)| *reason);
    for section in file.messages("section") {
        for test in section.messages("test") {
            let id = [section.text("name"), test.text("name")].map(Option::unwrap_or_default).join("/");
            let different = DIFFERENT.iter().find(|(file, start, _)| *file == name && id.starts_with(start));
            let different = different.map(|(_, _, reason)| *reason);
            let verdict = disabled.map_or_else(|| run_test(test, environment), Verdict::Skipped);
            match (verdict, different) {
                (Verdict::Passed, _) => counts.passed += 1,
                (Verdict::Skipped(reason), _) | (Verdict::Failed(_), Some(reason)) => {
                    *counts.skipped.entry(reason).or_default() += 1;
                }
                (Verdict::Failed(message), None) => counts.failed.push(format!("{id}: {message}")),
            }
        }
    }
    counts
}

fn run_test(test: &Message, environment: &Environment) -> Verdict {
    let expr = test.text("expr").unwrap_or_default();
    if let Some(reason) = disabled(test, &expr) {
        return Verdict::Skipped(reason);
    }
    let mut variables = Vec::new();
    for declaration in test.messages("type_env") {
        let ty = declaration
            .message("ident")
            .and_then(|ident| ident.message("type"))
            .and_then(expect::declared_type);
        match (declaration.text("name"), ty) {
            (Some(name), Some(ty)) => variables.push((Arc::from(name), ty)),
            _ => return Verdict::Skipped("declarations"),
        }
    }
    let bindings: Vec<(String, Value<'static>)> = match bindings(test) {
        Some(bindings) => bindings,
        None => return Verdict::Skipped("messages"),
    };
    for (name, _) in &bindings {
        if !variables.iter().any(|(known, _): &(Arc<str>, Type)| **known == **name) {
            variables.push((Arc::from(name.as_str()), Type::Dyn));
        }
    }
    // Upstream rejects some valid expressions, such as lists of mixed types.
    let environment = environment.with_variables(variables).without_validators();
    let checked = match environment.check(&expr) {
        Ok(checked) => checked,
        Err(issues) => return expect::refused(test, &issues.to_string()),
    };
    if let Some(expected) = test.message("typed_result").and_then(|result| result.message("deduced_type")) {
        match expect::declared_type(expected) {
            Some(ty) if ty == *checked.output() => {}
            Some(ty) => return Verdict::Failed(format!("type {} instead of {ty}", checked.output())),
            None => return Verdict::Skipped("messages"),
        }
    }
    if test.flag("check_only") {
        return Verdict::Passed;
    }
    let program = match environment.program(&checked) {
        Ok(program) => program,
        Err(message) => return expect::refused(test, &message),
    };
    let values: Vec<Option<Value<'_>>> = environment
        .variables()
        .iter()
        .map(|(name, _)| bindings.iter().find(|(known, _)| **known == **name).map(|(_, value)| value.clone()))
        .collect();
    expect::compare(test, &program.eval(&values, 10_000_000).value)
}

fn bindings(test: &Message) -> Option<Vec<(String, Value<'static>)>> {
    let value = |binding: &Message| expect::value(binding.message("value")?.message("value")?);
    test.messages("bindings").map(|binding| Some((binding.text("key")?, value(binding)?))).collect()
}

/// The reason why a test does not apply.
fn disabled(test: &Message, expr: &str) -> Option<&'static str> {
    if test.text("container").is_some_and(|container| !container.is_empty()) {
        return Some("containers");
    }
    let messages = ["TestAllTypes", "google.protobuf.", "NestedTestAllTypes", "GlobalEnum", "cel.expr."];
    if messages.iter().any(|name| expr.contains(name))
        && !expr.contains("google.protobuf.Timestamp)")
        && !expr.ends_with("google.protobuf.Timestamp")
        && !expr.ends_with("google.protobuf.Duration")
    {
        return Some("messages");
    }
    None
}
