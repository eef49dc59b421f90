//! Watches: requests and events of one stream.

use bytes::Bytes;
use corten_grpc::protobuf::{choices, enumerations, messages};

use crate::{KeyValue, ResponseHeader};

messages! {
    pub Event { 1 kind: EventType, 2 kv: Option<KeyValue>, 3 prev_kv: Option<KeyValue> }

    pub WatchCreateRequest {
        1 key: Bytes, 2 range_end: Bytes, 3 start_revision: i64, 4 progress_notify: bool, 5 filters: Vec<i64>,
        6 prev_kv: bool, 7 watch_id: i64, 8 fragment: bool,
    }
    pub WatchCancelRequest { 1 watch_id: i64 }
    pub WatchProgressRequest {}
    pub WatchResponse {
        1 header: Option<ResponseHeader>, 2 watch_id: i64, 3 created: bool, 4 canceled: bool, 5 compact_revision: i64,
        6 cancel_reason: String, 7 fragment: bool, 11 events: Vec<Event>,
    }
}

choices! {
    pub WatchRequest {
        1 Create(Box<WatchCreateRequest>), 2 Cancel(WatchCancelRequest), 3 Progress(WatchProgressRequest),
    }
}

enumerations! {
    pub EventType { 0 Put, 1 Delete }
}

/// The values of `filters`: the events that a watch does not want.
pub const FILTER_NO_PUT: i64 = 0;
pub const FILTER_NO_DELETE: i64 = 1;
