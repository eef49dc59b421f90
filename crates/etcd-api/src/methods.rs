//! The paths of the methods.

pub const RANGE: &str = "/etcdserverpb.KV/Range";
pub const RANGE_STREAM: &str = "/etcdserverpb.KV/RangeStream";
pub const PUT: &str = "/etcdserverpb.KV/Put";
pub const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
pub const TXN: &str = "/etcdserverpb.KV/Txn";
pub const COMPACT: &str = "/etcdserverpb.KV/Compact";

pub const WATCH: &str = "/etcdserverpb.Watch/Watch";

pub const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
pub const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
pub const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
pub const LEASE_LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";

pub const MEMBER_ADD: &str = "/etcdserverpb.Cluster/MemberAdd";
pub const MEMBER_REMOVE: &str = "/etcdserverpb.Cluster/MemberRemove";
pub const MEMBER_UPDATE: &str = "/etcdserverpb.Cluster/MemberUpdate";
pub const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
pub const MEMBER_PROMOTE: &str = "/etcdserverpb.Cluster/MemberPromote";

pub const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";
pub const DEFRAGMENT: &str = "/etcdserverpb.Maintenance/Defragment";
pub const HASH: &str = "/etcdserverpb.Maintenance/Hash";
pub const HASH_KV: &str = "/etcdserverpb.Maintenance/HashKV";
pub const SNAPSHOT: &str = "/etcdserverpb.Maintenance/Snapshot";
pub const MOVE_LEADER: &str = "/etcdserverpb.Maintenance/MoveLeader";
pub const DOWNGRADE: &str = "/etcdserverpb.Maintenance/Downgrade";

pub const AUTH_STATUS: &str = "/etcdserverpb.Auth/AuthStatus";
pub const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
/// The methods that change or read users and roles, which exist only on a server with authentication.
pub const AUTH_ADMINISTRATION: [&str; 15] = [
    "/etcdserverpb.Auth/AuthEnable",
    "/etcdserverpb.Auth/AuthDisable",
    "/etcdserverpb.Auth/UserAdd",
    "/etcdserverpb.Auth/UserGet",
    "/etcdserverpb.Auth/UserList",
    "/etcdserverpb.Auth/UserDelete",
    "/etcdserverpb.Auth/UserChangePassword",
    "/etcdserverpb.Auth/UserGrantRole",
    "/etcdserverpb.Auth/UserRevokeRole",
    "/etcdserverpb.Auth/RoleAdd",
    "/etcdserverpb.Auth/RoleGet",
    "/etcdserverpb.Auth/RoleList",
    "/etcdserverpb.Auth/RoleDelete",
    "/etcdserverpb.Auth/RoleGrantPermission",
    "/etcdserverpb.Auth/RoleRevokePermission",
];
