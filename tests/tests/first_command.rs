//! The promise of the README: on a new machine, a user has within five seconds a cluster in
//! which a Deployment answers through the DNS name of its Service.

use std::process::Command;

use corten_testkit::corten_binary;
use serde_json::Value;

const PROMISED_MS: f64 = 5000.0;

#[test]
fn a_deployment_answers_by_name_soon_after_the_first_command() {
    let mut command = Command::new(corten_binary());
    // Errors are printed at the end of the output.
    command.args(["bench", "cluster", "--json"]).env("RUST_BACKTRACE", "0").env("RUST_LIB_BACKTRACE", "0");
    let output = command.output().expect("corten runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let took = report["cluster"]["all_answer_ms"].as_f64().expect("a figure");
    assert!(took < PROMISED_MS, "it took {took} ms");
}
