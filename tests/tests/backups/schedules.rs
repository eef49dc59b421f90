//! Schedules run in the server, survive restarts, and report what fails.

use super::*;

const ALL_EVENTS: &str = "/api/v1/namespaces/kube-system/events";

fn reasons(client: &Client) -> Vec<String> {
    let events = client.get(ALL_EVENTS).expect(200);
    let of_backups = events["items"].as_array().expect("a list").iter().filter_map(|event| {
        let is_ours = event["involvedObject"]["kind"] == "BackupSchedule";
        Some(event["reason"].as_str().filter(|_| is_ours)?.to_owned())
    });
    of_backups.collect()
}

fn metric(client: &Client, name: &str) -> Option<f64> {
    let text = client.get("/metrics").text();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn scheduled_backups_survive_a_restart_and_failures_are_reported() {
    let directory = DataDirectory::new();
    let mut server = start(&directory, &[]);
    let data_dir = text(directory.path()).to_owned();
    let schedule = |arguments: &[&str]| {
        let mut command = backup(&["schedule"]);
        command.args(arguments).args(["--data-dir", &data_dir]);
        command
    };
    let to = directory.path().join("scheduled");
    refuse(schedule(&["set", "--cron", "99 * * * *"]), "--cron");
    refuse(schedule(&["set", "--cron", "@daily", "--to", "s3://bucket"]), "--s3-credentials-file");
    succeed(schedule(&["set", "--name", "often", "--cron", "@every 1s", "--keep", "2", "--to", text(&to)]));
    eventually("retention has removed a backup", || {
        succeed(schedule(&["list"])).contains("often") && archives(&to).len() == 2
    });
    let first = archives(&to);
    eventually("newer backups replace older ones", || archives(&to).iter().all(|path| !first.contains(path)));
    eventually("an event says so", || {
        reasons(server.client()).iter().any(|reason| reason == "BackupCreated")
    });
    let last = "corten_backup_last_success_timestamp_seconds{schedule=\"often\"}";
    assert!(metric(server.client(), last).is_some_and(|time| time > 1.7e9));

    server.restart();
    let at_restart = archives(&to);
    eventually("it goes on", || archives(&to).iter().any(|path| !at_restart.contains(path)));

    // A file is where the directory was.
    eventually("the place is a file", || {
        // A backup that is being made may create the directory again.
        let _ = fs::remove_dir_all(&to);
        fs::write(&to, "").is_ok() && to.is_file()
    });
    eventually("an event says so", || reasons(server.client()).iter().any(|reason| reason == "BackupFailed"));
    let failures = "corten_backup_failures_total{schedule=\"often\"}";
    assert!(metric(server.client(), failures).is_some_and(|count| count >= 1.0));
    assert!(server.messages().contains("backup failed; waiting for the next time"));
    assert!(succeed(schedule(&["list"])).contains("cannot use"));
    succeed(schedule(&["delete", "often"]));
    assert!(!succeed(schedule(&["list"])).contains("often"));
    refuse(schedule(&["delete", "often"]), "there is no schedule often");
    server.terminate();
    refuse(schedule(&["list"]), "no server runs");
}
