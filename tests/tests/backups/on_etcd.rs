//! Backups of a cluster on etcd, and restores to etcd.

use super::*;
use crate::etcd_process::EtcdServer;

#[test]
fn a_cluster_on_etcd_is_backed_up_and_restored_there() {
    let (directory, etcd) = (DataDirectory::new(), EtcdServer::start(&[]));
    let url = etcd.url();
    let mut server = start(&directory, &["--etcd-servers", &url]);
    fill(server.client());
    let before = state(server.client());
    let data_dir = text(directory.path()).to_owned();
    succeed(backup(&["create", "--data-dir", &data_dir]));
    server.client().delete(format!("{MAPS}/m")).expect(200);
    server.client().post(MAPS, &map("later", "1")).expect(201);
    server.terminate();

    // Over the same etcd, and on an empty one with a new data directory.
    let from = directory.path().join("backups");
    let (machine, empty) = (DataDirectory::new(), EtcdServer::start(&[]));
    let other_url = empty.url();
    for (directory, url, force) in [(&directory, &url, true), (&machine, &other_url, false)] {
        let restore = |arguments: &[&str]| {
            let mut command = backup(&["restore", "latest", "--from", text(&from), "--etcd-servers", url]);
            command.args(["--data-dir", text(directory.path())]).args(arguments);
            command
        };
        if force {
            refuse(restore(&[]), "use --force");
        }
        succeed(restore(if force { &["--force"] } else { &[] }));
        assert!(!directory.path().join("store").exists(), "objects are in etcd only");
        let mut restored = start(directory, &["--etcd-servers", url]);
        assert_eq!(state(restored.client()), before);
        restored.client().get(format!("{MAPS}/later")).expect_failure(404, "NotFound");
        restored.terminate();
    }
}
