use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A root with hostile links, beside a directory that none of them may reach.
fn hostile() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "secret of the node").unwrap();
    fs::write(root.join("etc/file"), "inside").unwrap();
    symlink(&outside, root.join("absolute")).unwrap();
    symlink("../outside", root.join("up")).unwrap();
    symlink("../../../../../../../etc", root.join("far-up")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("/etc/file", root.join("link")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let root = Root::open(&root).unwrap();
    (folder, root)
}

#[test]
fn no_path_leads_out_of_the_root() {
    let (folder, root) = hostile();
    for path in
        ["absolute/secret", "up/secret", "../outside/secret", "magic/etc/passwd", "loop", "etc/file/x"]
    {
        assert!(root.find(path, Links::Inside).is_err(), "{path}");
    }
    let inside = fs::metadata(folder.path().join("root/etc/file")).unwrap().ino();
    for path in ["/etc/file", "link", "far-up/file", "../etc/file"] {
        let found = root.find(path, Links::Inside).unwrap();
        assert_eq!(metadata(&found).unwrap().ino(), inside, "{path} ends at the root");
    }
    for path in ["absolute/new/deep", "up/new", "../outside/new"] {
        // A path that leads out of the root is resolved inside: it is created there or refused.
        let _ = root.directory(path, Links::Inside);
        let _ = root.file(path, Links::Inside);
    }
    let left: Vec<_> = fs::read_dir(folder.path().join("outside"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["secret"], "nothing was made outside");
}

#[test]
fn targets_of_dangling_links_are_created_inside() {
    let (folder, root) = hostile();
    let inside = folder.path().join("root");
    symlink("/tmp/foo/bar", inside.join("jump")).unwrap();
    symlink("/jump/baz/hosts", inside.join("etc/hosts")).unwrap();
    symlink("../../../../run/here", inside.join("etc/up")).unwrap();
    root.file("/etc/hosts", Links::Inside).unwrap();
    assert!(inside.join("tmp/foo/bar/baz/hosts").is_file());
    root.directory("/etc/up/deep", Links::Inside).unwrap();
    assert!(inside.join("run/here/deep").is_dir());
    symlink("b", inside.join("a")).unwrap();
    symlink("a", inside.join("b")).unwrap();
    assert!(root.file("a", Links::Inside).is_err(), "links that go around");
    assert!(root.directory("etc/hosts", Links::Refused).is_err());
}

#[test]
fn links_can_be_refused() {
    let (_folder, root) = hostile();
    assert!(root.find("link", Links::Inside).is_ok());
    assert!(root.find("link", Links::Refused).is_err());
    assert!(root.directory("far-up", Links::Refused).is_err());
    assert!(root.directory("far-up/new", Links::Refused).is_err());
    assert!(root.directory("etc/new", Links::Refused).is_ok());
}

#[test]
fn magic_links_are_never_followed() {
    let root = Root::open(Path::new("/")).unwrap();
    for path in ["/proc/self/root", "/proc/self/cwd", "/proc/self/root/etc", "/proc/self/fd/0"] {
        assert!(root.find(path, Links::Inside).is_err(), "{path}");
    }
    assert!(root.find("/proc/self/status", Links::Inside).is_ok(), "a plain link of procfs is followed");
}

#[test]
fn descriptors_are_what_they_claim_to_be() {
    let node = Root::open(Path::new("/")).unwrap();
    let find = |path| node.find(path, Links::Refused).unwrap();
    assert!(is_proc_root(&find("/proc")).unwrap());
    assert!(!is_proc_root(&find("/proc/sys")).unwrap());
    assert!(is_character_device(&find("/dev/null"), 1, 3).unwrap());
    assert!(!is_character_device(&find("/dev/zero"), 1, 3).unwrap());
    assert_eq!(file_system(&find("/sys")).unwrap(), SYSFS);
    assert!(is_directory(&find("/proc")).unwrap() && !is_directory(&find("/dev/null")).unwrap());
}
