//! Keys: ranges, puts, deletions, transactions, compaction.

use bytes::Bytes;
use corten_grpc::protobuf::{choices, enumerations, messages};

messages! {
    pub ResponseHeader { 1 cluster_id: u64, 2 member_id: u64, 3 revision: i64, 4 raft_term: u64 }
    pub KeyValue {
        1 key: Bytes, 2 create_revision: i64, 3 mod_revision: i64, 4 version: i64, 5 value: Bytes, 6 lease: i64,
    }

    pub RangeRequest {
        1 key: Bytes, 2 range_end: Bytes, 3 limit: i64, 4 revision: i64, 5 sort_order: SortOrder,
        6 sort_target: SortTarget, 7 serializable: bool, 8 keys_only: bool, 9 count_only: bool, 10 min_mod_revision: i64,
        11 max_mod_revision: i64, 12 min_create_revision: i64, 13 max_create_revision: i64,
    }
    pub RangeResponse { 1 header: Option<ResponseHeader>, 2 kvs: Vec<KeyValue>, 3 more: bool, 4 count: i64 }
    /// A part of a range. Only the last one has a header, `more` and `count`.
    pub RangeStreamResponse { 1 range_response: Option<RangeResponse> }
    pub PutRequest {
        1 key: Bytes, 2 value: Bytes, 3 lease: i64, 4 prev_kv: bool, 5 ignore_value: bool, 6 ignore_lease: bool,
    }
    pub PutResponse { 1 header: Option<ResponseHeader>, 2 prev_kv: Option<KeyValue> }
    pub DeleteRangeRequest { 1 key: Bytes, 2 range_end: Bytes, 3 prev_kv: bool }
    pub DeleteRangeResponse { 1 header: Option<ResponseHeader>, 2 deleted: i64, 3 prev_kvs: Vec<KeyValue> }

    /// A condition on a key, or on every key of a range. Of the last five fields, the target's own is compared.
    pub Compare {
        1 result: CompareResult, 2 target: CompareTarget, 3 key: Bytes, 4 version: i64, 5 create_revision: i64,
        6 mod_revision: i64, 7 value: Bytes, 8 lease: i64, 64 range_end: Bytes,
    }
    pub TxnRequest { 1 compare: Vec<Compare>, 2 success: Vec<RequestOp>, 3 failure: Vec<RequestOp> }
    pub TxnResponse { 1 header: Option<ResponseHeader>, 2 succeeded: bool, 3 responses: Vec<ResponseOp> }

    pub CompactionRequest { 1 revision: i64, 2 physical: bool }
    pub CompactionResponse { 1 header: Option<ResponseHeader> }
}

choices! {
    pub RequestOp {
        1 Range(Box<RangeRequest>), 2 Put(Box<PutRequest>), 3 DeleteRange(Box<DeleteRangeRequest>), 4 Txn(Box<TxnRequest>),
    }
    pub ResponseOp {
        1 Range(Box<RangeResponse>), 2 Put(Box<PutResponse>), 3 DeleteRange(Box<DeleteRangeResponse>),
        4 Txn(Box<TxnResponse>),
    }
}

enumerations! {
    pub SortOrder { 0 None, 1 Ascend, 2 Descend }
    pub SortTarget { 0 Key, 1 Version, 2 Create, 3 Mod, 4 Value }
    pub CompareResult { 0 Equal, 1 Greater, 2 Less, 3 NotEqual }
    pub CompareTarget { 0 Version, 1 Create, 2 Mod, 3 Value, 4 Lease }
}
