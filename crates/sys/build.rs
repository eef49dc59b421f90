//! Builds the supervisor as a separate program: static, small and without dependencies, because one runs for every pod.
//! The library embeds its bytes.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    for input in ["supervisor", "src/rooted.rs", "src/wire.rs", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let output = PathBuf::from(variable("OUT_DIR")).join("supervisor");
    let status = Command::new(variable("RUSTC"))
        .args(["--crate-name", "corten_supervisor", "--crate-type", "bin", "--edition", "2024"])
        .args(["--target", &variable("TARGET")])
        .args(["-C", "opt-level=s", "-C", "panic=abort", "-C", "lto=fat", "-C", "codegen-units=1"])
        // Without relocations, loading it writes to no page of its code.
        .args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static", "-C", "strip=symbols"])
        .args(["-W", "unreachable_pub", "-o"])
        .arg(&output)
        .arg("supervisor/main.rs")
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!("the supervisor was not built: {other:?}"),
    }
}
