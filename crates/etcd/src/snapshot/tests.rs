//! A reader of bbolt's format, as its documentation and etcd describe it, and what it finds in snapshots.

use super::*;
use std::collections::BTreeMap;

fn number<const N: usize>(file: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&file[at..at + N]);
    u64::from_le_bytes(bytes)
}

type Bucket = Vec<(Vec<u8>, Vec<u8>)>;

struct Reader<'f> {
    file: &'f [u8],
    /// The pages that were visited; each belongs to one place.
    visited: Vec<bool>,
}

impl Reader<'_> {
    /// The items below a page, with their flags, in order.
    fn items(&mut self, id: u64) -> Vec<(u64, Vec<u8>, Vec<u8>)> {
        let page = id as usize * 4096;
        assert_eq!(number::<8>(self.file, page), id);
        let (kind, count) = (number::<2>(self.file, page + 8), number::<2>(self.file, page + 10));
        for part in 0..=number::<4>(self.file, page + 12) {
            assert!(!std::mem::replace(&mut self.visited[(id + part) as usize], true));
        }
        let mut items = Vec::new();
        for element in (0..count as usize).map(|index| page + 16 + index * 16) {
            if kind == 2 {
                let [flags, at, key, value] =
                    [0, 4, 8, 12].map(|field| number::<4>(self.file, element + field) as usize);
                let at = element + at;
                let key = at..at + key;
                let value = key.end..key.end + value;
                items.push((flags as u64, self.file[key].to_vec(), self.file[value].to_vec()));
            } else {
                assert_eq!(kind, 1);
                let at = element + number::<4>(self.file, element) as usize;
                let key = self.file[at..at + number::<4>(self.file, element + 4) as usize].to_vec();
                let below = self.items(number::<8>(self.file, element + 8));
                assert_eq!(below[0].1, key, "a branch has the first key of its page");
                items.extend(below);
            }
        }
        assert!(items.is_sorted_by(|a, b| a.1 < b.1), "keys are in order and distinct");
        items
    }
}

fn read(file: &[u8]) -> BTreeMap<String, Bucket> {
    assert_eq!(file.len() % 4096, 0);
    for meta in [0, 4096] {
        assert_eq!((number::<4>(file, meta + 16), number::<4>(file, meta + 20)), (0xED0C_DAED, 2));
        let checksum = file[meta + 16..meta + 72].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        assert_eq!(number::<8>(file, meta + 72), checksum);
        assert_eq!(number::<8>(file, meta + 56), file.len() as u64 / 4096, "the end of the pages");
    }
    let mut visited = vec![false; file.len() / 4096];
    visited[..3].fill(true);
    let mut reader = Reader { file, visited };
    let mut buckets = BTreeMap::new();
    for (flags, name, value) in reader.items(number::<8>(file, 4096 + 32)) {
        assert_eq!(flags, 1);
        let items = reader.items(number::<8>(&value, 0)).into_iter().map(|(_, key, value)| (key, value));
        buckets.insert(String::from_utf8(name).unwrap(), items.collect());
    }
    assert!(reader.visited.iter().all(|visited| *visited), "no page is lost");
    buckets
}

fn entry(key: &str, bytes: usize, revision: u64) -> Arc<Entry> {
    Arc::new(Entry {
        key: key.into(),
        value: vec![b'v'; bytes].into(),
        create_revision: 1,
        mod_revision: revision,
        version: 3,
        lease: (revision == 2).then_some(LeaseId(9)),
        note: None,
    })
}

fn file(entries: Vec<Arc<Entry>>, leases: HashMap<LeaseId, LeaseState>, revision: u64) -> Vec<u8> {
    let database = database(entries, leases, revision);
    let file: Vec<u8> = database.parts().flatten().collect();
    assert_eq!(file.len() as u64, database.bytes());
    file
}

#[test]
fn a_snapshot_has_every_entry_at_its_revision() {
    for count in [0, 1, 40, 3000] {
        let sizes = [0, 10, 500, 3900, 5000, 200_000];
        let entries: Vec<Arc<Entry>> = (0..count)
            .map(|index| {
                let bytes = if index > 100 { index % 60 } else { sizes[index % sizes.len()] };
                entry(&format!("key-{index:05}"), bytes, index as u64 / 3 + 2)
            })
            .collect();
        let lease = LeaseState {
            ttl: Duration::from_secs(60),
            remaining: Duration::from_millis(500),
            keys: Vec::new(),
        };
        let buckets = read(&file(entries.clone(), HashMap::from([(LeaseId(9), lease)]), 5000));
        let found = &buckets["key"];
        assert_eq!(found.len(), count);
        for (index, (key, value)) in found.iter().enumerate() {
            let (main, sub) = (index as u64 / 3 + 2, index as u64 % 3);
            assert_eq!(*key, revision_key(main, sub));
            assert_eq!(KeyValue::decode(value), Some(key_value(&entries[index])));
        }
        let compacted = revision_key(5000, 0).to_vec();
        let names = ["finishedCompactRev", "scheduledCompactRev"];
        assert_eq!(buckets["meta"], names.map(|name| (name.as_bytes().to_vec(), compacted.clone())));
        let (id, lease) = &buckets["lease"][0];
        assert_eq!(id, &9_i64.to_be_bytes());
        let expected = Lease { id: 9, ttl: 60, remaining_ttl: 1 };
        assert_eq!(Lease::decode(lease), Some(expected));
    }
}

/// A lease that expired while the snapshot was taken: its keys must not last for ever where it is restored.
#[test]
fn keys_have_a_lease_that_ends() {
    let buckets = read(&file(vec![entry("locked", 1, 2), entry("free", 1, 3)], HashMap::new(), 3));
    let leases: Vec<_> = buckets["lease"].iter().map(|(_, lease)| Lease::decode(lease)).collect();
    assert_eq!(leases, [Some(Lease { id: 9, ttl: 1, remaining_ttl: 1 })]);
}
