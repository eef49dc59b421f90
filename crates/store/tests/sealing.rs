//! Values that are encrypted on disk: never plain there, whatever file they are in, and never returned as they are stored.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use corten_store::{Error, Expect, NewValue, Op, Opened, Options, Sealing, SealingError, Store, Txn};

const SECRET: &str = "the-secret-value";

/// Turns the bytes of values below `/secrets/` around and puts the name of a key before them.
#[derive(Debug)]
struct Reversing {
    key: u8,
    old: Option<u8>,
}

impl Sealing for Reversing {
    fn seal(&self, key: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        if key == "/secrets/refused" {
            return Err(SealingError::new(&"no key"));
        }
        let sealed = || [self.key].into_iter().chain(plain.iter().rev().copied()).collect();
        Ok(key.starts_with("/secrets/").then(sealed))
    }

    fn open(&self, key: &str, stored: &[u8]) -> Result<Option<Opened>, SealingError> {
        if !key.starts_with("/secrets/") {
            return Ok(None);
        }
        let (plain, is_stale) = match stored.split_first() {
            Some((name, sealed)) if *name == self.key => (sealed.iter().rev().copied().collect(), false),
            Some((name, sealed)) if Some(*name) == self.old => (sealed.iter().rev().copied().collect(), true),
            Some((b't', _)) => (stored.to_vec(), true),
            _ => return Err(SealingError::new(&"no matching key")),
        };
        Ok(Some(Opened { plain, is_stale }))
    }
}

fn options(sealing: Reversing) -> Options {
    Options { sealing: Arc::new(sealing), ..Options::default() }
}

fn put(key: &str, value: &str) -> Op {
    let value = NewValue::from(value.as_bytes().to_vec());
    Op::Put { key: key.into(), expect: Expect::Any, value, lease: None }
}

/// True if a file of the store has the text.
fn is_on_disk(dir: &Path, text: &str) -> bool {
    fs::read_dir(dir).expect("a store").flatten().any(|file| {
        let bytes = fs::read(file.path()).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

fn value(store: &Store, key: &str) -> String {
    String::from_utf8(store.get(key).expect("an entry").value.to_vec()).expect("text")
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

#[tokio::test]
async fn values_are_sealed_in_logs_snapshots_and_history() {
    let dir = tempfile::tempdir().unwrap();
    let small = |sealing| Options { snapshot_bytes: 1, ..options(sealing) };
    let store = Store::open(dir.path(), small(Reversing { key: b'1', old: None })).unwrap();
    let first = store.commit(put("/secrets/a", SECRET).into()).await.unwrap();
    store.commit(put("/plain/a", "the-plain-value").into()).await.unwrap();
    store.commit(put("/secrets/a", "another").into()).await.unwrap();
    assert_eq!(value(&store, "/secrets/a"), "another");
    let then = store.range_at("/secrets/", "", 0, first.revision).await.unwrap();
    assert_eq!(then.entries[0].value, SECRET.as_bytes());
    let events = store.events_since("/secrets/", 0, u64::MAX, 0).await.unwrap();
    assert_eq!(events[1].previous.as_ref().unwrap().value, SECRET.as_bytes());
    store.close();
    assert!(is_on_disk(dir.path(), "the-plain-value"));
    assert!(is_on_disk(dir.path(), &reversed(SECRET)));
    assert!(!is_on_disk(dir.path(), SECRET));
    let store = Store::open(dir.path(), small(Reversing { key: b'1', old: None })).unwrap();
    assert_eq!(value(&store, "/secrets/a"), "another");
}

#[tokio::test]
async fn a_value_that_cannot_be_sealed_fails_its_transaction_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options(Reversing { key: b'1', old: None })).unwrap();
    store.hold();
    let both = Txn { ops: vec![put("/secrets/a", SECRET), put("/secrets/refused", SECRET)] };
    let (refused, accepted) = (store.commit(both), store.commit(put("/secrets/b", SECRET).into()));
    let flush = async {
        tokio::task::yield_now().await;
        store.flush();
    };
    let (refused, accepted, ()) = tokio::join!(refused, accepted, flush);
    assert!(matches!(refused, Err(Error::Seal { .. })), "{refused:?}");
    assert_eq!(accepted.unwrap().revision, 1);
    assert!(store.get("/secrets/a").is_none());
}

#[tokio::test]
async fn opening_with_a_new_key_leaves_nothing_of_the_old_one_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let plain = Store::open(dir.path(), Options::default()).unwrap();
    plain.commit(put("/secrets/a", SECRET).into()).await.unwrap();
    plain.commit(put("/secrets/a", "the-second-value").into()).await.unwrap();
    plain.close();
    let first = Store::open(dir.path(), options(Reversing { key: b'1', old: None })).unwrap();
    assert!(!is_on_disk(dir.path(), SECRET), "history before encryption is dropped");
    assert!(!is_on_disk(dir.path(), "the-second-value"));
    assert_eq!((value(&first, "/secrets/a").as_str(), first.revision()), ("the-second-value", 2));
    assert!(matches!(first.range_at("/secrets/", "", 0, 1).await, Err(Error::Compacted { .. })));
    let third = first.commit(put("/secrets/b", SECRET).into()).await.unwrap();
    first.close();
    let unopened = Store::open(dir.path(), options(Reversing { key: b'2', old: None }));
    let Err(Error::Open { key, source }) = unopened else { panic!("opened without the key") };
    assert_eq!((&*key, source.to_string().as_str()), ("/secrets/a", "no matching key"));
    let second = Store::open(dir.path(), options(Reversing { key: b'2', old: Some(b'1') })).unwrap();
    assert_eq!(second.revision(), third.revision);
    second.close();
    let alone = Store::open(dir.path(), options(Reversing { key: b'2', old: None })).unwrap();
    assert_eq!(value(&alone, "/secrets/b"), SECRET);
}
