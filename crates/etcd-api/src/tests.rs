//! Messages against bytes that etcd's own client library wrote.

use bytes::Bytes;
use corten_grpc::protobuf::Message;

use super::*;

#[track_caller]
fn check<T: Message + PartialEq + std::fmt::Debug>(message: &T, bytes: &[u8]) {
    assert_eq!(message.encode(), bytes);
    assert_eq!(T::decode(bytes).as_ref(), Some(message));
}

#[test]
fn messages_have_upstreams_bytes() {
    let key = Bytes::from_static(b"k");
    check(
        &RangeRequest { key: key.clone(), limit: 5, max_create_revision: 9, ..RangeRequest::default() },
        &[0x0a, 1, b'k', 0x18, 5, 0x68, 9],
    );
    let compare = Compare {
        result: CompareResult::NotEqual,
        target: CompareTarget::Lease,
        key: key.clone(),
        lease: 7,
        range_end: Bytes::from_static(b"l"),
        ..Compare::default()
    };
    let put = PutRequest { key, prev_kv: true, ..PutRequest::default() };
    check(
        &TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp::Put(Box::new(put))],
            failure: vec![RequestOp::Txn(Box::default())],
        },
        &[
            0x0a, 13, 0x08, 3, 0x10, 4, 0x1a, 1, b'k', 0x40, 7, 0x82, 4, 1, b'l', //
            0x12, 7, 0x12, 5, 0x0a, 1, b'k', 0x20, 1, //
            0x1a, 2, 0x22, 0,
        ],
    );
    check(&WatchRequest::Progress(WatchProgressRequest {}), &[0x1a, 0]);
    let event = Event { kind: EventType::Delete, kv: Some(KeyValue::default()), prev_kv: None };
    check(
        &WatchResponse { watch_id: 1, events: vec![event], ..WatchResponse::default() },
        &[0x10, 1, 0x5a, 4, 0x08, 1, 0x12, 0],
    );
    check(
        &WatchCreateRequest { filters: vec![FILTER_NO_PUT, FILTER_NO_DELETE], ..Default::default() },
        &[0x2a, 2, 0, 1],
    );
}
