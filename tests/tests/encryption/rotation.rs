//! `--secrets-encryption` and `corten secrets-encrypt`, checked on the bytes of the store and of etcd.

use std::fs;
use std::path::Path;

use corten_e2e::eventually;
use corten_testkit::{DataDirectory, Server, corten_binary};

use crate::etcd_process::EtcdServer;
use crate::{CANARY, SECRETS, is_in_files, secret, start};

/// Runs `corten secrets-encrypt` on a server's data directory. Returns its output if it succeeded, otherwise its error.
fn command(server: &Server, arguments: &[&str]) -> Result<String, String> {
    command_in(server.directory().path(), arguments)
}

fn command_in(data_dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = std::process::Command::new(corten_binary())
        .arg("secrets-encrypt")
        .args(arguments)
        .arg("--data-dir")
        .arg(data_dir)
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The names of the keys, the encrypting one first.
fn keys(server: &Server) -> Vec<String> {
    let status = command(server, &["status"]).expect("a status");
    let names = status.lines().filter_map(|line| line.split_whitespace().find(|word| word.contains("key-2")));
    names.map(str::to_owned).collect()
}

fn prefix(key: &str) -> String {
    format!("k8s:enc:secretbox:v1:{key}:")
}

/// Secrets that exist, in a rotation of the keys whose store is in `place`.
fn rotate(server: &Server, place: &Path) {
    let client = server.client();
    for number in 0..3 {
        client.post(SECRETS, &secret(&format!("s{number}"))).expect(201);
    }
    let old = keys(server).remove(0);
    assert!(is_in_files(place, &prefix(&old)) && !is_in_files(place, CANARY));
    let refused = command(server, &["rotate"]).expect_err("a refusal");
    assert!(refused.contains("at stage start"), "{refused}");
    command(server, &["prepare"]).expect("prepare succeeds");
    client.post(SECRETS, &secret("prepared")).expect(201);
    let [first, new] = keys(server).try_into().expect("two keys");
    assert_eq!(first, old, "the new key only decrypts");
    assert!(!is_in_files(place, &prefix(&new)));
    assert!(command(server, &["reencrypt"]).expect_err("a refusal").contains("does not encrypt yet"));
    command(server, &["rotate"]).expect("rotate succeeds");
    client.post(SECRETS, &secret("rotated")).expect(201);
    assert!(is_in_files(place, &prefix(&new)));
    let status = command(server, &["status"]).expect("a status");
    assert!(
        status.contains("Current Rotation Stage: rotate") && status.contains("All hashes match"),
        "{status}"
    );
    command(server, &["reencrypt"]).expect("reencrypt succeeds");
    assert_eq!(keys(server), [new.as_str()]);
    let list = client.get(SECRETS).expect(200);
    let items = list["items"].as_array().expect("items");
    assert_eq!(items.len(), 5);
    assert!(items.iter().all(|item| item["data"]["password"] == CANARY));
}

#[test]
fn keys_are_rotated_in_the_embedded_store() {
    let directory = DataDirectory::new();
    let mut server = start(&directory, &["--secrets-encryption"]);
    let store = directory.path().join("store");
    rotate(&server, &store);
    let key = keys(&server).remove(0);
    let foreign = is_in_files(&store, "k8s:enc:secretbox") && !is_in_files(&store, &prefix(&key));
    assert!(!foreign && !is_in_files(&store, CANARY));
    // A rotation that was interrupted continues from the file.
    command(&server, &["prepare"]).unwrap();
    server.kill_9();
    let mut server = start(&directory, &["--secrets-encryption"]);
    command(&server, &["rotate-keys"]).unwrap();
    let last = keys(&server);
    assert!(last.len() == 1 && last[0] != key);
    assert!(!is_in_files(&store, &prefix(&key)), "nothing on disk needs the old key");
    server.kill_9();
    let Err(without) = Server::try_start(&directory, &[]) else { panic!("the keys are in use") };
    assert!(without.messages.contains("start with --secrets-encryption"), "{without}");
    let server = start(&directory, &["--secrets-encryption"]);
    assert_eq!(server.client().get(format!("{SECRETS}/s0")).expect(200)["data"]["password"], CANARY);
    command(&server, &["disable"]).unwrap();
    command(&server, &["reencrypt"]).unwrap();
    assert!(is_in_files(&store, CANARY), "Secrets are written as they are");
    command(&server, &["enable"]).unwrap();
    assert!(!is_in_files(&store, CANARY));
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    };
    let kept = directory.path().join("encryption");
    assert_eq!((mode(&kept), mode(&kept.join("config.json"))), (0o700, 0o600));
    assert!(!server.messages().contains("secret\""), "keys are never logged");
}

#[test]
fn keys_are_rotated_in_etcd_only_when_every_server_has_them() {
    let etcd = EtcdServer::start(&[]);
    let (first, second) = (DataDirectory::new(), DataDirectory::new());
    let url = etcd.url();
    let arguments = ["--etcd-servers", &url, "--secrets-encryption"];
    let one = start(&first, &arguments);
    rotate(&one, etcd.directory());
    // Another server with the same keys.
    let [from, to] = [&first, &second].map(|directory| directory.path().join("encryption/config.json"));
    fs::create_dir_all(second.path().join("encryption")).expect("a directory");
    let copy = || {
        if fs::read(&from).ok() != fs::read(&to).ok() {
            let temporary = to.with_extension("new");
            fs::copy(&from, &temporary).expect("a copy");
            fs::rename(temporary, &to).expect("the file can be replaced");
        }
    };
    copy();
    let other = start(&second, &arguments);
    let path = format!("{SECRETS}/s0");
    assert_eq!(other.client().get(&path).expect(200)["data"]["password"], CANARY);
    let behind = command(&one, &["rotate-keys", "--timeout", "2s"]).unwrap_err();
    assert!(behind.contains("these servers do not use the configuration of this one"), "{behind}");
    assert_eq!(keys(&one).len(), 2, "the rotation stays at its stage");
    // Continued while each change of the file is copied.
    std::thread::scope(|scope| {
        let rotated = scope.spawn(|| command_in(first.path(), &["rotate-keys"]));
        eventually("the rotation has ended", || {
            copy();
            let found = other.client().get(&path).expect(200);
            assert_eq!(found["data"]["password"], CANARY, "never unreadable");
            rotated.is_finished()
        });
        rotated.join().expect("no panic").unwrap();
    });
    assert_eq!(keys(&one).len(), 1);
    other.client().post(SECRETS, &secret("by-other")).expect(201);
    assert_eq!(one.client().get(format!("{SECRETS}/by-other")).expect(200)["data"]["password"], CANARY);
}
