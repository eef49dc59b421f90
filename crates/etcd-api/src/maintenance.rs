//! Maintenance of a member: status, alarms, defragmentation, hashes, snapshots.

use bytes::Bytes;
use corten_grpc::protobuf::{enumerations, messages};

use crate::ResponseHeader;

messages! {
    pub AlarmRequest { 1 action: AlarmAction, 2 member_id: u64, 3 alarm: AlarmType }
    pub AlarmMember { 1 member_id: u64, 2 alarm: AlarmType }
    pub AlarmResponse { 1 header: Option<ResponseHeader>, 2 alarms: Vec<AlarmMember> }

    pub StatusRequest {}
    pub DowngradeInfo { 1 enabled: bool, 2 target_version: String }
    pub StatusResponse {
        1 header: Option<ResponseHeader>, 2 version: String, 3 db_size: i64, 4 leader: u64, 5 raft_index: u64,
        6 raft_term: u64, 7 raft_applied_index: u64, 8 errors: Vec<String>, 9 db_size_in_use: i64, 10 is_learner: bool,
        11 storage_version: String, 12 db_size_quota: i64, 13 downgrade_info: Option<DowngradeInfo>,
    }

    pub DefragmentRequest {}
    pub DefragmentResponse { 1 header: Option<ResponseHeader> }
    pub HashRequest {}
    pub HashResponse { 1 header: Option<ResponseHeader>, 2 hash: u32 }
    pub HashKvRequest { 1 revision: i64 }
    pub HashKvResponse { 1 header: Option<ResponseHeader>, 2 hash: u32, 3 compact_revision: i64, 4 hash_revision: i64 }
    pub SnapshotRequest {}
    pub SnapshotResponse { 1 header: Option<ResponseHeader>, 2 remaining_bytes: u64, 3 blob: Bytes, 4 version: String }
    pub MoveLeaderRequest { 1 target_id: u64 }
    pub MoveLeaderResponse { 1 header: Option<ResponseHeader> }
    pub DowngradeRequest { 1 action: DowngradeAction, 2 version: String }
    pub DowngradeResponse { 1 header: Option<ResponseHeader>, 2 version: String }
}

enumerations! {
    pub AlarmType { 0 None, 1 NoSpace, 2 Corrupt }
    pub AlarmAction { 0 Get, 1 Activate, 2 Deactivate }
    pub DowngradeAction { 0 Validate, 1 Enable, 2 Cancel }
}
