//! The API over a real connection: what a client of etcd sees.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

use std::time::Duration;

use bytes::Bytes;
use corten_etcd::listen::Service;
use corten_etcd::{Etcd, Identity, Options};
use corten_etcd_api::{methods, *};
use corten_grpc::protobuf::Message;
use corten_grpc::{CallOptions, Channel, ChannelOptions, Code, Endpoint, Receiver, Sender, Status};
use corten_store::Store;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(60);

struct Server {
    directory: tempfile::TempDir,
    store: Store,
    channel: Channel,
    serving: tokio::task::JoinHandle<()>,
}

fn server_with(options: Options) -> Server {
    let directory = tempfile::tempdir().expect("no directory");
    let store_options = corten_store::Options {
        first_revision: 1,
        history: DEADLINE * 100,
        ..corten_store::Options::default()
    };
    let store = Store::open(&directory.path().join("store"), store_options).expect("no store");
    let etcd = Etcd::new(store.clone(), Identity::new("test", vec!["unix://".to_owned()]), options);
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("cannot bind");
    let serving = tokio::spawn(Service::new(&etcd).serve_unix(listener));
    let channel = Channel::new(vec![Endpoint::Unix(path)], ChannelOptions::default());
    Server { directory, store, channel, serving }
}

fn server() -> Server {
    server_with(Options::default())
}

impl Server {
    async fn call<A: Message, B: Message>(&self, method: &'static str, request: A) -> Result<B, Status> {
        let options = CallOptions { max_message: 256 << 20, ..CallOptions::default() };
        timeout(DEADLINE, self.channel.unary(method, &request, options)).await.expect("no response")
    }

    /// A plain HTTP request, and its response as text.
    async fn get(&self, path: &str) -> String {
        let mut connection = UnixStream::connect(self.directory.path().join("socket")).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        timeout(DEADLINE, connection.read_to_string(&mut response)).await.expect("no response").unwrap();
        response
    }

    async fn put(&self, key: &str, value: &str) -> i64 {
        let request = PutRequest { key: bytes(key), value: bytes(value), ..PutRequest::default() };
        let response: PutResponse = self.call(methods::PUT, request).await.unwrap();
        response.header.unwrap().revision
    }

    async fn range(&self, request: RangeRequest) -> RangeResponse {
        self.call(methods::RANGE, request).await.unwrap()
    }

    async fn delete(&self, key: &str, end: &str) -> DeleteRangeResponse {
        let request = DeleteRangeRequest { key: bytes(key), range_end: bytes(end), prev_kv: true };
        self.call(methods::DELETE_RANGE, request).await.unwrap()
    }

    async fn compact(&self, revision: i64) -> Result<CompactionResponse, Status> {
        self.call(methods::COMPACT, CompactionRequest { revision, physical: true }).await
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.call(methods::TXN, request).await
    }

    fn watches(&self) -> Watches {
        let options = CallOptions { max_message: 256 << 20, ..CallOptions::default() };
        let (sender, receiver) = self.channel.streaming(methods::WATCH, options);
        Watches { sender, receiver }
    }
}

struct Watches {
    sender: Sender<WatchRequest>,
    receiver: Receiver<WatchResponse>,
}

impl Watches {
    async fn next(&mut self) -> WatchResponse {
        let next = timeout(DEADLINE, self.receiver.next()).await.expect("no watch response");
        next.unwrap().expect("the stream has ended")
    }

    async fn create(&mut self, request: WatchCreateRequest) -> WatchResponse {
        self.sender.send(&WatchRequest::Create(Box::new(request))).await.unwrap();
        let created = self.next().await;
        assert!(created.created, "{created:?}");
        created
    }

    /// The next `count` events, as `+key=value@revision` and `-key@revision`.
    async fn events(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        while events.len() < count {
            events.extend(self.next().await.events.iter().map(shown));
        }
        events
    }
}

fn shown(event: &Event) -> String {
    let kv = event.kv.clone().unwrap();
    let (key, value) = (String::from_utf8_lossy(&kv.key), String::from_utf8_lossy(&kv.value));
    match event.kind {
        EventType::Put => format!("+{key}={value}@{}", kv.mod_revision),
        _ => format!("-{key}@{}", kv.mod_revision),
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn all() -> RangeRequest {
    RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        ..RangeRequest::default()
    }
}

fn keys(response: &RangeResponse) -> String {
    response.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn ranges_have_every_option() {
    let server = server();
    assert_eq!(server.range(all()).await.header.unwrap().revision, 1, "an empty store is at revision 1");
    for (key, value) in [("a", "3"), ("b", "2"), ("c", "1"), ("b", "2")] {
        server.put(key, value).await;
    }
    server.put("\u{fc}", "0").await;
    let check = async |change: fn(&mut RangeRequest), expected: &str, count: i64, more: bool| {
        let mut request = all();
        change(&mut request);
        let response = server.range(request).await;
        assert_eq!((keys(&response).as_str(), response.count, response.more), (expected, count, more));
    };
    check(|_| {}, "a b c \u{fc}", 4, false).await;
    check(|r| r.limit = 2, "a b", 4, true).await;
    check(|r| r.limit = 4, "a b c \u{fc}", 4, false).await;
    check(|r| r.count_only = true, "", 4, false).await;
    check(|r| r.revision = 3, "a b", 2, false).await;
    check(|r| (r.revision, r.limit) = (4, 1), "a", 3, true).await;
    check(|r| r.min_mod_revision = 5, "b \u{fc}", 4, false).await;
    check(|r| (r.max_create_revision, r.limit) = (3, 1), "a", 4, true).await;
    check(|r| r.sort_order = SortOrder::Descend, "\u{fc} c b a", 4, false).await;
    check(|r| r.sort_target = SortTarget::Value, "\u{fc} c b a", 4, false).await;
    check(|r| (r.sort_target, r.limit) = (SortTarget::Mod, 2), "a c", 4, true).await;
    check(|r| (r.key, r.range_end) = ("b".into(), "c".into()), "b", 1, false).await;
    check(|r| (r.key, r.range_end) = ("c".into(), "b".into()), "", 0, false).await;
    check(|r| (r.key, r.range_end) = ("b".into(), Bytes::new()), "b", 1, false).await;
    let response = server.range(RangeRequest { keys_only: true, ..all() }).await;
    assert!(response.kvs.iter().all(|kv| kv.value.is_empty() && kv.mod_revision > 0));
    let b = &server.range(RangeRequest { key: bytes("b"), ..RangeRequest::default() }).await.kvs[0];
    assert_eq!((b.create_revision, b.mod_revision, b.version), (3, 5, 2));
    let future: Result<RangeResponse, _> =
        server.call(methods::RANGE, RangeRequest { revision: 7, ..all() }).await;
    assert_eq!(future.unwrap_err(), errors::FUTURE_REVISION.into());
    let empty: Result<RangeResponse, _> = server.call(methods::RANGE, RangeRequest::default()).await;
    assert_eq!(empty.unwrap_err(), errors::EMPTY_KEY.into());
}

#[tokio::test]
async fn a_streamed_range_is_the_range_in_parts() {
    let server = server();
    let value = "x".repeat(300 << 10);
    for key in 0..20 {
        server.put(&format!("{key:02}"), &value).await;
    }
    let options = CallOptions { max_message: 4 << 20, ..CallOptions::default() };
    let mut parts: Receiver<RangeStreamResponse> =
        server.channel.server_streaming(methods::RANGE_STREAM, &all(), options).unwrap();
    let (mut kvs, mut count, mut last) = (Vec::new(), 0, None);
    while let Some(part) = timeout(DEADLINE, parts.next()).await.unwrap().unwrap() {
        let part = part.range_response.unwrap();
        assert!(last.is_none(), "only the last part has a header");
        kvs.extend(part.kvs);
        count += 1;
        last = part.header;
    }
    let whole = server.range(all()).await;
    assert!(count > 3, "{count} parts");
    assert_eq!((kvs, last), (whole.kvs, whole.header));
}

#[tokio::test]
async fn transactions_compare_and_nest_and_have_one_revision() {
    let server = server();
    server.put("a", "1").await;
    let put = |key: &str, value: &str| {
        RequestOp::Put(Box::new(PutRequest {
            key: bytes(key),
            value: bytes(value),
            prev_kv: true,
            ..Default::default()
        }))
    };
    let equal = |value: &str| Compare {
        target: CompareTarget::Value,
        key: bytes("a"),
        value: bytes(value),
        ..Default::default()
    };
    let nested = TxnRequest {
        compare: vec![equal("2")],
        success: vec![],
        failure: vec![RequestOp::Range(Box::new(all()))],
    };
    let past = RangeRequest { key: bytes("a"), revision: 2, ..RangeRequest::default() };
    let request = TxnRequest {
        compare: vec![equal("1")],
        success: vec![
            put("a", "2"),
            put("b", "2"),
            RequestOp::Txn(Box::new(nested)),
            RequestOp::Range(Box::new(past)),
        ],
        failure: vec![],
    };
    let response = server.txn(request.clone()).await.unwrap();
    assert!(response.succeeded);
    assert_eq!(response.header.unwrap().revision, 3);
    let [ResponseOp::Put(first), _, ResponseOp::Txn(nested), ResponseOp::Range(past)] =
        &response.responses[..]
    else {
        panic!("{:?}", response.responses)
    };
    assert_eq!(first.prev_kv.as_ref().unwrap().value, "1");
    assert_eq!(past.kvs[0].value, "1", "an earlier revision");
    assert!(!nested.succeeded, "decided before the writes");
    let ResponseOp::Range(range) = &nested.responses[0] else { panic!() };
    assert!(range.kvs.iter().all(|kv| kv.value == "2" && kv.mod_revision == 3), "sees the writes");
    let again = server.txn(request).await.unwrap();
    assert!(!again.succeeded && again.responses.is_empty());
    let twice = TxnRequest { success: vec![put("a", ""), put("a", "")], ..TxnRequest::default() };
    assert_eq!(server.txn(twice).await, Err(errors::DUPLICATE_KEY.into()));
    let many =
        TxnRequest { success: (0..129).map(|n| put(&n.to_string(), "")).collect(), ..Default::default() };
    assert_eq!(server.txn(many).await, Err(errors::TOO_MANY_OPS.into()));
    let deleted = server.delete("a", "z").await;
    assert_eq!((deleted.deleted, deleted.prev_kvs.len(), deleted.header.unwrap().revision), (2, 2, 4));
    assert_eq!(server.delete("a", "z").await.header.unwrap().revision, 4, "nothing was deleted");
}

#[tokio::test]
async fn hostile_transactions_are_refused() {
    let server = server();
    let mut nested = TxnRequest::default();
    for _ in 0..60 {
        nested = TxnRequest { success: vec![RequestOp::Txn(Box::new(nested))], ..TxnRequest::default() };
    }
    let refused = server.txn(nested).await.unwrap_err();
    assert_eq!(refused.code, Code::Internal, "nested too deeply to decode: {refused}");
    let large = PutRequest { key: bytes("a"), value: vec![0; 1_572_864].into(), ..PutRequest::default() };
    let refused = server.call::<_, PutResponse>(methods::PUT, large).await;
    assert_eq!(refused, Err(errors::REQUEST_TOO_LARGE.into()));
    let larger = PutRequest { key: bytes("a"), value: vec![0; 3 << 20].into(), ..PutRequest::default() };
    let refused = server.call::<_, PutResponse>(methods::PUT, larger).await.unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(server.range(all()).await.count, 0);
}

#[tokio::test]
async fn watches_get_every_event_from_their_start() {
    let server = server();
    server.put("a", "1").await;
    server.put("ab", "2").await;
    let mut watches = server.watches();
    let from_two = WatchCreateRequest {
        key: bytes("a"),
        range_end: bytes("b"),
        start_revision: 2,
        ..Default::default()
    };
    assert_eq!(watches.create(from_two).await.watch_id, 0);
    assert_eq!(watches.events(2).await, ["+a=1@2", "+ab=2@3"]);
    let deletions = WatchCreateRequest {
        key: bytes("a"),
        prev_kv: true,
        filters: vec![FILTER_NO_PUT],
        watch_id: 7,
        ..Default::default()
    };
    assert_eq!(watches.create(deletions.clone()).await.watch_id, 7);
    let duplicate = watches.create(deletions).await;
    assert!(duplicate.canceled && duplicate.watch_id == -1, "{duplicate:?}");
    assert_eq!(duplicate.cancel_reason, "mvcc: duplicate watch ID provided on the WatchStream");
    server.put("a", "3").await;
    assert_eq!(watches.events(1).await, ["+a=3@4"]);
    server.delete("a", "b").await;
    let (mut of_range, mut of_key) = (None, None);
    while of_range.is_none() || of_key.is_none() {
        let response = watches.next().await;
        if response.watch_id == 0 { of_range = Some(response) } else { of_key = Some(response) }
    }
    let events: Vec<_> = of_range.unwrap().events.iter().map(shown).collect();
    assert_eq!(events, ["-a@5", "-ab@5"], "in one response");
    let of_key = of_key.unwrap();
    assert_eq!(of_key.events.len(), 1);
    assert_eq!(of_key.events[0].prev_kv.as_ref().unwrap().value, "3");
    watches.sender.send(&WatchRequest::Cancel(WatchCancelRequest { watch_id: 0 })).await.unwrap();
    let canceled = watches.next().await;
    assert!(canceled.canceled && canceled.watch_id == 0 && canceled.compact_revision == 0);
    server.put("ac", "4").await;
    watches.sender.send(&WatchRequest::Progress(WatchProgressRequest {})).await.unwrap();
    let progress = watches.next().await;
    assert!(progress.events.is_empty(), "{progress:?}");
    assert_eq!((progress.watch_id, progress.header.unwrap().revision), (-1, 6));
}

#[tokio::test]
async fn compacted_and_future_revisions_are_distinguished() {
    let server = server();
    for value in 1..=5 {
        server.put("a", &value.to_string()).await;
    }
    server.compact(4).await.unwrap();
    assert_eq!(server.compact(4).await, Err(errors::COMPACTED.into()));
    assert_eq!(server.compact(7).await, Err(errors::FUTURE_REVISION.into()));
    let past: Result<RangeResponse, _> =
        server.call(methods::RANGE, RangeRequest { revision: 3, ..all() }).await;
    assert_eq!(past.unwrap_err(), errors::COMPACTED.into());
    assert_eq!(server.range(RangeRequest { revision: 4, ..all() }).await.kvs[0].value, "3");
    let mut watches = server.watches();
    // The events may still be in memory; a watch from a compacted revision is cancelled all the same.
    let create =
        |start_revision| WatchCreateRequest { key: bytes("a"), start_revision, ..Default::default() };
    watches.create(create(3)).await;
    let canceled = watches.next().await;
    assert!(canceled.canceled);
    assert_eq!(canceled.compact_revision, 4);
    watches.create(create(4)).await;
    assert_eq!(watches.events(3).await, ["+a=3@4", "+a=4@5", "+a=5@6"]);
    watches.create(create(8)).await;
    server.put("a", "6").await;
    server.put("a", "7").await;
    let mut seen = watches.events(3).await;
    seen.sort();
    assert_eq!(seen, ["+a=6@7", "+a=7@8", "+a=7@8"]);
}

#[tokio::test]
async fn history_survives_a_restart() {
    let server = server();
    for value in 1..=3 {
        server.put("a", &value.to_string()).await;
    }
    let Server { directory, store, channel, serving } = server;
    serving.abort();
    drop(channel);
    store.close();
    let path = directory.path().join("store");
    let options = corten_store::Options { first_revision: 1, ..corten_store::Options::default() };
    let store = Store::open(&path, options).expect("no store");
    let etcd = Etcd::new(store.clone(), Identity::new("test", Vec::new()), Options::default());
    let socket = directory.path().join("again");
    let listener = UnixListener::bind(&socket).expect("cannot bind");
    let serving = tokio::spawn(Service::new(&etcd).serve_unix(listener));
    let channel = Channel::new(vec![Endpoint::Unix(socket)], ChannelOptions::default());
    let server = Server { directory, store, channel, serving };
    let mut watches = server.watches();
    let create =
        WatchCreateRequest { key: bytes("a"), start_revision: 2, prev_kv: true, ..Default::default() };
    watches.create(create).await;
    assert_eq!(watches.events(3).await, ["+a=1@2", "+a=2@3", "+a=3@4"]);
    assert_eq!(server.put("a", "4").await, 5);
    assert_eq!(watches.events(1).await, ["+a=4@5"]);
}

#[tokio::test]
async fn leases_hold_keys_until_they_end() {
    let server = server();
    let grant = |id, ttl| LeaseGrantRequest { id, ttl };
    let granted: LeaseGrantResponse = server.call(methods::LEASE_GRANT, grant(9, 60)).await.unwrap();
    assert_eq!((granted.id, granted.ttl), (9, 60));
    let exists: Result<LeaseGrantResponse, _> = server.call(methods::LEASE_GRANT, grant(9, 60)).await;
    assert_eq!(exists, Err(errors::LEASE_EXISTS.into()));
    let large: Result<LeaseGrantResponse, _> =
        server.call(methods::LEASE_GRANT, grant(0, 9_000_000_001)).await;
    assert_eq!(large, Err(errors::LEASE_TTL_TOO_LARGE.into()));
    let put = |key: &str, lease| PutRequest { key: bytes(key), lease, ..PutRequest::default() };
    for key in ["x", "y"] {
        server.call::<_, PutResponse>(methods::PUT, put(key, 9)).await.unwrap();
    }
    let unknown = server.call::<_, PutResponse>(methods::PUT, put("z", 10)).await;
    assert_eq!(unknown, Err(errors::LEASE_NOT_FOUND.into()));
    let ttl: LeaseTimeToLiveResponse =
        server.call(methods::LEASE_TIME_TO_LIVE, LeaseTimeToLiveRequest { id: 9, keys: true }).await.unwrap();
    assert_eq!((ttl.granted_ttl, ttl.keys), (60, vec![bytes("x"), bytes("y")]));
    assert!((50..60).contains(&ttl.ttl), "{}", ttl.ttl);
    let (sender, mut receiver) = server.channel.streaming(methods::LEASE_KEEP_ALIVE, CallOptions::default());
    for (id, expected) in [(9, 60), (10, 0)] {
        sender.send(&LeaseKeepAliveRequest { id }).await.unwrap();
        let kept: LeaseKeepAliveResponse =
            timeout(DEADLINE, receiver.next()).await.unwrap().unwrap().unwrap();
        assert_eq!((kept.id, kept.ttl), (id, expected));
    }
    let mut watches = server.watches();
    let everything = WatchCreateRequest { key: bytes("\0"), range_end: bytes("\0"), ..Default::default() };
    watches.create(everything).await;
    server.call::<_, LeaseRevokeResponse>(methods::LEASE_REVOKE, LeaseRevokeRequest { id: 9 }).await.unwrap();
    assert_eq!(watches.events(2).await, ["-x@4", "-y@4"], "in one revision");
    let gone: LeaseTimeToLiveResponse = server
        .call(methods::LEASE_TIME_TO_LIVE, LeaseTimeToLiveRequest { id: 9, keys: false })
        .await
        .unwrap();
    assert_eq!(gone.ttl, -1);
    // The shortest lease expires by itself.
    let short: LeaseGrantResponse = server.call(methods::LEASE_GRANT, grant(0, 1)).await.unwrap();
    assert_eq!(short.ttl, 2);
    server.call::<_, PutResponse>(methods::PUT, put("short", short.id)).await.unwrap();
    assert_eq!(watches.events(2).await, ["+short=@5", "-short@6"]);
}

#[tokio::test]
async fn a_protected_prefix_is_read_only() {
    let options = Options { protected_prefix: Some("/registry/"), ..Options::default() };
    let server = server_with(options);
    server.put("/registry", "beside").await;
    server.put("/registry0", "beside").await;
    let put = |key: &str| PutRequest { key: bytes(key), ..PutRequest::default() };
    let refused = Err(errors::PERMISSION_DENIED.into());
    assert_eq!(server.call::<_, PutResponse>(methods::PUT, put("/registry/pods/a")).await, refused.clone());
    for (key, end) in [("/registry/pods", ""), ("/r", "/s"), ("\0", "\0"), ("/registry", "/registry0")] {
        let request = DeleteRangeRequest { key: bytes(key), range_end: bytes(end), prev_kv: false };
        let result = server.call::<_, DeleteRangeResponse>(methods::DELETE_RANGE, request).await;
        assert_eq!(result.unwrap_err(), errors::PERMISSION_DENIED.into(), "{key:?} to {end:?}");
    }
    let inner =
        TxnRequest { failure: vec![RequestOp::Put(Box::new(put("/registry/x")))], ..Default::default() };
    let nested = TxnRequest { success: vec![RequestOp::Txn(Box::new(inner))], ..TxnRequest::default() };
    assert_eq!(server.txn(nested).await.unwrap_err(), errors::PERMISSION_DENIED.into());
    assert_eq!(server.compact(2).await.unwrap_err(), errors::PERMISSION_DENIED.into());
    assert_eq!(server.range(all()).await.count, 2);
}

#[tokio::test]
async fn a_hundred_thousand_watches_share_one_stream() {
    const WATCHES: usize = 100_000;
    let server = server();
    let Watches { sender, mut receiver } = server.watches();
    let creating = async {
        for number in 0..WATCHES {
            let create = WatchCreateRequest { key: bytes(&format!("{number}")), ..Default::default() };
            sender.send(&WatchRequest::Create(Box::new(create))).await.unwrap();
        }
    };
    let created = async {
        for _ in 0..WATCHES {
            let response = timeout(DEADLINE, receiver.next()).await.unwrap().unwrap().unwrap();
            assert!(response.created && !response.canceled);
        }
    };
    tokio::join!(creating, created);
    server.put("77777", "x").await;
    let response = timeout(DEADLINE, receiver.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((response.watch_id, response.events.len()), (77777, 1));
}

#[tokio::test]
async fn a_slow_reader_gets_every_event_from_history() {
    const EVENTS: usize = 12_000;
    let server = server();
    let mut watches = server.watches();
    let everything =
        WatchCreateRequest { key: bytes("a"), range_end: bytes("b"), fragment: true, ..Default::default() };
    watches.create(everything).await;
    // More than the memory for recent events holds, and more than the connection buffers.
    let value = "x".repeat(1000);
    let mut writes = JoinSet::new();
    for number in 0..EVENTS {
        let step = corten_store::Step::Put {
            key: format!("a{number:05}").into(),
            value: Some(value.clone().into()),
            lease: corten_store::PutLease::None,
        };
        let program = corten_store::Program { success: vec![step], ..Default::default() };
        let store = server.store.clone();
        writes.spawn(async move { store.run(program).await.unwrap() });
    }
    writes.join_all().await;
    let mut next = 2;
    while next < 2 + EVENTS as i64 {
        for event in watches.next().await.events {
            assert_eq!(event.kv.unwrap().mod_revision, next, "each once, in order");
            next += 1;
        }
    }
}

#[tokio::test]
async fn what_needs_more_members_or_users_is_refused() {
    let server = server();
    let status: StatusResponse = server.call(methods::STATUS, StatusRequest {}).await.unwrap();
    assert_eq!(status.version, "3.7.0");
    assert_eq!(status.leader, status.header.unwrap().member_id);
    let members: MemberListResponse =
        server.call(methods::MEMBER_LIST, MemberListRequest::default()).await.unwrap();
    assert_eq!(members.members.len(), 1);
    let own = members.members[0].id;
    let remove = |id| MemberRemoveRequest { id };
    let removed = server.call::<_, MemberListResponse>(methods::MEMBER_REMOVE, remove(own)).await;
    assert_eq!(removed, Err(errors::MEMBER_NOT_ENOUGH_STARTED.into()));
    let removed = server.call::<_, MemberListResponse>(methods::MEMBER_REMOVE, remove(1)).await;
    assert_eq!(removed, Err(errors::MEMBER_NOT_FOUND.into()));
    let auth: AuthStatusResponse = server.call(methods::AUTH_STATUS, AuthStatusRequest {}).await.unwrap();
    assert!(!auth.enabled);
    for method in methods::AUTH_ADMINISTRATION {
        let refused = server.call::<_, AuthResponse>(method, AuthRequest {}).await.unwrap_err();
        assert_eq!(refused.code, Code::Unimplemented, "{method}");
    }
    let hash = async |revision| {
        let response: HashKvResponse =
            server.call(methods::HASH_KV, HashKvRequest { revision }).await.unwrap();
        response.hash
    };
    let empty = hash(0).await;
    let first = server.put("a", "1").await;
    let with_a = hash(0).await;
    server.put("a", "2").await;
    assert!(empty != with_a && with_a != hash(0).await && with_a == hash(first).await);
}

#[tokio::test]
async fn an_alarm_refuses_writes_until_it_is_disarmed() {
    let server = server();
    let alarm = |action| AlarmRequest { action, alarm: AlarmType::NoSpace, ..AlarmRequest::default() };
    let raised: AlarmResponse = server.call(methods::ALARM, alarm(AlarmAction::Activate)).await.unwrap();
    assert_eq!(raised.alarms.len(), 1);
    let put = || PutRequest { key: bytes("a"), ..PutRequest::default() };
    assert_eq!(server.call::<_, PutResponse>(methods::PUT, put()).await, Err(errors::NO_SPACE.into()));
    assert_eq!(server.range(all()).await.count, 0, "reads go on");
    let unhealthy = server.get("/health").await;
    assert!(unhealthy.starts_with("HTTP/1.1 503 "), "{unhealthy}");
    assert!(unhealthy.contains(r#"{"health":"false","reason":"ALARM NOSPACE"}"#), "{unhealthy}");
    assert!(server.get("/health?exclude=NOSPACE").await.starts_with("HTTP/1.1 200 "));
    server.call::<_, AlarmResponse>(methods::ALARM, alarm(AlarmAction::Deactivate)).await.unwrap();
    assert!(server.call::<_, PutResponse>(methods::PUT, put()).await.is_ok());
    assert!(server.get("/health").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_store_above_its_quota_refuses_writes_until_it_has_shrunk() {
    let server = server_with(Options { quota_bytes: Some(1 << 20), ..Options::default() });
    let value = "v".repeat(50_000);
    let put = async |key: &str| {
        let request = PutRequest { key: bytes(key), value: bytes(&value), ..PutRequest::default() };
        server.call::<_, PutResponse>(methods::PUT, request).await
    };
    let mut revision = 0;
    let refused = loop {
        match put("a").await {
            Ok(response) => revision = response.header.unwrap().revision,
            Err(refused) => break refused,
        }
        assert!(revision < 1000, "space without end");
    };
    assert_eq!(refused, errors::NO_SPACE.into());
    let status: StatusResponse = server.call(methods::STATUS, StatusRequest {}).await.unwrap();
    assert_eq!(status.db_size_quota, 1 << 20);
    assert!(status.errors[0].contains("NOSPACE"), "{:?}", status.errors);
    assert_eq!(server.range(all()).await.count, 1, "reads are served");
    let granted: Result<LeaseGrantResponse, _> =
        server.call(methods::LEASE_GRANT, LeaseGrantRequest { ttl: 60, id: 0 }).await;
    assert_eq!(granted, Err(errors::NO_SPACE.into()));
    assert_eq!(server.delete("a", "").await.deleted, 1, "deletions make space");
    server.compact(revision + 1).await.unwrap();
    let _: DefragmentResponse = server.call(methods::DEFRAGMENT, DefragmentRequest {}).await.unwrap();
    let shrinks = async {
        while server.store.disk_bytes() > 500_000 {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, shrinks).await.expect("the files shrink");
    assert!(put("a").await.is_err(), "the alarm is still there");
    let disarm = AlarmRequest { action: AlarmAction::Deactivate, member_id: 0, alarm: AlarmType::NoSpace };
    let _: AlarmResponse = server.call(methods::ALARM, disarm).await.unwrap();
    put("a").await.unwrap();
}

#[tokio::test]
async fn a_lease_of_protected_keys_is_not_renewed() {
    let server = server_with(Options { protected_prefix: Some("/registry/"), ..Options::default() });
    let keep_alive = async |id: i64| {
        let (sender, mut receiver) = server
            .channel
            .streaming::<_, LeaseKeepAliveResponse>(methods::LEASE_KEEP_ALIVE, CallOptions::default());
        sender.send(&LeaseKeepAliveRequest { id }).await.unwrap();
        timeout(DEADLINE, receiver.next()).await.expect("no response")
    };
    let lease = server.store.grant(DEADLINE).await.unwrap();
    let key = "/registry/events/n/e".into();
    let op = corten_store::Op::Put {
        key,
        expect: corten_store::Expect::Any,
        value: b"{}".to_vec().into(),
        lease: Some(lease),
    };
    server.store.commit(op.into()).await.unwrap();
    assert_eq!(keep_alive(lease.0 as i64).await, Err(errors::PERMISSION_DENIED.into()));
    let own: LeaseGrantResponse =
        server.call(methods::LEASE_GRANT, LeaseGrantRequest { ttl: 60, id: 0 }).await.unwrap();
    assert_eq!(keep_alive(own.id).await.unwrap().map(|response| response.ttl), Some(60));
}

#[tokio::test]
async fn a_snapshot_is_a_database_and_its_checksum() {
    let server = server();
    for index in 0..50 {
        server.put(&format!("key-{index}"), &"v".repeat(index * 200)).await;
    }
    let (sender, mut receiver) =
        server.channel.streaming::<_, SnapshotResponse>(methods::SNAPSHOT, CallOptions::default());
    sender.send(&SnapshotRequest {}).await.unwrap();
    drop(sender);
    let (mut file, mut remaining) = (Vec::new(), None);
    while let Some(response) = timeout(DEADLINE, receiver.next()).await.expect("no response").unwrap() {
        let bytes = response.blob.len() as u64;
        assert!(remaining.is_none_or(|before| before == response.remaining_bytes + bytes));
        remaining = Some(response.remaining_bytes);
        file.extend_from_slice(&response.blob);
    }
    assert_eq!((remaining, file.len() % 512), (Some(0), 32), "pages and a checksum");
    let (database, checksum) = file.split_at(file.len() - 32);
    assert_eq!(<[u8; 32]>::from(Sha256::digest(database)), checksum);
}
