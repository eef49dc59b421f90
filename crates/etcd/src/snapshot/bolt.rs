//! The file format of bbolt, as far as writing a new database needs it: buckets of sorted items in B+ trees of pages.
//!
//! ```text
//! pages 0 and 1: meta    2: free list (empty)    for each bucket: leaves, then branches up to its root    the bucket of buckets
//! ```
//!
//! A page has 4096 bytes; one that holds a single larger item continues in the pages after it. The layout is decided first, from
//! the sizes alone, because the first pages name the last one. Never reads a database.

use std::ops::Range;

use bytes::Bytes;

const PAGE: usize = 4096;
const HEADER: usize = 16;
/// The size of an element, which says where its item is, in a branch and in a leaf.
const ELEMENT: usize = 16;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREE_LIST: u16 = 0x10;
/// The flag of an item that is a bucket.
const BUCKET: u32 = 0x01;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const FREE_LIST_PAGE: u64 = 2;
/// The pages before those of the buckets.
const FIRST: u64 = 3;

/// The items of a bucket, in the order of their keys.
pub(super) trait Items: Send + Sync {
    fn count(&self) -> usize;
    fn key(&self, index: usize) -> Bytes;
    fn value(&self, index: usize) -> Bytes;
}

impl Items for Vec<(Bytes, Bytes)> {
    fn count(&self) -> usize {
        self.len()
    }

    fn key(&self, index: usize) -> Bytes {
        self[index].0.clone()
    }

    fn value(&self, index: usize) -> Bytes {
        self[index].1.clone()
    }
}

/// A page, with those that continue it.
struct Page {
    id: u64,
    content: Content,
}

enum Content {
    /// Items of a bucket.
    Leaf { bucket: usize, items: Range<usize> },
    /// Pages, by their index.
    Branch { children: Range<usize> },
    /// The names and roots of all buckets.
    Buckets,
}

pub(super) struct Database {
    buckets: Vec<(&'static str, Box<dyn Items>)>,
    /// The root page of each bucket.
    roots: Vec<u64>,
    pages: Vec<Page>,
    /// The page after the last one.
    end: u64,
}

impl Database {
    /// Lays out buckets, whose names are in order.
    pub(super) fn new(buckets: Vec<(&'static str, Box<dyn Items>)>) -> Database {
        let mut database = Database { buckets, roots: Vec::new(), pages: Vec::new(), end: FIRST };
        for bucket in 0..database.buckets.len() {
            let root = database.lay_out(bucket);
            database.roots.push(root);
        }
        let names: usize = database.buckets.iter().map(|(name, _)| ELEMENT + name.len() + ELEMENT).sum();
        database.push(HEADER + names, Content::Buckets);
        database
    }

    /// Adds the pages of a bucket, and returns its root.
    fn lay_out(&mut self, bucket: usize) -> u64 {
        let mut level = self.pages.len();
        let items = &self.buckets[bucket].1;
        let sizes =
            (0..items.count()).map(|index| ELEMENT + items.key(index).len() + items.value(index).len());
        for (items, bytes) in grouped(&sizes.collect::<Vec<_>>()) {
            self.push(bytes, Content::Leaf { bucket, items });
        }
        while self.pages.len() - level > 1 {
            let sizes: Vec<usize> =
                (level..self.pages.len()).map(|page| ELEMENT + self.first_key(page).len()).collect();
            let start = level;
            level = self.pages.len();
            for (children, bytes) in grouped(&sizes) {
                let children = children.start + start..children.end + start;
                self.push(bytes, Content::Branch { children });
            }
        }
        self.pages[level].id
    }

    fn push(&mut self, bytes: usize, content: Content) {
        self.pages.push(Page { id: self.end, content });
        self.end += bytes.div_ceil(PAGE) as u64;
    }

    /// The first key below a page.
    fn first_key(&self, page: usize) -> Bytes {
        match &self.pages[page].content {
            Content::Leaf { bucket, items } => self.buckets[*bucket].1.key(items.start),
            Content::Branch { children } => self.first_key(children.start),
            Content::Buckets => Bytes::new(),
        }
    }

    /// The size of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.end * PAGE as u64
    }

    /// The file, in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = Vec<u8>> {
        let first = [self.meta(0), self.meta(1), whole(FREE_LIST_PAGE, FREE_LIST, &[])];
        first.into_iter().chain(self.pages.iter().map(|page| self.page(page)))
    }

    fn page(&self, page: &Page) -> Vec<u8> {
        match &page.content {
            Content::Leaf { bucket, items } => {
                let bucket = &self.buckets[*bucket].1;
                let items =
                    items.clone().map(|index| Element::Item(0, bucket.key(index), bucket.value(index)));
                whole(page.id, LEAF, &items.collect::<Vec<_>>())
            }
            Content::Branch { children } => {
                let children = children.clone();
                let children =
                    children.map(|child| Element::Page(self.first_key(child), self.pages[child].id));
                whole(page.id, BRANCH, &children.collect::<Vec<_>>())
            }
            Content::Buckets => {
                let items = self.buckets.iter().zip(&self.roots).map(|((name, _), root)| {
                    // The root, and a sequence that etcd does not use.
                    let value = [root.to_le_bytes(), [0; 8]].concat();
                    Element::Item(BUCKET, Bytes::from_static(name.as_bytes()), value.into())
                });
                whole(page.id, LEAF, &items.collect::<Vec<_>>())
            }
        }
    }

    /// One of the two meta pages; the one with the higher transaction counts.
    fn meta(&self, transaction: u64) -> Vec<u8> {
        let root = self.pages.last().map_or(0, |page| page.id);
        let mut meta = Vec::with_capacity(64);
        for number in [MAGIC, VERSION, PAGE as u32, 0] {
            meta.extend_from_slice(&number.to_le_bytes());
        }
        for number in [root, 0, FREE_LIST_PAGE, self.end, transaction] {
            meta.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = fnv1a(&meta);
        meta.extend_from_slice(&checksum.to_le_bytes());
        let mut page = header(transaction, META, 0, 0);
        page.extend_from_slice(&meta);
        page.resize(PAGE, 0);
        page
    }
}

/// An element of a page.
enum Element {
    /// Flags, key and value.
    Item(u32, Bytes, Bytes),
    /// The first key of a page, and its id.
    Page(Bytes, u64),
}

/// Groups consecutive elements into pages by their sizes. An empty bucket has one empty page. Pure.
fn grouped(sizes: &[usize]) -> Vec<(Range<usize>, usize)> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, HEADER);
    for (index, size) in sizes.iter().enumerate() {
        if index > start && bytes + size > PAGE {
            groups.push((start..index, bytes));
            (start, bytes) = (index, HEADER);
        }
        bytes += size;
    }
    groups.push((start..sizes.len(), bytes));
    groups
}

/// A page with its elements, and zeros up to its end.
fn whole(id: u64, kind: u16, elements: &[Element]) -> Vec<u8> {
    let (mut table, mut data) = (Vec::new(), Vec::new());
    for (index, element) in elements.iter().enumerate() {
        // The distance from the element to its item.
        let position = ((elements.len() - index) * ELEMENT + data.len()) as u32;
        match element {
            Element::Item(flags, key, value) => {
                for number in [*flags, position, key.len() as u32, value.len() as u32] {
                    table.extend_from_slice(&number.to_le_bytes());
                }
                data.extend_from_slice(key);
                data.extend_from_slice(value);
            }
            Element::Page(key, page) => {
                for number in [position, key.len() as u32] {
                    table.extend_from_slice(&number.to_le_bytes());
                }
                table.extend_from_slice(&page.to_le_bytes());
                data.extend_from_slice(key);
            }
        }
    }
    let bytes = HEADER + table.len() + data.len();
    let pages = bytes.div_ceil(PAGE);
    let mut page = header(id, kind, elements.len() as u16, (pages - 1) as u32);
    page.extend_from_slice(&table);
    page.extend_from_slice(&data);
    page.resize(pages * PAGE, 0);
    page
}

fn header(id: u64, kind: u16, count: u16, overflow: u32) -> Vec<u8> {
    let mut header = id.to_le_bytes().to_vec();
    header.extend_from_slice(&kind.to_le_bytes());
    header.extend_from_slice(&count.to_le_bytes());
    header.extend_from_slice(&overflow.to_le_bytes());
    header
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
