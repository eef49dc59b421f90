//! Keys in etcd and keys of the store: the same but for their prefix.

use bytes::Bytes;

pub(super) struct Keys {
    prefix: String,
    root: String,
}

impl Keys {
    pub(super) fn new(prefix: String, root: String) -> Keys {
        Keys { prefix, root }
    }

    /// The prefix of all keys of the store.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The key in etcd.
    pub(super) fn to_etcd(&self, key: &str) -> Bytes {
        let rest = key.strip_prefix(&self.root).unwrap_or(key);
        format!("{}{rest}", self.prefix).into()
    }

    /// The store's key; `None` for a key that is not text or outside the prefix.
    pub(super) fn of_etcd(&self, key: &[u8]) -> Option<String> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        Some(format!("{}{rest}", self.root))
    }

    /// A key that no store has, directly behind all keys with the prefix. Writing it shows how far a watch is.
    pub(super) fn barrier(&self) -> Bytes {
        end_of(self.prefix.as_bytes())
    }

    /// The range of all keys and the barrier.
    pub(super) fn watched(&self) -> (Bytes, Bytes) {
        let end = [&self.barrier()[..], b"\0"].concat();
        (self.prefix.clone().into(), end.into())
    }

    /// The range of the keys under a prefix that are not before another key.
    pub(super) fn range(&self, prefix: &str, from: &str) -> (Bytes, Bytes) {
        let prefix_in_etcd = self.to_etcd(prefix);
        let start = if from > prefix { self.to_etcd(from) } else { prefix_in_etcd.clone() };
        (start, end_of(&prefix_in_etcd))
    }
}

/// The first key behind all keys with a prefix.
fn end_of(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    // All keys: etcd takes a zero byte for no end.
    Bytes::from_static(b"\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_ranges() {
        let keys = Keys::new("/k3s/".into(), "/registry/".into());
        assert_eq!(keys.to_etcd("/registry/pods/a/b"), "/k3s/pods/a/b");
        assert_eq!(keys.of_etcd(b"/k3s/pods/a/b").as_deref(), Some("/registry/pods/a/b"));
        assert_eq!((keys.of_etcd(b"/k3s0"), keys.of_etcd(b"/k3s/\xff")), (None, None));
        assert_eq!(keys.watched(), ("/k3s/".into(), "/k3s0\0".into()));
        assert_eq!(keys.range("/registry/pods/", ""), ("/k3s/pods/".into(), "/k3s/pods0".into()));
        assert_eq!(
            keys.range("/registry/pods/", "/registry/pods/n/x"),
            ("/k3s/pods/n/x".into(), "/k3s/pods0".into())
        );
        assert_eq!(end_of(b"a\xff"), "b");
        assert_eq!(end_of(b""), "\0");
    }
}
