//! An image made of this machine's own busybox, for measurements and tests that need one and have no registry.
//!
//! Debian's `busybox-static` is what it is made of: one that needs libraries would find none in the image.

use std::io;
use std::path::PathBuf;

use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::{Digest, Platform};

const APPLETS: [&str; 32] = [
    "sh", "cat", "chmod", "dd", "echo", "env", "grep", "head", "hostname", "httpd", "id", "ip", "kill", "ln",
    "ls", "mkdir", "mknod", "mount", "nc", "ps", "rm", "sleep", "stat", "stty", "tail", "tar", "test",
    "touch", "true", "umount", "wc", "wget",
];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/home/web:/bin/sh\n";
const GROUP: &str = "root:x:0:\nlog:x:40:web\n";

/// An archive as `docker save` writes one: an image of these names that runs this command unless told otherwise.
pub fn busybox_archive(names: &[&str], command: &[&str]) -> io::Result<Vec<u8>> {
    let layer = layer()?;
    let config = json!({
        "architecture": Platform::here().architecture, "os": "linux",
        "config": {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "Cmd": command},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&layer)]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]);
    let mut archive = Builder::new(Vec::new());
    file(&mut archive, "config.json", 0o644, config.to_string().as_bytes())?;
    file(&mut archive, "layer.tar", 0o644, &layer)?;
    file(&mut archive, "manifest.json", 0o644, manifest.to_string().as_bytes())?;
    archive.into_inner()
}

fn layer() -> io::Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    file(&mut layer, "bin/busybox", 0o755, &std::fs::read(program()?)?)?;
    for applet in APPLETS {
        let mut link = header(EntryType::Symlink, 0, 0o777);
        layer.append_link(&mut link, format!("bin/{applet}"), "busybox")?;
    }
    layer.append_data(&mut header(EntryType::Directory, 0, 0o1777), "tmp/", io::empty())?;
    file(&mut layer, "etc/passwd", 0o644, PASSWD.as_bytes())?;
    file(&mut layer, "etc/group", 0o644, GROUP.as_bytes())?;
    layer.into_inner()
}

fn program() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("busybox")).find(|file| file.exists());
    let missing = "there is no busybox on this machine; apt-get install busybox-static brings it";
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing))
}

fn file(archive: &mut Builder<Vec<u8>>, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(EntryType::Regular, bytes.len(), mode), path, bytes)
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
