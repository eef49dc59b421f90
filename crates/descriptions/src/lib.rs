//! Descriptions of every type and field of the Kubernetes API, for explain and OpenAPI.
//!
//! The prose is not kept in this repository: the build script takes it from the schemas of the `k8s-openapi` crate
//! and embeds it as one deflated block per group and version (laid out as `format.rs` says), so the binary carries the text
//! compressed and none of that crate's code.
//!
//! Invariants:
//! - Nothing is cached. Memory is held only as long as a [`GroupDescriptions`] is.
//! - A type or field without a description is not an error: the result is `None`.
//!
//! This crate contains texts only. The types and fields themselves are defined in `corten-api`.

mod format;

use std::io::Read;
use std::ops::Range;

use flate2::read::DeflateDecoder;

use format::{RECORD_END, UNIT_END};

/// The position of the block of one group and version in [`BLOB`].
struct Block {
    group: &'static str,
    start: usize,
    end: usize,
    inflated_len: usize,
}

/// All blocks, each raw deflate.
static BLOB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.bin"));

/// The blocks in [`BLOB`], in ascending order of group.
static BLOCKS: &[Block] = include!(concat!(env!("OUT_DIR"), "/blocks.rs"));

/// The described groups, as their types are prefixed in OpenAPI: `io.k8s.api.core.v1` and so on, in ascending order.
pub fn groups() -> impl Iterator<Item = &'static str> {
    BLOCKS.iter().map(|block| block.group)
}

/// The full names of all described types, such as `io.k8s.api.core.v1.Pod`.
///
/// Inflates every group in turn.
pub fn types() -> impl Iterator<Item = String> {
    groups().flat_map(|group| {
        let descriptions = of_group(group);
        descriptions.types().map(|name| format!("{group}.{name}")).collect::<Vec<_>>()
    })
}

/// The group of a type's full name: `io.k8s.api.core.v1` for `io.k8s.api.core.v1.Pod`.
pub fn group_of(type_name: &str) -> Option<&str> {
    type_name.rsplit_once('.').map(|(group, _)| group)
}

/// Inflates the descriptions of one group and version, such as `io.k8s.api.core.v1` or
/// `io.k8s.apimachinery.pkg.apis.meta.v1`; without any if there is no such group.
pub fn of_group(group: &str) -> GroupDescriptions {
    match BLOCKS.binary_search_by(|block| block.group.cmp(group)) {
        Ok(index) => GroupDescriptions::inflate(&BLOCKS[index]),
        Err(_) => GroupDescriptions { group: "", text: String::new(), records: Vec::new() },
    }
}

/// The inflated descriptions of one group and version.
///
/// A type is named either in full (`io.k8s.api.core.v1.Pod`) or within its group (`Pod`).
pub struct GroupDescriptions {
    group: &'static str,
    text: String,
    /// The position of each record in `text`, without its end mark.
    records: Vec<Range<usize>>,
}

impl GroupDescriptions {
    /// The description of a type.
    pub fn of_type(&self, type_name: &str) -> Option<&str> {
        self.find(type_name, "")
    }

    /// The description of a field of a type, by its JSON name. Fields that upstream leaves undescribed have none.
    pub fn of_field(&self, type_name: &str, field: &str) -> Option<&str> {
        if field.is_empty() { None } else { self.find(type_name, field) }
    }

    /// The described types, by their names within the group, in ascending order.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.records
            .iter()
            .map(|range| self.record(range))
            .filter(|record| record.field.is_empty())
            .map(|record| record.type_name)
    }

    fn inflate(block: &Block) -> Self {
        let mut text = String::with_capacity(block.inflated_len);
        DeflateDecoder::new(&BLOB[block.start..block.end])
            .read_to_string(&mut text)
            .expect("the build script wrote every block as deflated UTF-8");
        let mut start = 0;
        let records = text
            .match_indices(RECORD_END)
            .map(|(end, _)| std::mem::replace(&mut start, end + RECORD_END.len_utf8())..end)
            .collect();
        Self { group: block.group, text, records }
    }

    fn find(&self, type_name: &str, field: &str) -> Option<&str> {
        let type_name =
            type_name.strip_prefix(self.group).and_then(|rest| rest.strip_prefix('.')).unwrap_or(type_name);
        let index = self
            .records
            .binary_search_by(|range| {
                let record = self.record(range);
                (record.type_name, record.field).cmp(&(type_name, field))
            })
            .ok()?;
        let description = self.record(&self.records[index]).description;
        (!description.is_empty()).then_some(description)
    }

    fn record(&self, range: &Range<usize>) -> Record<'_> {
        let mut units = self.text[range.clone()].splitn(3, UNIT_END);
        let mut next = || units.next().unwrap_or_default();
        Record { type_name: next(), field: next(), description: next() }
    }
}

struct Record<'a> {
    type_name: &'a str,
    field: &'a str,
    description: &'a str,
}

#[cfg(test)]
mod tests;
