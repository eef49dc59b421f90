//! The Python client, unchanged: the scripts in `python/`, run in the virtual environment of `cargo xtask prepare`.

use corten_testkit::{Server, Tool, repository, target_directory};

#[track_caller]
fn run(script: &str) {
    let python = target_directory().join("python/bin/python3");
    assert!(python.exists(), "{} is not there; run `cargo xtask prepare`", python.display());
    let server = Server::start();
    let script = repository().join("tests/python").join(script);
    let output = Tool::new(python, &server).env("PYTHONDONTWRITEBYTECODE", "1").run(&[script]).ok();
    assert!(output.ends_with("all good\n"), "{output}");
}

#[test]
fn typed_client() {
    run("typed.py");
}

#[test]
fn dynamic_client() {
    run("dynamic.py");
}

#[test]
fn custom_resources() {
    run("custom.py");
}
