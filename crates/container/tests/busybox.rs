//! An image made of Debian's `busybox-static`, for tests.

use std::fs;
use std::path::PathBuf;

use corten_container::image::Digest;

const APPLETS: [&str; 20] = [
    "sh", "sleep", "cat", "echo", "ls", "id", "env", "hostname", "stty", "nc", "touch", "true", "ps", "dd",
    "head", "mount", "grep", "mkdir", "tail", "ip",
];

/// An image as `docker save` would write it.
pub(crate) fn archive(names: &[&str]) -> Vec<u8> {
    let layer = layer();
    let digest = Digest::of(&layer);
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["PATH=/bin","FROM_IMAGE=yes"],"Cmd":["sleep","1000000"],"Volumes":null}},
            "rootfs":{{"type":"layers","diff_ids":["{digest}"]}}}}"#
    );
    let names = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",");
    let manifest = format!(r#"[{{"Config":"config.json","RepoTags":[{names}],"Layers":["layer.tar"]}}]"#);
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in
        [("config.json", config.as_bytes()), ("layer.tar", &layer), ("manifest.json", manifest.as_bytes())]
    {
        add(&mut archive, path, 0o644, bytes);
    }
    archive.into_inner().unwrap()
}

fn layer() -> Vec<u8> {
    let mut layer = tar::Builder::new(Vec::new());
    add(&mut layer, "bin/busybox", 0o755, &fs::read(busybox()).unwrap());
    for applet in APPLETS {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        owned(&mut header);
        header.set_size(0);
        layer.append_link(&mut header, format!("bin/{applet}"), "busybox").unwrap();
    }
    add(
        &mut layer,
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/home/web:/bin/sh\n",
    );
    add(&mut layer, "etc/group", 0o644, b"root:x:0:\nlog:x:40:web\n");
    layer.into_inner().unwrap()
}

fn add(archive: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    owned(&mut header);
    header.set_mode(mode);
    archive.append_data(&mut header, path, bytes).unwrap();
}

/// As every tar writes it.
fn owned(header: &mut tar::Header) {
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_mode(0o777);
}

fn busybox() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("busybox")).find(|file| file.exists());
    found.expect("busybox-static is installed")
}
