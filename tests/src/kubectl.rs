//! Versions of kubectl.

use corten_testkit::Tool;
use serde_json::Value;

/// The minor version of a kubectl: Debian's is too old for some tests.
pub fn kubectl_minor(kubectl: &Tool) -> u32 {
    let version: Value = serde_json::from_str(&kubectl.run(&["version", "--client", "-o", "json"]).ok())
        .expect("kubectl says its version in JSON");
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    let digits = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse().expect("kubectl has a minor version")
}
