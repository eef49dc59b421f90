//! An image for tests that run containers: nothing but busybox, as it is on this machine.

use std::fmt::Write;

use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// Where Debian has it.
const BUSYBOX: &str = "/bin/busybox";

/// What tests call it by.
const NAME: &str = "docker.io/library/busybox:latest";

const COMMANDS: [&str; 13] =
    ["sh", "sleep", "cat", "echo", "ls", "id", "env", "touch", "rm", "tail", "true", "test", "hostname"];

/// An archive of the image, as `docker save` writes one.
pub fn busybox_archive() -> Vec<u8> {
    image_archive(NAME, &["sh"])
}

/// The same under another name, to run something else unless told.
pub fn image_archive(name: &str, command: &[&str]) -> Vec<u8> {
    let layer = layer();
    let mut digest = String::from("sha256:");
    for byte in Sha256::digest(&layer) {
        write!(digest, "{byte:02x}").expect("text takes text");
    }
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": command},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    let mut archive = Builder::new(Vec::new());
    file(&mut archive, "config.json", 0o644, config.to_string().as_bytes());
    file(&mut archive, "layer.tar", 0o644, &layer);
    file(&mut archive, "manifest.json", 0o644, manifest.to_string().as_bytes());
    archive.into_inner().expect("memory takes everything")
}

fn layer() -> Vec<u8> {
    let program = std::fs::read(BUSYBOX).expect("busybox is installed");
    let mut layer = Builder::new(Vec::new());
    file(&mut layer, "bin/busybox", 0o755, &program);
    for command in COMMANDS {
        let mut link = header(EntryType::Symlink, 0, 0o777);
        layer.append_link(&mut link, format!("bin/{command}"), "busybox").expect("a link is written");
    }
    let mut directory = header(EntryType::Directory, 0, 0o1777);
    layer.append_data(&mut directory, "tmp/", std::io::empty()).expect("a directory is written");
    file(&mut layer, "etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n");
    layer.into_inner().expect("memory takes everything")
}

fn file(archive: &mut Builder<Vec<u8>>, path: &str, mode: u32, bytes: &[u8]) {
    let mut header = header(EntryType::Regular, bytes.len(), mode);
    archive.append_data(&mut header, path, bytes).expect("a file is written");
}

/// An entry with everything that every archive says of its entries.
fn header(kind: EntryType, size: usize, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
