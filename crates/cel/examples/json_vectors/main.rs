//! Runs expressions with results that were recorded from upstream, and prints how many agree.
//!
//!     cargo run -p corten-cel --example json_vectors -- DIR [SHOWN]
//!
//! Each `*.jsonl` file in DIR has one case per line: a JSON object. The name of the file says which kind of case:
//!
//! | file | members |
//! |---|---|
//! | `expressions` | `expression`; `compileError`, `programError`, `error` or `result`; `type`, `estimateMin`, `estimateMax`, `cost` |
//! | `library_cost` | the same |
//! | `compile` | `schema`, `root`, `rule`, `optionalOldSelf`, `environment` (`new` or `stored`); `error` or `maxCost`, `usesOldSelf`; the same of `messageExpression` |
//! | `evaluate` | `schema`, `root`, `rule`, `optionalOldSelf`, `object`, `oldObject`, `callLimit`; `error` or `result`, `cost`; `messageExpression`, `message`, `messageCost` |
//!
//! Results are texts that keep the type (`show`); counts beyond 63 bits are texts too. Schemas are those of a custom resource definition, in JSON; `root` adds
//! the fields that all objects have. Names of the type of `self` are `selfType`. SHOWN is how many failures to print per
//! file. Cases in which upstream itself fails (`internal error: `) are skipped, and so are files of other names, which
//! need more than this crate.

mod cases;
mod schemas;
mod shown;

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use corten_api::Value as Tree;

/// The differences of one case, none if it agrees.
type Case = fn(&Tree) -> Vec<String>;

const KINDS: [(&str, Case); 4] = [
    ("expressions", cases::expression),
    ("library_cost", cases::expression),
    ("compile", cases::compile),
    ("evaluate", cases::evaluate),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next() else {
        eprintln!("usage: json_vectors DIR [SHOWN]");
        return ExitCode::FAILURE;
    };
    let shown = arguments.next().and_then(|shown| shown.parse().ok()).unwrap_or(10);
    // Deeply nested expressions need more stack in a build without optimisation.
    let worker =
        std::thread::Builder::new().stack_size(64 << 20).spawn(move || run_all(Path::new(&directory), shown));
    match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(0)) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Returns the number of failures.
fn run_all(directory: &Path, shown: usize) -> usize {
    let mut failures = 0;
    for (name, case) in KINDS {
        let path = directory.join(format!("{name}.jsonl"));
        match std::fs::read_to_string(&path) {
            Ok(text) => failures += run(name, &text, case, shown),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                println!("{name}: {error}");
                failures += 1;
            }
        }
    }
    failures
}

fn run(name: &str, text: &str, case: Case, shown: usize) -> usize {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for line in text.lines() {
        let Ok(tree) = corten_api::json::parse(line.as_bytes()) else {
            println!("{name}: not JSON: {line}");
            failed += 1;
            continue;
        };
        if cases::text(&tree, "error").is_some_and(|error| error.starts_with("internal error: ")) {
            skipped += 1;
            continue;
        }
        let differences = case(&tree);
        if differences.is_empty() {
            passed += 1;
            continue;
        }
        failed += 1;
        if failed <= shown {
            let subject = ["expression", "rule"].into_iter().find_map(|member| cases::text(&tree, member));
            println!("{name}: {}\n    {}", subject.unwrap_or_default(), differences.join("\n    "));
        }
    }
    println!("{name}: {passed} passed, {failed} failed, {skipped} skipped");
    failed
}
