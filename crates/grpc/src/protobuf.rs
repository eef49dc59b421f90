//! Protobuf messages of numbers, texts, bytes, lists, maps and choices, to and from plain Rust types. Tables map field
//! numbers to fields; unknown fields are skipped, as protobuf requires.
//!
//! A codec of our own rather than `prost`, because the types are the callers' own: the CRI's messages decode straight into
//! the types of the container runtime's trait, with its enums, timestamps and profiles, where derived types would be a
//! second set of about a hundred structs and the conversions between them.
//!
//! Invariants: decoding never panics; messages nest at most [`MAX_DEPTH`] deep, so a decoder's stack is bounded; what a
//! decoded message holds is bounded by a constant times the length of its bytes.

mod fields;

/// The limit of nested messages.
pub const MAX_DEPTH: u8 = 100;
/// The highest field number that protobuf allows.
const MAX_NUMBER: u64 = (1 << 29) - 1;

/// A message: fields in any order, absent ones at their default.
pub trait Message: Default {
    fn put_fields(&self, to: &mut Vec<u8>);

    /// Sets the field with this number, or skips an unknown one. `None` if the value is invalid.
    fn take_field(&mut self, number: u32, value: Value<'_>) -> Option<()>;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put_fields(&mut bytes);
        bytes
    }

    /// `None` if the bytes are not a valid message.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut message = Self::default();
        message.merge(Nested { bytes, depth: MAX_DEPTH })?;
        Some(message)
    }

    /// Sets the fields that the bytes contain.
    fn merge(&mut self, mut nested: Nested<'_>) -> Option<()> {
        while let Some((number, value)) = nested.next_field()? {
            self.take_field(number, value)?;
        }
        Some(())
    }
}

/// An encoded value of a field.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    Number(u64),
    Bytes(Nested<'a>),
}

/// Bytes of a field, possibly of a message inside another one.
#[derive(Debug, Clone, Copy)]
pub struct Nested<'a> {
    pub bytes: &'a [u8],
    /// The levels of messages that may still begin.
    depth: u8,
}

impl<'a> Nested<'a> {
    /// The next field; `Some(None)` at the end, `None` for invalid bytes.
    pub fn next_field(&mut self) -> Option<Option<(u32, Value<'a>)>> {
        if self.bytes.is_empty() {
            return Some(None);
        }
        let key = varint(&mut self.bytes)?;
        let number =
            u32::try_from(Some(key >> 3).filter(|number| (1..=MAX_NUMBER).contains(number))?).ok()?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut self.bytes)?),
            1 => Value::Number(self.fixed(8)?),
            5 => Value::Number(self.fixed(4)?),
            2 => {
                let length = usize::try_from(varint(&mut self.bytes)?).ok()?;
                Value::Bytes(Nested { bytes: self.split(length)?, depth: self.depth.checked_sub(1)? })
            }
            _ => return None,
        };
        Some(Some((number, value)))
    }

    fn fixed(&mut self, length: usize) -> Option<u64> {
        let mut number = [0; 8];
        number[..length].copy_from_slice(self.split(length)?);
        Some(u64::from_le_bytes(number))
    }

    fn split(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }
}

/// A type that a field can have.
pub trait Field {
    /// Writes nothing for a default.
    fn put(&self, number: u32, to: &mut Vec<u8>);

    /// `None` if the value is invalid for this type.
    fn take(&mut self, value: Value<'_>) -> Option<()>;
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn put_varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The key of a field with a length.
fn put_key(number: u32, to: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | 2, to);
}

/// Writes a field of bytes, also if there are none.
pub fn put_bytes(number: u32, bytes: &[u8], to: &mut Vec<u8>) {
    put_key(number, to);
    put_varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// Writes a field of bytes that `fill` appends.
pub fn put_nested(number: u32, to: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    put_key(number, to);
    // Most nested messages are shorter than 128 bytes, so their length is one byte.
    let at = to.len();
    to.push(0);
    fill(to);
    let length = to.len() - at - 1;
    if length < 0x80 {
        to[at] = length as u8;
        return;
    }
    let mut encoded = Vec::with_capacity(5);
    put_varint(length as u64, &mut encoded);
    to.splice(at..=at, encoded);
}

/// Lists the fields of a message, by number. A field of a type that is no [`Field`] names a module with its functions `put`
/// and `take`: `4 created_at via nanoseconds`.
#[macro_export]
macro_rules! message {
    ($name:ty { $($number:literal $field:ident $(via $codec:ident)?),* $(,)? }) => {
        impl $crate::protobuf::Message for $name {
            fn put_fields(&self, to: &mut Vec<u8>) {
                $($crate::message!(@put $($codec)?)(&self.$field, $number, to);)*
                let _ = to;
            }

            fn take_field(&mut self, number: u32, value: $crate::protobuf::Value<'_>) -> Option<()> {
                match number {
                    $($number => $crate::message!(@take $($codec)?)(&mut self.$field, value),)*
                    _ => {
                        let _ = value;
                        Some(())
                    }
                }
            }
        }
    };
    (@put) => { $crate::protobuf::Field::put };
    (@put $codec:ident) => { $codec::put };
    (@take) => { $crate::protobuf::Field::take };
    (@take $codec:ident) => { $codec::take };
}

/// Defines messages: structs whose fields have numbers.
#[macro_export]
macro_rules! messages {
    ($($(#[$attribute:meta])* $visible:vis $name:ident {
        $($number:literal $field:ident: $kind:ty),* $(,)?
    })*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, Default, PartialEq)]
        $visible struct $name {
            $($visible $field: $kind,)*
        }

        $crate::message!($name { $($number $field),* });
    )*};
}

/// Defines enums of numbers. The first value is the default; other numbers that a peer sends are kept.
#[macro_export]
macro_rules! enumerations {
    ($($(#[$attribute:meta])* $visible:vis $name:ident { $($number:literal $choice:ident),* $(,)? })*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visible enum $name {
            $($choice,)*
            /// A value that this version does not know.
            Other(i32),
        }

        impl $name {
            $visible fn number(self) -> i32 {
                match self {
                    $($name::$choice => $number,)*
                    $name::Other(number) => number,
                }
            }
        }

        impl From<i32> for $name {
            fn from(number: i32) -> $name {
                match number {
                    $($number => $name::$choice,)*
                    other => $name::Other(other),
                }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::from(0)
            }
        }

        impl $crate::protobuf::Field for $name {
            fn put(&self, number: u32, to: &mut Vec<u8>) {
                $crate::protobuf::Field::put(&self.number(), number, to);
            }

            fn take(&mut self, value: $crate::protobuf::Value<'_>) -> Option<()> {
                let mut number = 0i32;
                $crate::protobuf::Field::take(&mut number, value)?;
                *self = $name::from(number);
                Some(())
            }
        }
    )*};
}

/// Defines messages of which at most one field is set (`oneof`). The last one wins, as protobuf requires.
#[macro_export]
macro_rules! choices {
    ($($(#[$attribute:meta])* $visible:vis $name:ident { $($number:literal $choice:ident($kind:ty)),* $(,)? })*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, Default, PartialEq)]
        $visible enum $name {
            #[default]
            None,
            $($choice($kind),)*
        }

        impl $crate::protobuf::Message for $name {
            fn put_fields(&self, to: &mut Vec<u8>) {
                match self {
                    $name::None => {}
                    $($name::$choice(value) => $crate::protobuf::Choice::put_chosen(value, $number, to),)*
                }
            }

            fn take_field(&mut self, number: u32, value: $crate::protobuf::Value<'_>) -> Option<()> {
                match number {
                    $($number => {
                        let mut chosen = <$kind>::default();
                        $crate::protobuf::Field::take(&mut chosen, value)?;
                        *self = $name::$choice(chosen);
                    })*
                    _ => {}
                }
                Some(())
            }
        }
    )*};
}

/// A type that a field of a `oneof` can have: it is written also if it is the default.
pub trait Choice: Field {
    fn put_chosen(&self, number: u32, to: &mut Vec<u8>);
}

pub use crate::{choices, enumerations, message, messages};

#[cfg(test)]
mod tests;
