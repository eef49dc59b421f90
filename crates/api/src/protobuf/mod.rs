//! `application/vnd.kubernetes.protobuf`: objects as protobuf messages inside an envelope that names
//! their type.
//!
//! A message is read into, and written from, the same `Value` tree that JSON gives, by the field numbers
//! of the schema table; there is no generated code. What is written is byte for byte what upstream's
//! generated marshallers write: fields in order of number, non-pointer fields even when zero, maps in order
//! of key. What is read still holds those zero values: `conform` drops them, as it must run anyway.
//!
//! Only built-in types are on this wire; CRDs are not, and neither is `Table`: whoever asks for those in
//! protobuf alone is answered 406, as upstream does.

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
