//! Text and bytes of values: borrowed from an object or a program, or shared.

use std::ops::Deref;
use std::sync::Arc;

/// A text.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl<'a> Text<'a> {
    /// A part of this text; it stays borrowed where this text is.
    ///
    /// A range outside the text or inside a character gives an empty text.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Text<'a> {
        match self {
            Text::Borrowed(text) => Text::Borrowed(text.get(range).unwrap_or_default()),
            Text::Shared(text) => Text::Shared(text.get(range).unwrap_or_default().into()),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Shared(Arc<[u8]>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}
