//! From a running server to a new machine, and over an existing cluster.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn a_backup_of_a_running_server_is_a_cluster_on_a_new_machine() {
    let server = Server::start();
    let (client, directory) = (server.client(), server.directory().path());
    fill(client);
    let scratch = DataDirectory::new();
    let to = scratch.path().join("backups");
    let secret = passphrase(scratch.path(), "passphrase", "correct horse battery\n");
    let create = || {
        let mut command = backup(&["create", "--data-dir", text(directory), "--to", text(&to)]);
        command.args(["--passphrase-file", text(&secret)]);
        command
    };
    // Two maps that a writer always changes in this order: no copy may show the second without the first.
    for name in ["first", "second"] {
        client.post(MAPS, &map(name, "0")).expect(201);
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                for name in ["first", "second"] {
                    let patch = json!({"data": {"key": round.to_string()}});
                    client.patch(format!("{MAPS}/{name}"), "merge", &patch).expect(200);
                }
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..3 {
            succeed(create());
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let before = state(client);
    let made = archives(&to);
    assert_eq!(made.len(), 3);
    assert_eq!(mode(&to), 0o700);
    for archive in &made {
        assert_eq!(mode(archive), 0o600);
        let bytes = fs::read(archive).expect("an archive");
        assert!(!bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()));
    }
    let listed = succeed(backup(&["list", "--from", text(&to)]));
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert_eq!(listed.matches(" yes ").count(), 3, "{listed}");

    let known = client.get(MAPS).expect(200)["metadata"]["resourceVersion"].as_str().unwrap_or("").to_owned();
    for archive in &made {
        let machine = DataDirectory::new();
        let restore = |arguments: &[&str]| {
            let mut command = backup(&["restore", text(archive), "--data-dir", text(machine.path())]);
            command.args(arguments);
            command
        };
        if archive == &made[0] {
            let wrong = passphrase(scratch.path(), "wrong", "incorrect horse battery");
            refuse(restore(&[]), "--passphrase-file");
            refuse(restore(&["--passphrase-file", text(&wrong)]), "the passphrase is wrong");
            refuse(restore(&["--passphrase-file", text(&secret), "--max-size", "1000"]), "--max-size");
        }
        succeed(restore(&["--passphrase-file", text(&secret)]));
        let restored = start(&machine, &[]);
        assert_eq!(state(restored.client()), before);
        let value = |name: &str| -> u64 {
            let map = restored.client().get(format!("{MAPS}/{name}")).expect(200);
            map["data"]["key"].as_str().and_then(|text| text.parse().ok()).expect("a number")
        };
        let (first, second) = (value("first"), value("second"));
        assert!(first == second || first == second + 1, "one revision: {first}, {second}");
        // The authorities and keys are the same, so old kubeconfigs are good; old revisions are not.
        assert_eq!(restored.credentials().ca_pem, server.credentials().ca_pem);
        let watch = format!("{MAPS}?watch=true&resourceVersion={known}");
        assert_eq!(restored.client().watch(watch).expect("ERROR")["code"], 410);
    }
}

#[test]
fn a_restore_replaces_a_cluster_only_when_told_and_all_or_nothing() {
    let directory = DataDirectory::new();
    let mut server = start(&directory, &[]);
    fill(server.client());
    let data_dir = text(directory.path()).to_owned();
    succeed(backup(&["create", "--data-dir", &data_dir]));
    let before = state(server.client());
    server.client().delete(format!("{MAPS}/m")).expect(200);
    server.client().post(MAPS, &map("later", "1")).expect(201);
    let restore = |what: &str, arguments: &[&str]| {
        let mut command = backup(&["restore", what, "--data-dir", &data_dir]);
        command.args(arguments);
        command
    };
    refuse(restore("latest", &["--force"]), "stop it first");
    server.terminate();
    refuse(restore("latest", &[]), "use --force to replace it");
    refuse(restore("latest", &["--force", "--name", "other"]), "there is no backup");

    // A damaged archive is found out before anything is replaced.
    let archive = archives(&directory.path().join("backups")).pop().expect("an archive");
    let good = fs::read(&archive).expect("an archive");
    let damaged = directory.path().join("damaged");
    for bytes in
        [good[..good.len() - 1].to_vec(), good[..good.len() / 2].to_vec(), [&good[..], b"x"].concat()]
    {
        fs::write(&damaged, bytes).expect("the file can be written");
        refuse(restore(text(&damaged), &["--force"]), "damaged");
    }
    let mut server = start(&directory, &[]);
    server.client().get(format!("{MAPS}/later")).expect(200);
    server.terminate();

    succeed(restore("latest", &["--force"]));
    let mut server = start(&directory, &[]);
    assert_eq!(state(server.client()), before);
    server.client().get(format!("{MAPS}/later")).expect_failure(404, "NotFound");
    server.terminate();

    // As a crash leaves it between the decision and the last rename.
    let ready = directory.path().join("restore.ready");
    fs::create_dir(&ready).expect("a directory");
    fs::rename(directory.path().join("store"), ready.join("store")).expect("the store moves");
    let server = start(&directory, &[]);
    assert_eq!(state(server.client()), before);
    assert!(!ready.exists());
}

#[test]
fn a_stopped_server_and_an_encrypted_store_are_copied_too() {
    let directory = DataDirectory::new();
    let config = directory.path().join("encryption.json");
    let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let providers = json!([{"aesgcm": {"keys": [{"name": "one", "secret": secret}]}}, {"identity": {}}]);
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}],
    });
    fs::write(&config, configuration.to_string()).expect("the file can be written");
    let encrypted = ["--encryption-provider-config", text(&config)];
    let mut server = start(&directory, &encrypted);
    fill(server.client());
    let before = state(server.client());
    let data_dir = text(directory.path()).to_owned();
    let create = |arguments: &[&str]| {
        let mut command = backup(&["create", "--data-dir", &data_dir]);
        command.args(arguments);
        command
    };
    refuse(create(&[]), "every Secret in plain text");
    succeed(create(&["--unencrypted", "--name", "running"]));
    server.terminate();
    refuse(create(&["--unencrypted", "--name", "stopped"]), "no server runs");
    let with_keys = ["--unencrypted", "--name", "stopped", encrypted[0], encrypted[1]];
    succeed(create(&with_keys));
    for name in ["running", "stopped"] {
        let machine = DataDirectory::new();
        let from = directory.path().join("backups");
        let mut command = backup(&["restore", "latest", "--from", text(&from), "--name", name]);
        command.args(["--data-dir", text(machine.path())]).args(encrypted);
        succeed(command);
        assert!(!is_in_files(&machine.path().join("store"), CANARY_BASE64), "nothing is plain on disk");
        assert_eq!(state(start(&machine, &encrypted).client()), before);
    }
}

/// True if a file below a directory has a text.
fn is_in_files(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).expect("a directory").flatten().any(|entry| {
        let bytes = fs::read(entry.path()).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[test]
fn other_users_cannot_ask_for_a_backup() {
    let server = Server::start();
    let directory = server.directory().path();
    assert_eq!((mode(directory), mode(&directory.join("backup.sock"))), (0o700, 0o600));
    // Also if they could reach the socket: the server asks the kernel who they are.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("the mode can be set");
    let socket = directory.join("backup.sock");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).expect("the mode can be set");
    let script = format!(
        "import os, socket\nos.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\ns.connect('{}')\n\
         try:\n s.sendall(b'\"schedules\"\\n')\n answer = s.recv(100)\n\
         except ConnectionError:\n answer = b''\nprint(answer)",
        socket.display()
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]);
    assert_eq!(succeed(command).trim(), "b''");
    let mut command = Command::new("python3");
    command.args(["-c", &script.replace("65534", "0")]);
    assert!(succeed(command).contains("{\"schedules\":[]}"));
}
