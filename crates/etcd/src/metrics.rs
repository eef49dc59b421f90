//! Metrics under etcd's names, as far as dashboards and alerts of etcd use them and a cluster of one member has them.
//!
//! What etcd counts per Raft proposal is counted per write here, and both of its disk latencies are those of a commit, which
//! writes and syncs one file.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use corten_etcd_api::methods;
use corten_grpc::{Body, Router};
use corten_serving::metrics::{Exposition, Kind};
use hyper::body::Frame;

use crate::Etcd;
use crate::identity::VERSION;

/// The names of gRPC's codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const CANCELED: usize = 1;
const UNKNOWN: usize = 2;

/// The calls of one method.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    started: AtomicU64,
    /// By code.
    handled: [AtomicU64; CODES.len()],
}

/// The calls of all methods, and the bytes of connections.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    calls: HashMap<&'static str, Arc<Calls>>,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
}

impl Traffic {
    pub(crate) fn of(router: &Router) -> Traffic {
        let calls = router.methods().map(|method| (method, Arc::default())).collect();
        Traffic { calls, ..Traffic::default() }
    }

    /// Counts a call; its result is counted by the body of the response.
    pub(crate) fn started(&self, method: &str) -> Option<Arc<Calls>> {
        let calls = self.calls.get(method)?;
        calls.started.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(calls))
    }

    fn write(&self, text: &mut Exposition) {
        let mut all: Vec<_> = self.calls.iter().collect();
        all.sort_unstable_by_key(|(method, _)| **method);
        let labels = |method: &'static str| {
            let (service, name) = method.trim_start_matches('/').split_once('/').unwrap_or_default();
            [("grpc_method", name), ("grpc_service", service), ("grpc_type", kind(method))]
        };
        let started = "grpc_server_started_total";
        text.family(started, Kind::Counter, "Total number of RPCs started on the server.");
        for (method, calls) in &all {
            text.sample(started, &labels(method), calls.started.load(Ordering::Relaxed));
        }
        let handled = "grpc_server_handled_total";
        let help = "Total number of RPCs completed on the server, regardless of success or failure.";
        text.family(handled, Kind::Counter, help);
        for (method, calls) in &all {
            for (code, count) in CODES.iter().zip(&calls.handled) {
                let count = count.load(Ordering::Relaxed);
                let [method, service, kind] = labels(method);
                if count > 0 || *code == "OK" {
                    text.sample(handled, &[("grpc_code", code), method, service, kind], count);
                }
            }
        }
        for (name, help, count) in [
            (
                "etcd_network_client_grpc_received_bytes_total",
                "The total number of bytes received from grpc clients.",
                &self.received,
            ),
            (
                "etcd_network_client_grpc_sent_bytes_total",
                "The total number of bytes sent to grpc clients.",
                &self.sent,
            ),
        ] {
            text.single(name, Kind::Counter, help, count.load(Ordering::Relaxed));
        }
    }
}

fn kind(method: &str) -> &'static str {
    match method {
        methods::WATCH | methods::LEASE_KEEP_ALIVE => "bidi_stream",
        methods::RANGE_STREAM | methods::SNAPSHOT => "server_stream",
        _ => "unary",
    }
}

/// The body of a response, whose end is counted once.
pub(crate) struct Counted {
    body: Body,
    calls: Option<Arc<Calls>>,
}

impl Counted {
    pub(crate) fn new(body: Body, calls: Option<Arc<Calls>>) -> Counted {
        Counted { body, calls }
    }

    fn end(&mut self, code: usize) {
        if let Some(calls) = self.calls.take() {
            calls.handled[code.min(CODES.len() - 1)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            let code = trailers.get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
            this.end(code.unwrap_or(UNKNOWN));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.end(CANCELED);
    }
}

impl Etcd {
    /// All metrics as Prometheus' text.
    pub(crate) fn metrics(&self, traffic: &Traffic) -> String {
        let mut text = Exposition::default();
        let (bytes, revision) = (self.store.disk_bytes(), self.store.revision());
        let gauge =
            |text: &mut Exposition, name, help, value: u64| text.single(name, Kind::Gauge, help, value);
        let is = |name, help| (name, help, 1);
        for (name, help, value) in [
            is("etcd_server_has_leader", "Whether or not a leader exists. 1 is existence, 0 is not."),
            is("etcd_server_is_leader", "Whether or not this member is a leader. 1 if is, 0 otherwise."),
            (
                "etcd_mvcc_db_total_size_in_bytes",
                "Total size of the underlying database physically allocated in bytes.",
                bytes,
            ),
            (
                "etcd_mvcc_db_total_size_in_use_in_bytes",
                "Total size of the underlying database logically in use in bytes.",
                bytes,
            ),
            (
                "etcd_server_quota_backend_bytes",
                "Current backend storage quota size in bytes.",
                self.options.quota_bytes.unwrap_or_default(),
            ),
            ("etcd_debugging_mvcc_current_revision", "The current revision of store.", revision),
            (
                "etcd_debugging_mvcc_compact_revision",
                "The revision of the last compaction in store.",
                self.store.compacted(),
            ),
            ("etcd_server_proposals_pending", "The current number of pending proposals to commit.", 0),
        ] {
            gauge(&mut text, name, help, value);
        }
        for (name, help, value) in [
            ("etcd_server_leader_changes_seen_total", "The number of leader changes seen.", 1),
            (
                "etcd_server_proposals_committed_total",
                "The total number of consensus proposals committed.",
                revision,
            ),
            (
                "etcd_server_proposals_applied_total",
                "The total number of consensus proposals applied.",
                revision,
            ),
            ("etcd_server_proposals_failed_total", "The total number of failed proposals seen.", 0),
        ] {
            text.single(name, Kind::Counter, help, value);
        }
        let version = "etcd_server_version";
        text.family(
            version,
            Kind::Gauge,
            "Which version is running. 1 for 'server_version' label with current version.",
        );
        text.sample(version, &[("server_version", VERSION)], 1);
        if let Some(commits) = self.store.commit_durations() {
            for (name, help) in [
                ("etcd_disk_wal_fsync_duration_seconds", "The latency distributions of fsync called by WAL."),
                (
                    "etcd_disk_backend_commit_duration_seconds",
                    "The latency distributions of commit called by backend.",
                ),
            ] {
                text.family(name, Kind::Histogram, help);
                text.histogram(name, &[], commits);
            }
        }
        traffic.write(&mut text);
        write_process(&mut text);
        text.finish()
    }
}

fn write_process(text: &mut Exposition) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    };
    if let Some(bytes) = field("VmRSS") {
        text.single("process_resident_memory_bytes", Kind::Gauge, "Resident memory size in bytes.", bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        text.single("process_open_fds", Kind::Gauge, "Number of open file descriptors.", open.count());
    }
}
