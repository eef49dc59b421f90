//! Domain names in wire format: labels, each after its length, with an empty one at the end.
//!
//! Names keep their case and compare without it. A name is never longer than 255 bytes and a label never longer than 63:
//! constructors refuse longer ones.

use std::fmt;
use std::hash::{Hash, Hasher};

const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: usize = 63;
/// The limit of compression pointers in a name, against loops.
const MOST_JUMPS: usize = 32;

#[derive(Clone)]
pub struct Name(Box<[u8]>);

impl Name {
    /// The root name.
    pub fn root() -> Name {
        Name(Box::new([0]))
    }

    /// Parses a name in text form, with or without a dot at the end.
    pub fn parse(text: &str) -> Option<Name> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Some(Name::root());
        }
        Name::of_labels(text.split('.').map(str::as_bytes))
    }

    fn of_labels<'a>(labels: impl Iterator<Item = &'a [u8]>) -> Option<Name> {
        let mut wire = Vec::with_capacity(64);
        for label in labels {
            if label.is_empty() || label.len() > LONGEST_LABEL {
                return None;
            }
            wire.push(label.len() as u8);
            wire.extend_from_slice(label);
        }
        wire.push(0);
        (wire.len() <= LONGEST_NAME).then(|| Name(wire.into()))
    }

    /// The name with more labels in front; `None` if it would be too long.
    pub fn under(&self, labels: &[&str]) -> Option<Name> {
        Name::of_labels(labels.iter().map(|label| label.as_bytes()).chain(self.labels()))
    }

    /// Decodes the name at an offset of a message, and returns it with the offset of its end.
    pub(crate) fn read(message: &[u8], at: usize) -> Option<(Name, usize)> {
        let mut wire = Vec::with_capacity(64);
        let (mut at, mut end, mut jumps) = (at, None, 0);
        loop {
            let length = *message.get(at)?;
            match length >> 6 {
                0 => {
                    let next = at + 1 + usize::from(length);
                    wire.extend_from_slice(message.get(at..next)?);
                    if wire.len() > LONGEST_NAME {
                        return None;
                    }
                    at = next;
                    if length == 0 {
                        return Some((Name(wire.into()), end.unwrap_or(at)));
                    }
                }
                3 => {
                    let low = *message.get(at + 1)?;
                    end.get_or_insert(at + 2);
                    at = usize::from(length & 0x3f) << 8 | usize::from(low);
                    jumps += 1;
                    if jumps > MOST_JUMPS {
                        return None;
                    }
                }
                _ => return None,
            }
        }
    }

    pub(crate) fn wire(&self) -> &[u8] {
        &self.0
    }

    pub fn labels(&self) -> Labels<'_> {
        Labels(&self.0)
    }

    /// The labels in front of a suffix; `None` if the name does not end with it.
    pub(crate) fn before<'a>(&'a self, ending: &Name) -> Option<Labels<'a>> {
        let split = self.0.len().checked_sub(ending.0.len())?;
        let (front, back) = self.0.split_at(split);
        // A suffix begins at the start of a label, never within one.
        let aligned = self.starts().any(|start| start == split);
        (aligned && back.eq_ignore_ascii_case(&ending.0)).then_some(Labels(front))
    }

    /// The offsets of the labels, including the empty one at the end.
    pub(crate) fn starts(&self) -> impl Iterator<Item = usize> {
        let next = |at: &usize| match self.0.get(*at) {
            None | Some(0) => None,
            Some(length) => Some(at + 1 + usize::from(*length)),
        };
        std::iter::successors(Some(0), next)
    }

    /// The name in lower case.
    pub(crate) fn lowered(&self) -> Name {
        // Lengths are smaller than any letter, so they do not change.
        Name(self.0.to_ascii_lowercase().into())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in &self.0 {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in self.labels() {
            write!(f, "{}.", String::from_utf8_lossy(label).escape_debug())?;
        }
        if self.0.len() == 1 { f.write_str(".") } else { Ok(()) }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The labels of a name, the first one first.
#[derive(Debug, Clone)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first().filter(|(length, _)| **length > 0)?;
        let (label, rest) = rest.split_at_checked(usize::from(*length))?;
        self.0 = rest;
        Some(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn names_are_read_and_written() {
        for text in ["a.b.c.", "_http._tcp.web.default.svc.cluster.local."] {
            let (read, end) = Name::read(name(text).wire(), 0).unwrap();
            assert_eq!((read.to_string().as_str(), end), (text, name(text).wire().len()));
        }
        assert_eq!(Name::root().to_string(), ".");
        assert_eq!(name("."), Name::root());
        assert_eq!(name("WEB.Default"), name("web.default."));
    }

    #[test]
    fn names_that_are_too_long_are_refused() {
        assert!(Name::parse(&"a".repeat(63)).is_some());
        assert!(Name::parse(&"a".repeat(64)).is_none());
        assert!(Name::parse(&["abcdefg"; 31].join(".")).is_some());
        assert!(Name::parse(&["abcdefg"; 32].join(".")).is_none());
        assert!(Name::parse("a..b").is_none());
    }

    #[test]
    fn compressed_names_are_decoded_and_loops_are_refused() {
        let message = [1, b'a', 0, 1, b'b', 0xc0, 0];
        let (read, end) = Name::read(&message, 3).unwrap();
        assert_eq!((read.to_string().as_str(), end), ("b.a.", 7));
        assert!(Name::read(&[0xc0, 0], 0).is_none(), "a name that points at itself");
        assert!(Name::read(&[5, b'a'], 0).is_none(), "a label that goes on after the end");
        assert!(Name::read(&[0x80, 0], 0).is_none(), "a label of no known kind");
    }

    #[test]
    fn suffixes_are_whole_labels() {
        let front = |text: &str, ending: &str| -> Option<Vec<String>> {
            let text = name(text);
            let labels = text.before(&name(ending))?;
            Some(labels.map(|label| String::from_utf8_lossy(label).into_owned()).collect())
        };
        assert_eq!(front("web.default.SVC.cluster.local", "Cluster.local").unwrap().len(), 3);
        assert_eq!(front("cluster.local", "cluster.local"), Some(vec![]));
        assert_eq!(front("notcluster.local", "cluster.local"), None);
        assert_eq!(front("local", "cluster.local"), None);
        assert_eq!(front("a.b", "."), Some(vec!["a".to_owned(), "b".to_owned()]));
    }
}
