//! The server: its parts, its options, and its table of methods.

use std::sync::Arc;
use std::time::Duration;

use corten_etcd_api::{methods, *};
use corten_grpc::health::{CHECK, HealthCheckRequest, HealthCheckResponse, ServingStatus};
use corten_grpc::{Router, Status};
use corten_store::Store;
use parking_lot::Mutex;

use crate::Identity;
use crate::maintenance;
use crate::recent::Recent;

/// The room for keys and framing that etcd adds to the limit of a request.
const MESSAGE_OVERHEAD: usize = 512 << 10;

/// The limits of the server; the defaults are etcd's.
#[derive(Clone, Debug)]
pub struct Options {
    pub max_txn_ops: usize,
    pub max_request_bytes: usize,
    pub progress_notify_interval: Duration,
    /// The size of the store's files at which writes are refused until a client has disarmed the alarm; `None` for no limit.
    pub quota_bytes: Option<u64>,
    /// Keys below it are read only: another part of the process owns them.
    pub protected_prefix: Option<&'static str>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_txn_ops: 128,
            max_request_bytes: 3 << 19,
            progress_notify_interval: Duration::from_secs(600),
            quota_bytes: None,
            protected_prefix: None,
        }
    }
}

/// etcd's API on a store.
pub struct Etcd {
    pub(crate) store: Store,
    pub(crate) identity: Identity,
    pub(crate) options: Options,
    pub(crate) recent: Arc<Recent>,
    pub(crate) alarms: Mutex<Vec<AlarmType>>,
}

impl Etcd {
    pub fn new(store: Store, identity: Identity, options: Options) -> Arc<Etcd> {
        let recent = Recent::of(&store);
        tokio::spawn(Recent::age(Arc::downgrade(&recent), store.progress()));
        Arc::new(Etcd { store, identity, options, recent, alarms: Mutex::default() })
    }

    pub(crate) fn header(&self) -> ResponseHeader {
        self.identity.header(self.store.revision())
    }

    /// The methods of all services.
    pub fn router(self: &Arc<Etcd>) -> Router {
        let max_message = self.options.max_request_bytes.saturating_add(MESSAGE_OVERHEAD);
        let router = Router::default().with_max_message(max_message);
        let router =
            self.with_administration(self.with_maintenance(self.with_leases(self.with_keys(router))));
        router.unary(CHECK, |_, _: HealthCheckRequest| async {
            Ok(HealthCheckResponse { status: ServingStatus::Serving })
        })
    }

    fn with_keys(self: &Arc<Etcd>, router: Router) -> Router {
        let call = || Arc::clone(self);
        let (range, stream, put, delete, txn, compact, watch) =
            (call(), call(), call(), call(), call(), call(), call());
        router
            .unary(methods::RANGE, move |_, request| {
                let etcd = Arc::clone(&range);
                async move { etcd.range(request).await }
            })
            .server_streaming(methods::RANGE_STREAM, move |_, request, sender| {
                let etcd = Arc::clone(&stream);
                async move { etcd.range_stream(request, sender).await }
            })
            .unary(methods::PUT, move |_, request| {
                let etcd = Arc::clone(&put);
                async move { etcd.put(request).await }
            })
            .unary(methods::DELETE_RANGE, move |_, request| {
                let etcd = Arc::clone(&delete);
                async move { etcd.delete_range(request).await }
            })
            .unary(methods::TXN, move |_, request| {
                let etcd = Arc::clone(&txn);
                async move { etcd.txn(request).await }
            })
            .unary(methods::COMPACT, move |_, request| {
                let etcd = Arc::clone(&compact);
                async move { etcd.compact(request).await }
            })
            .streaming(methods::WATCH, move |_, requests, sender| Arc::clone(&watch).watch(requests, sender))
    }

    fn with_leases(self: &Arc<Etcd>, router: Router) -> Router {
        let call = || Arc::clone(self);
        let (grant, revoke, keep_alive, ttl, leases) = (call(), call(), call(), call(), call());
        router
            .unary(methods::LEASE_GRANT, move |_, request| {
                let etcd = Arc::clone(&grant);
                async move { etcd.lease_grant(request).await }
            })
            .unary(methods::LEASE_REVOKE, move |_, request| {
                let etcd = Arc::clone(&revoke);
                async move { etcd.lease_revoke(request).await }
            })
            .streaming(methods::LEASE_KEEP_ALIVE, move |_, requests, sender| {
                let etcd = Arc::clone(&keep_alive);
                async move { etcd.lease_keep_alive(requests, sender).await }
            })
            .unary(methods::LEASE_TIME_TO_LIVE, move |_, request| ready(Ok(ttl.lease_time_to_live(&request))))
            .unary(methods::LEASE_LEASES, move |_, _: LeaseLeasesRequest| ready(Ok(leases.lease_leases())))
    }

    fn with_maintenance(self: &Arc<Etcd>, router: Router) -> Router {
        let call = || Arc::clone(self);
        let (status, alarm, defragment, hash, hash_kv, leader, downgrade, snapshot) =
            (call(), call(), call(), call(), call(), call(), call(), call());
        router
            .unary(methods::STATUS, move |_, _: StatusRequest| ready(Ok(status.status())))
            .unary(methods::ALARM, move |_, request| ready(Ok(alarm.alarm(&request))))
            .unary(methods::DEFRAGMENT, move |_, _: DefragmentRequest| {
                let etcd = Arc::clone(&defragment);
                async move { etcd.defragment().await }
            })
            .unary(methods::HASH, move |_, _: HashRequest| {
                let etcd = Arc::clone(&hash);
                async move { etcd.hash(0).await.map(|all| HashResponse { header: all.header, hash: all.hash }) }
            })
            .unary(methods::HASH_KV, move |_, request: HashKvRequest| {
                let etcd = Arc::clone(&hash_kv);
                async move { etcd.hash(request.revision).await }
            })
            .server_streaming(methods::SNAPSHOT, move |_, _: SnapshotRequest, sender| {
                let etcd = Arc::clone(&snapshot);
                async move { etcd.snapshot(sender).await }
            })
            .unary(methods::MOVE_LEADER, move |_, request| ready(leader.move_leader(&request)))
            .unary(methods::DOWNGRADE, move |_, request| ready(downgrade.downgrade(&request)))
    }

    fn with_administration(self: &Arc<Etcd>, router: Router) -> Router {
        let call = || Arc::clone(self);
        let (list, remove, promote, update, status) = (call(), call(), call(), call(), call());
        let router = router
            .unary(methods::MEMBER_LIST, move |_, _: MemberListRequest| ready(Ok(list.member_list())))
            .unary(methods::MEMBER_REMOVE, move |_, request| ready(remove.member_remove(&request)))
            .unary(methods::MEMBER_PROMOTE, move |_, request| ready(promote.member_promote(&request)))
            .unary(methods::MEMBER_UPDATE, move |_, request| ready(update.member_update(&request)))
            .unary(methods::MEMBER_ADD, |_, _: MemberAddRequest| {
                ready(Err::<MemberAddResponse, _>(maintenance::one_member()))
            })
            .unary(methods::AUTH_STATUS, move |_, _: AuthStatusRequest| ready(Ok(status.auth_status())))
            .unary(methods::AUTHENTICATE, |_, _: AuthenticateRequest| {
                ready(Err::<AuthenticateResponse, _>(maintenance::authenticate()))
            });
        methods::AUTH_ADMINISTRATION.iter().fold(router, |router, method| {
            router.unary(method, |_, _: AuthRequest| ready(Err::<AuthResponse, _>(maintenance::no_users())))
        })
    }
}

fn ready<T>(result: Result<T, Status>) -> std::future::Ready<Result<T, Status>> {
    std::future::ready(result)
}
