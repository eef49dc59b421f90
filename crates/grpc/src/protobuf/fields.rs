//! The types that fields have.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Choice, Field, Message, Nested, Value, message, put_bytes, put_nested, put_varint, varint};

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, number: u32, to: &mut Vec<u8>) {
                if *self != 0 {
                    self.put_chosen(number, to);
                }
            }

            fn take(&mut self, value: Value<'_>) -> Option<()> {
                let Value::Number(number) = value else { return None };
                *self = number as $number;
                Some(())
            }
        }

        impl Choice for $number {
            fn put_chosen(&self, number: u32, to: &mut Vec<u8>) {
                put_varint(u64::from(number) << 3, to);
                // Negative numbers are written in 64 bits.
                put_varint(*self as i64 as u64, to);
            }
        }
    )*};
}

numbers!(i32, i64, u16, u32, u64);

impl Field for bool {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        u32::from(*self).put(number, to);
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Number(number) = value else { return None };
        *self = number != 0;
        Some(())
    }
}

impl Field for String {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(number, self.as_bytes(), to);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Bytes(Nested { bytes, .. }) = value else { return None };
        *self = String::from_utf8_lossy(bytes).into_owned();
        Some(())
    }
}

impl Field for Vec<u8> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(number, self, to);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Bytes(Nested { bytes, .. }) = value else { return None };
        *self = bytes.to_vec();
        Some(())
    }
}

/// Decoded bytes are copies, so that a stored value does not keep the message it came in.
impl Field for Bytes {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(number, self, to);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Bytes(Nested { bytes, .. }) = value else { return None };
        *self = Bytes::copy_from_slice(bytes);
        Some(())
    }
}

impl Choice for Bytes {
    fn put_chosen(&self, number: u32, to: &mut Vec<u8>) {
        put_bytes(number, self, to);
    }
}

impl Field for Vec<String> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        self.iter().for_each(|text| put_bytes(number, text.as_bytes(), to));
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let mut text = String::new();
        Field::take(&mut text, value)?;
        self.push(text);
        Some(())
    }
}

impl Field for Vec<Bytes> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        self.iter().for_each(|bytes| put_bytes(number, bytes, to));
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let mut bytes = Bytes::new();
        Field::take(&mut bytes, value)?;
        self.push(bytes);
        Some(())
    }
}

/// Lists of numbers come packed or one by one.
impl Field for Vec<i64> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        if !self.is_empty() {
            put_nested(number, to, |to| self.iter().for_each(|one| put_varint(*one as u64, to)));
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        match value {
            Value::Number(number) => self.push(number as i64),
            Value::Bytes(Nested { bytes: mut packed, .. }) => {
                while !packed.is_empty() {
                    self.push(varint(&mut packed)? as i64);
                }
            }
        }
        Some(())
    }
}

/// Pairs of a key and a value, in the order of the message.
impl Field for Vec<(String, String)> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        for (key, value) in self {
            put_nested(number, to, |to| {
                key.put(1, to);
                value.put(2, to);
            });
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let mut pair = Pair::default();
        Field::take(&mut pair, value)?;
        self.push((pair.key, pair.value));
        Some(())
    }
}

/// Maps, in the order of their keys.
impl<V: Field + Default> Field for BTreeMap<String, V> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        for (key, value) in self {
            put_nested(number, to, |to| {
                key.put(1, to);
                value.put(2, to);
            });
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Bytes(mut nested) = value else { return None };
        let (mut key, mut mapped) = (String::new(), V::default());
        while let Some((number, value)) = nested.next_field()? {
            match number {
                1 => key.take(value)?,
                2 => mapped.take(value)?,
                _ => {}
            }
        }
        self.insert(key, mapped);
        Some(())
    }
}

#[derive(Default)]
struct Pair {
    key: String,
    value: String,
}

message!(Pair { 1 key, 2 value });

/// A message that occurs twice is merged, as protobuf requires.
impl<T: Message> Field for T {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        put_nested(number, to, |to| self.put_fields(to));
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Bytes(nested) = value else { return None };
        self.merge(nested)
    }
}

impl<T: Message> Choice for T {
    fn put_chosen(&self, number: u32, to: &mut Vec<u8>) {
        self.put(number, to);
    }
}

/// Large and recursive messages are boxed.
impl<T: Message> Message for Box<T> {
    fn put_fields(&self, to: &mut Vec<u8>) {
        self.as_ref().put_fields(to);
    }

    fn take_field(&mut self, number: u32, value: Value<'_>) -> Option<()> {
        self.as_mut().take_field(number, value)
    }
}

impl<T: Message> Field for Option<T> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        self.iter().for_each(|value| Field::put(value, number, to));
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        Field::take(self.get_or_insert_default(), value)
    }
}

impl<T: Message> Field for Vec<T> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        self.iter().for_each(|message| Field::put(message, number, to));
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let mut message = T::default();
        Field::take(&mut message, value)?;
        self.push(message);
        Some(())
    }
}

/// Optional numbers are messages of their own (`google.protobuf.Int64Value`).
macro_rules! wrapped {
    ($($number:ty),*) => {$(
        impl Field for Option<$number> {
            fn put(&self, number: u32, to: &mut Vec<u8>) {
                if let Some(value) = self {
                    put_nested(number, to, |to| value.put(1, to));
                }
            }

            fn take(&mut self, value: Value<'_>) -> Option<()> {
                let Value::Bytes(mut nested) = value else { return None };
                let inner = self.get_or_insert_default();
                while let Some((number, value)) = nested.next_field()? {
                    if number == 1 {
                        inner.take(value)?;
                    }
                }
                Some(())
            }
        }
    )*};
}

wrapped!(i64, u64);
