//! The two forms of a value: the one in etcd, which other programs read and write too, and the one in memory.

use std::pin::Pin;

use bytes::Bytes;

use crate::{Entry, NewValue, Revision};

/// A future that ends when values can be loaded, or never will be.
pub type Preparation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Translates values between their form in etcd and the one in memory.
pub trait Translation: Send + Sync + 'static {
    /// The bytes that etcd stores for a value, or the reason why there are none. They do not contain the revision, which
    /// only etcd knows.
    fn store(&self, key: &str, value: &NewValue) -> Result<Vec<u8>, String>;

    /// The value in memory of stored bytes, with the revision that they have, or the reason why they cannot be read.
    fn load(&self, key: &str, stored: &Bytes, revision: Revision) -> Result<Bytes, String>;

    /// Requests what [`Translation::load`] needs of other processes for these values. `None` if it needs nothing.
    fn prepare<'v>(
        &self,
        values: &mut (dyn Iterator<Item = (String, &'v Bytes)> + 'v),
    ) -> Option<Preparation> {
        let _ = values;
        None
    }

    /// True if [`Translation::store`] would now write the same value in another form: sealed with another key, or in another
    /// version.
    fn is_stale(&self, key: &str, stored: &Bytes) -> bool {
        let _ = (key, stored);
        false
    }
}

/// The note of an entry whose stored value cannot be read. The entry has no value, so that no reader takes what etcd stores
/// for one: it may be a plain value that only sealed ones are accepted for.
#[derive(Debug, Clone)]
pub struct Unreadable {
    pub reason: String,
    pub(crate) stored: Bytes,
}

impl Entry {
    /// The reason why the value cannot be read, if that is so.
    pub fn unreadable(&self) -> Option<&Unreadable> {
        self.note.as_ref()?.downcast_ref()
    }
}
