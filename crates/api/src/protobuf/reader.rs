//! Protobuf's wire format: tags, varints and lengths from untrusted bytes.
//!
//! Every read is checked, and errors are worded as in upstream's generated
//! code.

use thiserror::Error;

use crate::conform::TypeError;
use crate::json::ParseError;
use crate::value::Str;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("empty data")]
    Empty,
    #[error("empty body")]
    EmptyBody,
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotProtobuf,
    #[error("object {0} does not implement the protobuf marshalling interface and cannot be decoded")]
    NotOnWire(String),
    #[error("unexpected EOF")]
    UnexpectedEnd,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    IllegalTag { message: Str, number: i32, wire: u8 },
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType { field: Str, wire: u8 },
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    #[error("proto: {0}: wiretype end group for non-group")]
    StrayEndGroup(Str),
    #[error("proto: unexpected end of group")]
    UnexpectedEndOfGroup,
    #[error("exceeded max depth")]
    TooDeep,
    #[error("field {field} holds invalid JSON")]
    Json {
        field: Str,
        #[source]
        source: ParseError,
    },
    #[error("field {field} holds a number that JSON cannot represent")]
    NotFinite { field: Str },
    #[error("field {field} holds a time out of range")]
    Time { field: Str },
    #[error("field {field} holds an invalid schema")]
    Schema {
        field: Str,
        #[source]
        source: TypeError,
    },
}

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// The rest of a message.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field's number and wire type; `None` at the end. `message` is for the error.
    pub(super) fn tag(&mut self, message: &Str) -> Result<Option<(u32, u8)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = (tag & 7) as u8;
        // As in Go, bits beyond 32 are dropped.
        let number = (tag >> 3) as i32;
        if wire == END_GROUP {
            return Err(DecodeError::StrayEndGroup(message.clone()));
        }
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Some((number, wire))),
            _ => Err(DecodeError::IllegalTag { message: message.clone(), number, wire }),
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (i, byte) in self.rest.iter().enumerate() {
            if i == 10 {
                return Err(DecodeError::Overflow);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() >= 10 { DecodeError::Overflow } else { DecodeError::UnexpectedEnd })
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<8>().ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*head))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| DecodeError::UnexpectedEnd)?;
        let (head, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(head)
    }

    /// Skips the value of an unknown field.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), DecodeError> {
        let mut groups = 0usize;
        let mut wire = wire;
        loop {
            match wire {
                VARINT => {
                    self.varint()?;
                }
                FIXED64 => {
                    self.fixed64()?;
                }
                BYTES => {
                    self.bytes()?;
                }
                FIXED32 => {
                    self.rest = self.rest.get(4..).ok_or(DecodeError::UnexpectedEnd)?;
                }
                START_GROUP => groups += 1,
                END_GROUP => {
                    groups = groups.checked_sub(1).ok_or(DecodeError::UnexpectedEndOfGroup)?;
                }
                other => return Err(DecodeError::IllegalWireType(other)),
            }
            if groups == 0 {
                return Ok(());
            }
            wire = (self.varint()? & 7) as u8;
        }
    }
}
