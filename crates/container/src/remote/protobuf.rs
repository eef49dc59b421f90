//! Protobuf, as far as the CRI uses it: messages of numbers, texts, lists and maps, to and from the types of this
//! crate. Tables map field numbers to fields; unknown fields are skipped, as protobuf requires.

use std::collections::BTreeMap;

/// A message: fields in any order, absent ones at their default.
pub(crate) trait Message: Default {
    fn put_fields(&self, to: &mut Vec<u8>);
    fn take_field(&mut self, number: u32, value: Value<'_>) -> Option<()>;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put_fields(&mut bytes);
        bytes
    }

    /// `None` if the bytes are not a valid message.
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut message = Self::default();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let value = Value::read(&mut bytes, key & 7)?;
            message.take_field(u32::try_from(key >> 3).ok()?, value)?;
        }
        Some(message)
    }
}

/// An encoded value of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn read(bytes: &mut &'a [u8], kind: u64) -> Option<Value<'a>> {
        let mut fixed = |length: usize| {
            let (taken, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            let mut number = [0; 8];
            number[..length].copy_from_slice(taken);
            Some(Value::Number(u64::from_le_bytes(number)))
        };
        match kind {
            0 => varint(bytes).map(Value::Number),
            1 => fixed(8),
            5 => fixed(4),
            2 => {
                let length = usize::try_from(varint(bytes)?).ok()?;
                let (taken, rest) = bytes.split_at_checked(length)?;
                *bytes = rest;
                Some(Value::Bytes(taken))
            }
            _ => None,
        }
    }
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

fn put_bytes(number: u32, bytes: &[u8], to: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | 2, to);
    put_varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// A type that a field can have.
pub(crate) trait Field {
    /// Writes nothing for a default.
    fn put(&self, number: u32, to: &mut Vec<u8>);
    fn take(&mut self, value: Value<'_>) -> Option<()>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, number: u32, to: &mut Vec<u8>) {
                if *self != 0 {
                    put_varint(u64::from(number) << 3, to);
                    // Negative numbers are written in 64 bits.
                    put_varint(*self as i64 as u64, to);
                }
            }

            fn take(&mut self, value: Value<'_>) -> Option<()> {
                let Value::Number(number) = value else { return None };
                *self = number as $number;
                Some(())
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
        let Value::Bytes(bytes) = value else { return None };
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
        let Value::Bytes(bytes) = value else { return None };
        *self = bytes.to_vec();
        Some(())
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

/// Lists of numbers come packed or one by one.
impl Field for Vec<i64> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        if !self.is_empty() {
            let mut packed = Vec::new();
            self.iter().for_each(|one| put_varint(*one as u64, &mut packed));
            put_bytes(number, &packed, to);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        match value {
            Value::Number(number) => self.push(number as i64),
            Value::Bytes(mut packed) => {
                while !packed.is_empty() {
                    self.push(varint(&mut packed)? as i64);
                }
            }
        }
        Some(())
    }
}

impl Field for BTreeMap<String, String> {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        for (key, value) in self {
            let mut entry = Vec::new();
            key.put(1, &mut entry);
            value.put(2, &mut entry);
            put_bytes(number, &entry, to);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let mut entry = Pair::default();
        Field::take(&mut entry, value)?;
        self.insert(entry.key, entry.value);
        Some(())
    }
}

#[derive(Default)]
struct Pair {
    key: String,
    value: String,
}

impl<T: Message> Field for T {
    fn put(&self, number: u32, to: &mut Vec<u8>) {
        put_bytes(number, &self.encode(), to);
    }

    fn take(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Bytes(bytes) = value else { return None };
        *self = T::decode(bytes)?;
        Some(())
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

/// Optional numbers are messages of their own.
macro_rules! wrapped {
    ($($number:ty),*) => {$(
        impl Field for Option<$number> {
            fn put(&self, number: u32, to: &mut Vec<u8>) {
                if let Some(value) = self {
                    let mut wrapped = Vec::new();
                    value.put(1, &mut wrapped);
                    put_bytes(number, &wrapped, to);
                }
            }

            fn take(&mut self, value: Value<'_>) -> Option<()> {
                let Value::Bytes(mut bytes) = value else { return None };
                let inner = self.insert(0);
                while !bytes.is_empty() {
                    let key = varint(&mut bytes)?;
                    inner.take(Value::read(&mut bytes, key & 7)?)?;
                }
                Some(())
            }
        }
    )*};
}

wrapped!(i64, u64);

/// Says which fields a message has, by number.
macro_rules! message {
    ($name:ty { $($number:literal $field:ident),* $(,)? }) => {
        impl $crate::remote::protobuf::Message for $name {
            fn put_fields(&self, to: &mut Vec<u8>) {
                $($crate::remote::protobuf::Field::put(&self.$field, $number, to);)*
                let _ = to;
            }

            fn take_field(
                &mut self,
                number: u32,
                value: $crate::remote::protobuf::Value<'_>,
            ) -> Option<()> {
                match number {
                    $($number => $crate::remote::protobuf::Field::take(&mut self.$field, value),)*
                    _ => {
                        let _ = value;
                        Some(())
                    }
                }
            }
        }
    };
}

pub(crate) use message;

message!(Pair { 1 key, 2 value });

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Outer {
        text: String,
        number: i64,
        list: Vec<i64>,
        inner: Vec<Inner>,
        map: BTreeMap<String, String>,
        limit: Option<i64>,
    }

    #[derive(Debug, Default, PartialEq)]
    struct Inner {
        on: bool,
    }

    message!(Outer { 1 text, 2 number, 3 list, 4 inner, 5 map, 16 limit });
    message!(Inner { 1 on });

    #[test]
    fn messages_come_back_as_they_went() {
        let outer = Outer {
            text: "hello".to_owned(),
            number: -2,
            list: vec![1, 300, -1],
            inner: vec![Inner { on: true }, Inner { on: false }],
            map: [("a".to_owned(), "b".to_owned())].into(),
            limit: Some(0),
        };
        assert_eq!(Outer::decode(&outer.encode()), Some(outer));
        assert_eq!(Outer::default().encode(), b"");
    }

    #[test]
    fn bytes_are_protobufs() {
        let outer = Outer { text: "hi".to_owned(), number: 150, limit: Some(7), ..Outer::default() };
        assert_eq!(outer.encode(), [0x0a, 2, b'h', b'i', 0x10, 0x96, 1, 0x82, 1, 2, 8, 7]);
        assert_eq!(Outer::decode(&[0x18, 5, 0xf8, 7, 1]), Some(Outer { list: vec![5], ..Outer::default() }));
        for wrong in [&[0x0a, 9][..], &[0x0b], &[0x08], &[0xff; 12]] {
            assert_eq!(Outer::decode(wrong), None, "{wrong:?}");
        }
    }
}
