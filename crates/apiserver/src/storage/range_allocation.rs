//! The record of node ports, of a kind that no API serves: `RangeAllocation`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use corten_api::{Value, json, protobuf};
use corten_grpc::protobuf::{Message, messages};

messages! {
    pub(super) RangeAllocation { 1 metadata: Bytes, 2 range: String, 3 data: Bytes }
}

/// Empty metadata, as upstream's encoder writes them.
const EMPTY_METADATA: &[u8] = b"\x0a\0\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0";

pub(super) fn is_key(key: &str) -> bool {
    key.starts_with("/registry/ranges/")
}

/// The stored form of a record.
pub(super) fn to_protobuf(record: &[u8]) -> Result<Vec<u8>, String> {
    let record = json::parse(record).map_err(|error| error.to_string())?;
    let data = STANDARD.decode(record.str_at(&["data"]).unwrap_or_default());
    let message = RangeAllocation {
        metadata: Bytes::from_static(EMPTY_METADATA),
        range: record.str_at(&["range"]).unwrap_or_default().to_owned(),
        data: data.map_err(|error| error.to_string())?.into(),
    };
    let mut stored = Vec::new();
    protobuf::encode_envelope("v1", "RangeAllocation", &message.encode(), &mut stored);
    Ok(stored)
}

/// The record of a stored form.
pub(super) fn of_protobuf(stored: &[u8]) -> Result<Vec<u8>, String> {
    let envelope = protobuf::decode_envelope(stored).map_err(|error| error.to_string())?;
    let message = RangeAllocation::decode(envelope.raw).ok_or("it is not a RangeAllocation")?;
    let mut record = Value::object();
    record.set(&["kind"], "RangeAllocation");
    record.set(&["apiVersion"], "v1");
    record.set(&["metadata"], Value::object());
    record.set(&["range"], message.range);
    record.set(&["data"], STANDARD.encode(&message.data));
    Ok(json::write_to_string(&record).into_bytes())
}
