//! Measures the validation rules of custom resources:
//! `cargo run --release -p corten-customresources --example rules`.
//!
//! With `-- --upstream`, which needs Go, the same run measures upstream's as well: the small program in `upstream/`
//! imports them as modules. Both evaluate the rules of `cases.json` as an API server does when an object is created:
//! compiled once, with costs counted.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use corten_api::status::ErrorList;
use corten_api::{Value, json};
use corten_customresources::Schema;
use corten_customresources::rules::Rules;

const CASES: &str = include_str!("cases.json");
const UPSTREAM: [(&str, &str); 3] = [
    ("go.mod", include_str!("upstream/go.mod")),
    ("main.go", include_str!("upstream/main.go")),
    ("cases.json", CASES),
];
/// The shortest measurement of a case.
const LEAST: Duration = Duration::from_millis(500);

fn main() {
    let compare = std::env::args().any(|argument| argument == "--upstream");
    let upstream = if compare { upstream() } else { HashMap::new() };
    println!("{:<36} {:>10} {:>12} {:>6}", "rule", "corten", "upstream", "ratio");
    for case in json::parse(CASES.as_bytes()).expect("the cases are JSON").as_array().into_iter().flatten() {
        let name = case.str_at(&["name"]).unwrap_or_default();
        let own = measure(case);
        let (other, ratio) = match upstream.get(name) {
            Some(other) => (format!("{other:.0} ns"), format!("{:.1}", other / own)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        println!("{name:<36} {:>10} {other:>12} {ratio:>6}", format!("{own:.0} ns"));
    }
}

/// Nanoseconds of one validation.
fn measure(case: &Value) -> f64 {
    let member = |key: &str| case.get(key).expect("every case has a schema and an object");
    let (schema, object) = (member("schema"), member("object"));
    let schema = Schema::compile(schema).expect("the schema is structural");
    let rules = Rules::compile(&schema);
    let mut rounds: u32 = 1_000;
    loop {
        let started = Instant::now();
        for _ in 0..rounds {
            let mut errors = ErrorList::new();
            rules.validate_create(black_box(object), &schema, &mut errors);
            assert!(errors.is_empty(), "the object satisfies the rule");
        }
        let elapsed = started.elapsed();
        if elapsed >= LEAST {
            return elapsed.as_secs_f64() * 1e9 / f64::from(rounds);
        }
        rounds *= 4;
    }
}

/// Nanoseconds of one validation by upstream, by case; empty if it cannot be measured.
fn upstream() -> HashMap<String, f64> {
    let folder = std::env::temp_dir().join(format!("corten-rules-{}", std::process::id()));
    let measured = run_upstream(&folder);
    // A directory that cannot be removed does not change the results.
    let _ = std::fs::remove_dir_all(&folder);
    let output = match measured {
        Ok(output) => output,
        Err(why) => {
            eprintln!("upstream is not measured: {why}");
            return HashMap::new();
        }
    };
    let line = |line: &str| {
        let (nanoseconds, name) = line.split_once(' ')?;
        Some((name.to_owned(), nanoseconds.parse().ok()?))
    };
    output.lines().filter_map(line).collect()
}

fn run_upstream(folder: &Path) -> Result<String, String> {
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    for (name, text) in UPSTREAM {
        std::fs::write(folder.join(name), text).map_err(|e| e.to_string())?;
    }
    let output = Command::new("go")
        .args(["run", "-mod=mod", "."])
        .current_dir(folder)
        .output()
        .map_err(|e| format!("cannot run go: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
