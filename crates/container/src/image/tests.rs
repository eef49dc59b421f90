use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;

/// A layer from lines: `dir/` is a folder, `path text` a file, `path -> target` a link.
fn layer(entries: &[&str]) -> Vec<u8> {
    let mut layer = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_mode(0o755);
        header.set_size(0);
        if let Some((path, target)) = entry.split_once(" -> ") {
            header.set_entry_type(tar::EntryType::Symlink);
            layer.append_link(&mut header, path, target).unwrap();
        } else if let Some((path, target)) = entry.split_once(" = ") {
            header.set_entry_type(tar::EntryType::Link);
            layer.append_link(&mut header, path, target).unwrap();
        } else if let Some(path) = entry.strip_suffix('/') {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o700);
            layer.append_data(&mut header, path, &[][..]).unwrap();
        } else {
            let (path, text) = entry.split_once(' ').unwrap_or((entry, ""));
            header.set_size(text.len() as u64);
            layer.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
    }
    layer.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

fn config(layers: &[Vec<u8>]) -> Vec<u8> {
    let diffs: Vec<String> = layers.iter().map(|layer| format!("\"{}\"", Digest::of(layer))).collect();
    let text = r#"{"architecture":"amd64","os":"linux","config":{"User":"7","Cmd":["run"],"Entrypoint":null},
        "rootfs":{"type":"layers","diff_ids":[DIFFS]}}"#;
    text.replace("DIFFS", &diffs.join(",")).into_bytes()
}

/// An archive as Docker saves it, with the first layer uncompressed and the others compressed.
fn docker(name: &str, layers: &[Vec<u8>]) -> Vec<u8> {
    let config = config(layers);
    let packed: Vec<Vec<u8>> = layers
        .iter()
        .enumerate()
        .map(|(number, layer)| match number % 3 {
            0 => layer.clone(),
            1 => gzip(layer),
            _ => zstd(layer),
        })
        .collect();
    let names: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let manifest =
        format!(r#"[{{"Config":"config.json","RepoTags":["{name}"],"Layers":[{}]}}]"#, quoted.join(","));
    let mut files: Vec<(&str, &[u8])> =
        vec![("config.json", &config), ("manifest.json", manifest.as_bytes())];
    files.extend(names.iter().map(String::as_str).zip(packed.iter().map(Vec::as_slice)));
    archive(&files)
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

fn count(folder: &Path, below: &str) -> usize {
    fs::read_dir(folder.join(below)).unwrap().count()
}

#[test]
fn layers_become_what_overlayfs_stacks() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    let (_folder, store) = store();
    let layers = [
        layer(&[
            "etc/",
            "etc/a one",
            "etc/b two",
            "old/",
            "old/x gone",
            "lib -> usr/lib",
            "usr/lib/",
            "usr/lib/c three",
        ]),
        layer(&["etc/.wh.a", "old/.wh..wh..opq", "old/y new", "lib/d four", "etc/e = etc/b"]),
        layer(&["etc/f = etc/e", "abs/g five"]),
    ];
    store.import(docker("web:1", &layers).as_slice()).unwrap();
    let Named { record, tags, digests } = store.find("web:1").unwrap().unwrap();
    assert_eq!(tags, ["docker.io/library/web:1"]);
    assert_eq!(digests, [format!("docker.io/library/web@{}", record.target)]);
    assert_eq!((record.process.user.as_str(), record.process.cmd.as_slice()), ("7", &["run".to_owned()][..]));
    let (root, folders) = store.layers_of(&record).unwrap();
    let [top, middle, bottom] = [0, 1, 2].map(|number| root.join(&folders[number]));

    assert_eq!(fs::read_to_string(bottom.join("etc/a")).unwrap(), "one");
    assert_eq!(fs::metadata(bottom.join("etc/a")).unwrap().mtime(), 1_000_000_000);
    let whiteout = fs::symlink_metadata(middle.join("etc/a")).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    let mut value = [0; 1];
    rustix::fs::getxattr(middle.join("old"), "trusted.overlay.opaque", &mut value[..]).unwrap();
    assert_eq!(&value, b"y");
    assert_eq!(fs::metadata(middle.join("etc")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_to_string(middle.join("usr/lib/d")).unwrap(), "four", "through the link below");
    assert!(!middle.join("lib").exists());
    assert_eq!(fs::read_to_string(middle.join("etc/e")).unwrap(), "two", "copied from below");
    assert_eq!(fs::read_to_string(top.join("etc/f")).unwrap(), "two");
    assert_eq!(fs::read_to_string(top.join("abs/g")).unwrap(), "five");
}

#[test]
fn nothing_is_written_outside_a_layer() {
    let outside = tempfile::tempdir().unwrap();
    let out = outside.path().to_string_lossy().into_owned();
    let (_folder, store) = store();
    let link = layer(&[&format!("way -> {out}"), "way/in stays inside"]);
    store.import(docker("a:1", &[link]).as_slice()).unwrap();
    let split = [layer(&[&format!("way -> {out}")]), layer(&["way/in stays inside"])];
    store.import(docker("b:1", &split).as_slice()).unwrap();
    assert_eq!(count(outside.path(), "."), 0);

    let mut escaping = layer(&["aa/evil text"]);
    escaping[..2].copy_from_slice(b"..");
    let sum: u32 = escaping[..512]
        .iter()
        .enumerate()
        .map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) })
        .sum();
    escaping[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let error = store.import(docker("c:1", &[escaping]).as_slice()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("a path that leaves the layer"), "{source}");
}

#[test]
fn messages_survive_the_round_trip() {
    let (_folder, first) = store();
    let layers = [layer(&["a one"]), layer(&["b two"])];
    first.import(gzip(&docker("web:1", &layers)).as_slice()).unwrap();
    let mut exported = Vec::new();
    first.export(&["web:1".to_owned()], &mut exported).unwrap();
    let (_folder, second) = store();
    let imported = second.import(exported.as_slice()).unwrap();
    assert_eq!(imported[0].names, ["docker.io/library/web:1"]);
    let [one, two] = [&first, &second].map(|store| store.find("web:1").unwrap().unwrap().record);
    assert_eq!((one.id, one.manifest, one.size), (two.id, two.manifest, two.size));
}

#[test]
fn damage_is_noticed() {
    let (_folder, store) = store();
    let good = layer(&["a one"]);
    let config = config(&[layer(&["a other"])]);
    let manifest = r#"[{"Config":"c","RepoTags":["x:1"],"Layers":["l"]}]"#;
    let files: [(&str, &[u8]); 3] = [("c", &config), ("l", &good), ("manifest.json", manifest.as_bytes())];
    let error = store.import(archive(&files).as_slice()).unwrap_err();
    assert!(matches!(error, ImageError::WrongContent { .. }), "{error}");
    assert!(store.find("x:1").unwrap().is_none());
    let error = store.import(archive(&[("readme", b"hello")]).as_slice()).unwrap_err();
    assert_eq!(error.to_string(), "the archive contains no image");
    assert!(store.import(&b"not an archive at all"[..]).is_err());
}

#[test]
fn removing_an_image_keeps_shared_content() {
    let (folder, store) = store();
    let shared = layer(&["a one"]);
    store.import(docker("x:1", &[shared.clone(), layer(&["b two"])]).as_slice()).unwrap();
    store.import(docker("y:1", &[shared]).as_slice()).unwrap();
    assert_eq!(count(folder.path(), "layers"), 2);
    let record = store.find("x:1").unwrap().unwrap().record;
    store.pin("container", &record.id).unwrap();
    assert!(matches!(store.remove("x:1").unwrap_err(), ImageError::InUse { .. }));
    store.unpin("container").unwrap();
    store.untag("x:1").unwrap();
    assert_eq!(count(folder.path(), "layers"), 1);
    assert!(store.find("y:1").unwrap().is_some());
    store.remove("y:1").unwrap();
    assert_eq!((count(folder.path(), "layers"), count(folder.path(), "blobs/sha256")), (0, 0));
    store.remove("y:1").unwrap();
}

#[test]
fn another_process_sees_every_change() {
    let (folder, one) = store();
    let other = Store::open(folder.path()).unwrap();
    assert!(other.find("x:1").unwrap().is_none());
    one.import(docker("x:1", &[layer(&["a one"])]).as_slice()).unwrap();
    let record = other.find("x:1").unwrap().unwrap().record;
    let by_id = &record.id.hex()[..12];
    assert_eq!(other.find(by_id).unwrap().unwrap().record, record);
    assert!(other.find(&record.id.hex()[..6]).unwrap().is_none());
}

#[test]
fn indexes_lead_to_this_machine() {
    let platform = |os: &str, architecture: &str| Platform {
        os: os.to_owned(),
        architecture: architecture.to_owned(),
        variant: String::new(),
    };
    let entry = |text: &str, platform| Descriptor {
        media_type: media::OCI_MANIFEST.to_owned(),
        digest: Digest::of(text.as_bytes()),
        size: 1,
        platform: Some(platform),
        annotations: Default::default(),
    };
    let here = Platform::here();
    let mut index = Index {
        schema_version: 2,
        media_type: media::OCI_INDEX.to_owned(),
        manifests: vec![
            entry("a", platform("windows", &here.architecture)),
            entry("b", platform("linux", "s390x")),
        ],
    };
    let error = index.choose(&here).unwrap_err().to_string();
    assert!(error.contains("available: windows/") && error.contains("linux/s390x"), "{error}");
    index.manifests.push(entry("c", platform("linux", &here.architecture)));
    assert_eq!(index.choose(&here).unwrap().digest, Digest::of(b"c"));
}

#[test]
fn folders_of_archives_are_taken_in_once() {
    let (_folder, store) = store();
    let archives = tempfile::tempdir().unwrap();
    let import = || {
        let found = store.import_folder(archives.path()).unwrap();
        let files =
            found.into_iter().map(|file| (file.path.file_name().unwrap().to_owned(), file.images.is_ok()));
        files.collect::<Vec<_>>()
    };
    assert!(store.import_folder(Path::new("/not/there")).unwrap().is_empty());
    fs::write(archives.path().join("a.tar.gz"), gzip(&docker("a:1", &[layer(&["a one"])]))).unwrap();
    fs::write(archives.path().join("bad.tar"), "nothing").unwrap();
    fs::write(archives.path().join("readme"), "nothing").unwrap();
    assert_eq!(import(), [("a.tar.gz".into(), true), ("bad.tar".into(), false)]);
    assert_eq!(import(), [("bad.tar".into(), false)]);
    fs::write(archives.path().join("bad.tar"), docker("b:1", &[layer(&["b two"])])).unwrap();
    assert_eq!(import(), [("bad.tar".into(), true)]);
    assert!(store.find("b:1").unwrap().is_some());
}

/// The error of importing a layer, with its causes.
fn refusal(store: &Store, layers: &[Vec<u8>]) -> String {
    match store.import(docker("bad:1", layers).as_slice()) {
        Ok(_) => String::new(),
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            format!("{error}: {source}")
        }
    }
}

/// A header of any type, followed by its content.
fn raw(kind: tar::EntryType, path: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(content.len() as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_mode(0o644);
    header.set_cksum();
    let mut bytes = [header.as_bytes(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn device(path: &str, kind: tar::EntryType, (major, minor): (u32, u32)) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_path(path).unwrap();
    header.set_size(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_mode(0o666);
    header.set_device_major(major).unwrap();
    header.set_device_minor(minor).unwrap();
    header.set_cksum();
    header.as_bytes().to_vec()
}

#[test]
fn a_small_layer_cannot_unpack_to_a_large_one() {
    let (_folder, store) = store();
    let store =
        store.with_limits(Limits { entries: 1000, unpacked_bytes: 4 << 20, ratio: 10, ..Limits::default() });
    // Extended headers and long names that would have to be read as a whole.
    let comment = format!("{} comment={}\n", (2 << 20) + 17, "a".repeat(2 << 20));
    for (kind, content) in [
        (tar::EntryType::XHeader, comment.as_bytes()),
        (tar::EntryType::GNULongName, "a".repeat(2 << 20).as_bytes()),
        (tar::EntryType::GNULongLink, "a".repeat(2 << 20).as_bytes()),
    ] {
        let bad = [raw(kind, "x", content), layer(&["a one"])].concat();
        let why = refusal(&store, &[bad]);
        assert!(why.contains("an extended header that is too large"), "{kind:?}: {why}");
    }
    let many: Vec<String> = (0..1001).map(|number| format!("{number} x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(refusal(&store, &[layer(&many)]).contains("more entries than are allowed"));
    // The second layer of `docker` is compressed: 16 MiB of zeros are small then.
    let zeros = raw(tar::EntryType::Regular, "zeros", &vec![0; 16 << 20]);
    let why = refusal(&store, &[layer(&["a one"]), zeros]);
    assert!(why.contains("more than is allowed"), "{why}");
    let deep = format!("{}x one", "d/".repeat(300));
    assert!(refusal(&store, &[layer(&[&deep])]).contains("too deep"));
    let slow = store.with_limits(Limits { time: std::time::Duration::ZERO, ..Limits::default() });
    assert!(refusal(&slow, &[layer(&["a one"])]).contains("longer to unpack than is allowed"));
}

#[test]
fn copies_of_what_is_below_count_too() {
    let (_folder, store) = store();
    let store = store.with_limits(Limits { unpacked_bytes: 4 << 20, ratio: 1, ..Limits::default() });
    let below = layer(&[&format!("big {}", "x".repeat(3 << 20))]);
    let links: Vec<String> = (0..10).map(|number| format!("{number} = big")).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let why = refusal(&store, &[below, layer(&links)]);
    assert!(why.contains("more than is allowed"), "{why}");
}

#[test]
fn no_device_of_the_node_is_opened() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let (_folder, store) = store();
    // A device that never ends, a pipe without a writer and a link, below; other names for them, above.
    let below = [
        device("zero", tar::EntryType::Char, (1, 5)),
        device("pipe", tar::EntryType::Fifo, (0, 0)),
        layer(&["link -> /etc/shadow"]),
    ];
    let above = layer(&["a = zero", "b = pipe", "c = link"]);
    assert_eq!(refusal(&store, &[below.concat(), above]), "");
    let record = store.find("bad:1").unwrap().unwrap().record;
    let (root, folders) = store.layers_of(&record).unwrap();
    let look = |name: &str| fs::symlink_metadata(root.join(&folders[0]).join(name)).unwrap();
    assert!(look("a").file_type().is_char_device() && look("a").rdev() == rustix::fs::makedev(1, 5));
    assert!(look("b").file_type().is_fifo());
    assert!(look("c").is_symlink());
    // Attributes are set without opening what has them, which would wait for a writer here.
    let extended = raw(tar::EntryType::XHeader, "x", b"28 SCHILY.xattr.trusted.a=b\n");
    let named = [extended, device("pipe", tar::EntryType::Fifo, (0, 0))].concat();
    refusal(&store, &[named]);
}

#[test]
fn folders_hold_no_descriptors() {
    let (_folder, store) = store();
    let many: Vec<String> = (0..3000).map(|number| format!("parent-{number}/child/")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert!(open() < 1000 || limit.is_none_or(|limit| limit > 4000), "this process has many open");
    assert_eq!(refusal(&store, &[layer(&many)]), "");
}

#[test]
fn documents_have_a_largest_size() {
    let (_folder, store) = store();
    let layers = [layer(&["a one"])];
    let padding = " ".repeat(usize::try_from(LARGEST_DOCUMENT).unwrap());
    let large = [config(&layers).as_slice(), padding.as_bytes()].concat();
    let manifest = br#"[{"Config":"c","RepoTags":["x:1"],"Layers":["l"]}]"#;
    let files: [(&str, &[u8]); 3] = [("c", &large), ("l", &layers[0]), ("manifest.json", manifest)];
    let error = store.import(archive(&files).as_slice()).unwrap_err().to_string();
    assert!(error.contains("larger than any document"), "{error}");
    let padded = [&manifest[..], padding.as_bytes()].concat();
    let files: [(&str, &[u8]); 1] = [("manifest.json", &padded)];
    let error = store.import(archive(&files).as_slice()).unwrap_err().to_string();
    assert!(error.contains("larger than any document"), "{error}");
}

#[test]
fn a_small_archive_cannot_unpack_to_a_large_one() {
    let (_folder, store) = store();
    let store = store.with_limits(Limits { unpacked_bytes: 1 << 20, ratio: 10, ..Limits::default() });
    let bomb = gzip(&archive(&[("zeros", &vec![0; 16 << 20])]));
    let error = store.import(bomb.as_slice()).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("more than is allowed"), "{why}");
    let long = raw(tar::EntryType::XHeader, "x", &vec![b'a'; 2 << 20]);
    let error = store.import(long.as_slice()).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("an extended header that is too large"), "{why}");
}
