//! Entry point of the fuzz targets in `fuzz/`; nothing else calls it.

use std::fmt::Debug;

use corten_grpc::protobuf::Message;

use crate::*;

/// A message, as every kind that nests others or has lists.
pub fn message(data: &[u8]) {
    check::<RangeRequest>(data);
    check::<RangeResponse>(data);
    check::<RangeStreamResponse>(data);
    check::<PutRequest>(data);
    check::<PutResponse>(data);
    check::<DeleteRangeResponse>(data);
    check::<TxnRequest>(data);
    check::<TxnResponse>(data);
    check::<WatchRequest>(data);
    check::<WatchResponse>(data);
    check::<LeaseTimeToLiveResponse>(data);
    check::<LeaseLeasesResponse>(data);
    check::<MemberListResponse>(data);
    check::<StatusResponse>(data);
    check::<AlarmResponse>(data);
    check::<SnapshotResponse>(data);
}

/// A message that decodes is written in a form that decodes to the same message.
fn check<T: Message + Debug + PartialEq>(data: &[u8]) {
    let Some(message) = T::decode(data) else { return };
    let again = T::decode(&message.encode()).expect("a message that was written is read");
    assert_eq!(again, message);
}
