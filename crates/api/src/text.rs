//! The text type of objects: up to 23 bytes inline, shared beyond. Cheap to clone.
//!
//! Three words. Those of a short text are its bytes, zeros, and its length in the last byte; those of any other, the
//! address and length of its bytes, and their owner in the last byte. A short text is always inline,
//! so two short texts are equal exactly if their words are. All words are computed in registers and moved
//! as words: bytes that are written in one width and read in another stall the processor, which dominated the time of
//! decoding and copying objects before.
//!
//! The few unsafe lines of this crate are here, and rely on one invariant: words with the tag `SHARED` or `STATIC` were
//! created by `Str::long`.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Maximum length of an inline text.
const SHORT: usize = 23;
/// The tag in the last byte of a text that is not short: its bytes belong to an `Arc<str>`, of which it holds a
/// reference.
const SHARED: u8 = 0xff;
/// The tag of a text with static bytes.
const STATIC: u8 = 0xfe;

#[repr(C)]
pub struct Str {
    first: First,
    /// These and the first are in the order of bytes in memory, whatever the machine's byte order.
    second: u64,
    third: u64,
}

/// The first eight bytes of a short text, or the address of a long one.
#[derive(Clone, Copy)]
#[repr(C)]
union First {
    bytes: u64,
    at: *const u8,
}

// SAFETY: the target belongs to an `Arc<str>` or is a `&'static str`, which can be sent.
unsafe impl Send for Str {}
// SAFETY: as above; both can be shared.
unsafe impl Sync for Str {}

/// Eight bytes as a word whose bytes in memory are those.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// A text that is short.
fn short(text: &[u8]) -> Option<Str> {
    let length = text.len();
    // Two overlapping words cover any length of one to two words: the bytes that are in both are shifted out
    // of the second.
    let (first, second, third) = match length {
        16..=SHORT => {
            (word(text, 0), word(text, 8), word(text, length - 8).unbounded_shr(8 * (24 - length as u32)))
        }
        8..16 => (word(text, 0), word(text, length - 8).unbounded_shr(8 * (16 - length as u32)), 0),
        4..8 => {
            let half = |at: usize| text[at..].first_chunk::<4>().map_or(0, |c| u32::from_le_bytes(*c));
            (u64::from(half(0)) | u64::from(half(length - 4)) << (8 * (length - 4)), 0, 0)
        }
        1..4 => {
            let byte = |at: usize| u64::from(text[at]) << (8 * at);
            (byte(0) | byte(length / 2) | byte(length - 1), 0, 0)
        }
        0 => (0, 0, 0),
        _ => return None,
    };
    Some(Str::of_words(first, second, third | (length as u64) << 56))
}

/// Returns true if two texts of the same, small length are equal: two overlapping words decide without a call.
fn same(a: &[u8], b: &[u8]) -> bool {
    fn ends_agree<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk::<N>() && a.last_chunk::<N>() == b.last_chunk::<N>()
    }
    match a.len() {
        8..=16 => ends_agree::<8>(a, b),
        4..=7 => ends_agree::<4>(a, b),
        2..=3 => ends_agree::<2>(a, b),
        17..=32 => ends_agree::<16>(a, b),
        _ => a == b,
    }
}

impl Str {
    pub fn new(text: impl AsRef<str>) -> Str {
        let text = text.as_ref();
        short(text.as_bytes()).unwrap_or_else(|| Str::shared(Arc::from(text)))
    }

    pub const fn new_static(text: &'static str) -> Str {
        let bytes = text.as_bytes();
        if bytes.len() > SHORT {
            return Str::long(text.as_ptr(), text.len(), STATIC);
        }
        let mut words = [0, 0, (bytes.len() as u64) << 56];
        let mut at = 0;
        while at < bytes.len() {
            words[at / 8] |= (bytes[at] as u64) << (8 * (at % 8));
            at += 1;
        }
        Str::of_words(words[0], words[1], words[2])
    }

    /// Of words whose lowest byte is the first.
    const fn of_words(first: u64, second: u64, third: u64) -> Str {
        Str { first: First { bytes: first.to_le() }, second: second.to_le(), third: third.to_le() }
    }

    /// The text, if it is short. Nothing is allocated.
    pub(crate) fn short(text: &str) -> Option<Str> {
        short(text.as_bytes())
    }

    /// A text that is not short.
    fn shared(text: Arc<str>) -> Str {
        let length = text.len();
        Str::long(Arc::into_raw(text).cast(), length, SHARED)
    }

    const fn long(at: *const u8, length: usize, owner: u8) -> Str {
        Str { first: First { at }, second: length as u64, third: ((owner as u64) << 56).to_le() }
    }

    /// The last byte: a length, or a tag.
    fn tag(&self) -> u8 {
        (u64::from_le(self.third) >> 56) as u8
    }

    fn is_short(&self) -> bool {
        usize::from(self.tag()) <= SHORT
    }

    /// The words of a short text.
    fn words(&self) -> [u64; 3] {
        // SAFETY: bytes are bytes; those of a short text are all there.
        [unsafe { self.first.bytes }, self.second, self.third]
    }

    /// The bytes of a long text, as `long` received them.
    fn long_text(&self) -> *const str {
        // SAFETY: only called for texts that `long` created.
        let at = unsafe { self.first.at };
        std::ptr::slice_from_raw_parts(at, self.second as usize) as *const str
    }

    pub fn as_str(&self) -> &str {
        let tag = usize::from(self.tag());
        let text = match tag <= SHORT {
            true => std::ptr::slice_from_raw_parts((&raw const *self).cast::<u8>(), tag) as *const str,
            false => self.long_text(),
        };
        // SAFETY: a short text's bytes are in the words, as many as the last byte says; a long one's are shared
        // or static. All of them came from a `str`.
        unsafe { &*text }
    }

    /// Returns true if this equals the text. Most comparisons are decided by the length alone.
    pub(crate) fn is(&self, text: &str) -> bool {
        match self.is_short() {
            true => usize::from(self.tag()) == text.len() && same(self.as_bytes(), text.as_bytes()),
            false => self.as_str() == text,
        }
    }
}

impl Clone for Str {
    fn clone(&self) -> Str {
        if self.tag() == SHARED {
            // SAFETY: the address is that of an `Arc<str>` of which this holds a reference.
            unsafe {
                Arc::increment_strong_count(self.long_text());
            }
        }
        Str { first: self.first, second: self.second, third: self.third }
    }
}

impl Drop for Str {
    fn drop(&mut self) {
        if self.tag() == SHARED {
            // SAFETY: the address is that of an `Arc<str>`; this releases its reference, and is gone.
            unsafe {
                Arc::decrement_strong_count(self.long_text());
            }
        }
    }
}

impl Deref for Str {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        self
    }
}

impl AsRef<[u8]> for Str {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        self
    }
}

impl Default for Str {
    fn default() -> Str {
        Str::new_static("")
    }
}

impl PartialEq for Str {
    fn eq(&self, other: &Str) -> bool {
        match self.is_short() {
            // Only a short text has such a last word.
            true => self.third == other.third && self.words() == other.words(),
            false => !other.is_short() && self.as_str() == other.as_str(),
        }
    }
}

impl Eq for Str {}

impl Ord for Str {
    fn cmp(&self, other: &Str) -> Ordering {
        match self.is_short() && other.is_short() {
            // The length comes last: it decides where one text is the other and zeros.
            true => self.words().map(u64::from_be).cmp(&other.words().map(u64::from_be)),
            false => self.as_str().cmp(other.as_str()),
        }
    }
}

impl PartialOrd for Str {
    fn partial_cmp(&self, other: &Str) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Str {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Str {
        Str::new(text)
    }
}

impl From<&String> for Str {
    fn from(text: &String) -> Str {
        Str::new(text)
    }
}

impl From<String> for Str {
    fn from(text: String) -> Str {
        Str::new(text)
    }
}

impl From<&Str> for Str {
    fn from(text: &Str) -> Str {
        text.clone()
    }
}

impl From<Cow<'_, str>> for Str {
    fn from(text: Cow<'_, str>) -> Str {
        Str::new(text)
    }
}

impl From<Arc<str>> for Str {
    fn from(text: Arc<str>) -> Str {
        short(text.as_bytes()).unwrap_or_else(|| Str::shared(text))
    }
}

impl From<Str> for String {
    fn from(text: Str) -> String {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Str {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<Str> for str {
    fn eq(&self, other: &Str) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<Str> for &str {
    fn eq(&self, other: &Str) -> bool {
        *self == other.as_str()
    }
}

impl PartialEq<Str> for String {
    fn eq(&self, other: &Str) -> bool {
        self == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of every length around the limit, with equal beginnings, zeros and multi-byte characters.
    fn texts() -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for length in 0..40 {
            let text: String = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN".chars().take(length).collect();
            for at in [0, 6, 7, 8, 14, 15, 16, 21, 22, 23, 30] {
                if at < length {
                    for other in ["_", "z", "\0", "é"] {
                        let mut changed = text.clone();
                        changed.replace_range(at..=at, other);
                        texts.push(changed);
                    }
                }
            }
            texts.push(format!("{text}\0"));
            texts.push(text);
        }
        texts
    }

    #[test]
    fn a_text_stays_what_it_was() {
        for text in texts() {
            let leaked: &'static str = text.clone().leak();
            let made = [
                Str::new(&text),
                Str::new_static(leaked),
                Str::from(Arc::from(text.as_str())),
                Str::from(text.clone()).clone(),
            ];
            for made in &made {
                assert_eq!(made.as_str(), text);
                assert_eq!(made.clone(), Str::new(made), "{text:?}");
                assert_eq!(made.is_short(), text.len() <= SHORT, "{text:?}");
            }
            assert!(made.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }

    #[test]
    fn texts_compare_as_their_bytes_do() {
        let texts = texts();
        for a in &texts {
            for b in &texts {
                let (short_a, short_b) = (Str::new(a), Str::new(b));
                assert_eq!(short_a == short_b, a == b, "{a:?} {b:?}");
                assert_eq!(short_a.cmp(&short_b), a.cmp(b), "{a:?} {b:?}");
                assert_eq!(short_a.is(b), a == b, "{a:?} {b:?}");
            }
        }
    }
}
