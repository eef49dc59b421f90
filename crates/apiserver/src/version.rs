//! The Kubernetes version that this server implements.

use corten_api::Value;

pub(crate) const MAJOR: &str = "1";
pub(crate) const MINOR: &str = "37";
/// The version in OpenAPI documents: that of the API, not of the server.
pub(crate) const API_VERSION: &str = "1.37";
pub(crate) const GIT_VERSION: &str = concat!("v1.37.0+corten.", env!("CARGO_PKG_VERSION"));
#[cfg(target_arch = "aarch64")]
pub const PLATFORM: &str = "linux/arm64";
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const PLATFORM: &str = "linux/amd64";

/// The body of `/version`.
pub(crate) fn info() -> Value {
    let mut info = Value::object();
    let members = [
        ("major", MAJOR),
        ("minor", MINOR),
        ("emulationMajor", MAJOR),
        ("emulationMinor", MINOR),
        ("minCompatibilityMajor", MAJOR),
        ("minCompatibilityMinor", "36"),
        ("gitVersion", GIT_VERSION),
        ("gitCommit", ""),
        ("gitTreeState", "clean"),
        ("buildDate", "1970-01-01T00:00:00Z"),
        ("goVersion", "go1.26"),
        ("compiler", "rustc"),
        ("platform", PLATFORM),
    ];
    for (key, value) in members {
        info.set(&[key], value);
    }
    info
}
