//! `application/vnd.kubernetes.protobuf`: objects as protobuf messages inside an envelope that names
//! their type.
//!
//! A message is decoded into, and encoded from, the same `Value` tree as JSON, by the field numbers
//! of the schema table; there is no generated code. The encoding is byte for byte that of upstream's
//! generated marshallers: fields in order of number, non-pointer fields even when zero, maps in order
//! of key. A decoded tree still has those zero values: `conform` drops them, as it must run anyway.
//!
//! Only built-in types have this format; custom resources do not, and neither does `Table`: a client that accepts only
//! protobuf for those gets a 406, as upstream.

mod decode;
mod encode;
mod envelope;
mod plan;
mod reader;
mod writer;

pub use decode::decode;
pub use encode::{EncodeError, encode, encode_list_from_items};
pub use envelope::{
    Envelope, MAGIC, decode_envelope, decode_object, encode_envelope, encode_object, encode_watch_event,
};
pub use reader::DecodeError;
