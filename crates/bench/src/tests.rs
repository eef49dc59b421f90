//! The benchmark against a fake server: every request is answered, every event counted, every fault reported.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corten_pki::{KubeconfigNames, write_kubeconfig};
use tempfile::TempDir;

use crate::apiserver::{Session, run_phases};
use crate::fake::{self, Faults};
use crate::http::Target;
use crate::load::{self, Job};
use crate::raw::{self, RawPlan};
use crate::{ApiserverOptions, Report, apiserver, http, objects, pods, raw_server, watching};

fn small(work_dir: &Path) -> ApiserverOptions {
    ApiserverOptions {
        pods: 40,
        connections: 4,
        watchers: 6,
        idle_watchers: 5,
        gets: 200,
        lists: 3,
        patches: 60,
        steady_rate: 200,
        steady_seconds: 1,
        idle_seconds: 0,
        server_binary: None,
        raw: false,
        etcd: None,
        kube_apiserver: None,
        work_dir: work_dir.to_owned(),
    }
}

async fn session<'a>(dir: &TempDir, faults: Faults, report: &'a mut Report) -> Session<'a> {
    let credentials = fake::start(dir.path(), faults).await;
    Session {
        options: small(dir.path()),
        target: Arc::new(Target::new(&credentials).await.unwrap()),
        pid: std::process::id(),
        report,
    }
}

fn assert_complete(report: &Report) {
    let expected = [
        ("create.count", 40.0),
        ("get.count", 200.0),
        ("get_rv0.count", 200.0),
        ("list.count", 3.0),
        ("list.items", 40.0),
        ("update.count", 40.0),
        ("burst.count", 60.0),
        ("burst.delivered", 360.0),
        ("burst.lag_samples", 60.0),
        ("burst.missed", 0.0),
        ("burst.cut_off", 0.0),
        ("steady.count", 200.0),
        ("steady.delivered", 1200.0),
        ("steady.lag_samples", 1200.0),
        ("steady.missed", 0.0),
        ("idle_watchers.count", 5.0),
        ("idle_watchers.cut_off", 0.0),
    ];
    for (key, value) in expected {
        assert_eq!(report.value(key), Some(value), "{key} in\n{}", report.table());
    }
    for key in
        ["create.per_s", "list.mb_per_s", "burst.events_per_s", "steady.from_send_p50_ms", "memory.peak_mb"]
    {
        assert!(report.value(key).is_some_and(|value| value > 0.0), "{key} in\n{}", report.table());
    }
    assert!(!report.has_errors(), "{}", report.table());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_phase_is_measured() {
    let dir = TempDir::new().unwrap();
    let mut report = Report::default();
    let mut session = session(&dir, Faults::default(), &mut report).await;
    run_phases(&mut session).await.unwrap();
    watching::idle_watchers(&mut session).await.unwrap();
    assert_complete(session.report);
}

/// A program that starts and stops like `corten server`, while the fake in this process serves requests.
fn stand_in(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("server");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_process_is_started_measured_restarted_and_ended() {
    let dir = TempDir::new().unwrap();
    let credentials = fake::start(dir.path(), Faults::default()).await;
    let ready_made = dir.path().join("ready-made");
    write_kubeconfig(&ready_made, &credentials, KubeconfigNames::default()).unwrap();
    let pids = dir.path().join("pids");
    let script = format!(
        "echo $$ >> {pids}\nfor last; do :; done\n[ \"$1 $2\" = 'server --data-dir' ] || exit 9\n\
         cp {ready_made} $last.new && mv $last.new $last && exec sleep 1000",
        pids = pids.display(),
        ready_made = ready_made.display(),
    );
    let mut options = small(dir.path());
    options.server_binary = Some(stand_in(dir.path(), &script));
    let report = apiserver(options).await.unwrap();
    assert_complete(&report);
    assert!(report.value("start.ready_ms").unwrap() > 0.0);
    assert!(report.value("restart.ready_ms").unwrap() > 0.0);
    let pids = fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} is still there");
    }
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("corten-bench-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_server_that_does_not_start_is_quoted() {
    let dir = TempDir::new().unwrap();
    let mut options = small(dir.path());
    options.server_binary = Some(stand_in(dir.path(), "echo 'no room on the disk' >&2; exit 3"));
    let error = format!("{:#}", apiserver(options).await.unwrap_err());
    assert!(error.contains("exit status: 3") && error.contains("no room on the disk"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_requests_are_counted_and_the_others_go_on() {
    let dir = TempDir::new().unwrap();
    let mut report = Report::default();
    let mut session = session(&dir, Faults { refuse_every: 10, ..Faults::default() }, &mut report).await;
    objects::create(&mut session).await.unwrap();
    objects::get(&mut session, "get", "").await.unwrap();
    assert_eq!(session.report.value("get.count"), Some(180.0));
    assert_eq!(session.report.value("get.errors"), Some(20.0));
    assert!(session.report.has_errors());
    assert!(session.report.table().contains("first error: 503: too busy"), "{}", session.report.table());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_that_end_early_are_counted() {
    let dir = TempDir::new().unwrap();
    let mut report = Report::default();
    let mut session = session(&dir, Faults { cut_watches_after: 25, ..Faults::default() }, &mut report).await;
    objects::create(&mut session).await.unwrap();
    watching::burst(&mut session).await.unwrap();
    assert_eq!(session.report.value("burst.cut_off"), Some(6.0));
    assert_eq!(session.report.value("burst.delivered"), Some(150.0));
    assert_eq!(session.report.value("burst.missed"), Some(210.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_arrive_whole() {
    let dir = TempDir::new().unwrap();
    let mut report = Report::default();
    let mut session = session(&dir, Faults::default(), &mut report).await;
    objects::create(&mut session).await.unwrap();
    let (sender, bodies) = std::sync::mpsc::channel();
    let host = session.target.host.clone();
    let job = Job {
        connections: 2,
        total: 20,
        request: Box::new(move |index, out| {
            let path = if index % 2 == 0 { String::new() } else { format!("/{}", pods::name(index)) };
            http::write_request(out, &host, "GET", format_args!("{}{path}", pods::PODS), None);
        }),
        observe: Some(Box::new(move |index, body, _| sender.send((index, body.to_vec())).unwrap())),
    };
    let outcome = load::run(&session.target, job).await.unwrap();
    assert_eq!((outcome.errors, outcome.latencies.len()), (0, 20));
    for (index, body) in bodies.try_iter() {
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        match index % 2 {
            0 => assert_eq!(answer["items"].as_array().unwrap().len(), 40),
            _ => assert_eq!(answer["metadata"]["name"], pods::name(index)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_machine_itself_is_measured() {
    let dir = TempDir::new().unwrap();
    let server_dir = dir.path().to_owned();
    let server = tokio::spawn(async move { raw_server(&server_dir).await });
    let kubeconfig = dir.path().join("kubeconfig");
    while !kubeconfig.exists() {
        assert!(!server.is_finished());
        tokio::task::yield_now().await;
    }
    let credentials = corten_pki::parse_kubeconfig(&fs::read_to_string(&kubeconfig).unwrap()).unwrap();
    let target = Arc::new(Target::new(&credentials).await.unwrap());
    let mut report = Report::default();
    raw::measure_appends(dir.path(), &mut report).await.unwrap();
    let plan = RawPlan { connections: 2, gets: 50, bulks: 1 };
    raw::measure_target(&target, plan, &mut report).await.unwrap();
    for key in ["raw.fsync_per_s", "raw.http_per_s", "raw.bulk_mb_per_s"] {
        assert!(report.value(key).unwrap() > 0.0, "{key}");
    }
    assert!(!report.has_errors(), "{}", report.table());
}
