//! An image made of this machine's busybox, for benchmarks and tests that need an image without a registry.
//!
//! The image contains no shared libraries, so only a statically linked busybox is taken: Debian's `busybox-static`, and
//! never its `busybox`.

mod elf;

use std::ffi::OsStr;
use std::io;

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

/// An archive as `docker save` writes one: an image with these names and this default command.
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
    let program = program(&std::env::var_os("PATH").unwrap_or_default())?;
    file(&mut layer, "bin/busybox", 0o755, &program)?;
    for applet in APPLETS {
        let mut link = header(EntryType::Symlink, 0, 0o777);
        layer.append_link(&mut link, format!("bin/{applet}"), "busybox")?;
    }
    layer.append_data(&mut header(EntryType::Directory, 0, 0o1777), "tmp/", io::empty())?;
    file(&mut layer, "etc/passwd", 0o644, PASSWD.as_bytes())?;
    file(&mut layer, "etc/group", 0o644, GROUP.as_bytes())?;
    layer.into_inner()
}

/// The first statically linked busybox in the directories of `path`, a value of `PATH`.
fn program(path: &OsStr) -> io::Result<Vec<u8>> {
    let mut dynamic = None;
    for file in std::env::split_paths(path).map(|folder| folder.join("busybox")).filter(|file| file.exists())
    {
        let bytes = std::fs::read(&file)?;
        if elf::is_static_executable(&bytes) {
            return Ok(bytes);
        }
        dynamic.get_or_insert(file);
    }
    let found = match dynamic {
        Some(file) => format!("{} is not statically linked", file.display()),
        None => "busybox is not installed".to_owned(),
    };
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{found}; run apt-get install busybox-static")))
}

fn file(archive: &mut Builder<Vec<u8>>, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(EntryType::Regular, bytes.len(), mode), path, bytes)
}

/// The header of an entry, with the fields that all entries share.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_busybox_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let dynamic = folder.path().join("dynamic");
        std::fs::create_dir(&dynamic).unwrap();
        // Programs of tests are linked dynamically, like Debian's `busybox`.
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), dynamic.join("busybox")).unwrap();
        let error = program(dynamic.as_os_str()).unwrap_err().to_string();
        assert!(error.contains("/dynamic/busybox is not statically linked"), "{error}");
        assert!(error.contains("apt-get install busybox-static"), "{error}");

        let installed = std::env::var_os("PATH").unwrap();
        let both =
            std::env::join_paths(std::iter::once(dynamic.clone()).chain(std::env::split_paths(&installed)));
        assert!(elf::is_static_executable(&program(&both.unwrap()).unwrap()));
    }

    #[test]
    fn a_missing_busybox_is_an_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let error = program(folder.path().as_os_str()).unwrap_err().to_string();
        assert_eq!(error, "busybox is not installed; run apt-get install busybox-static");
    }
}
