//! Merging and ordering of lists in a strategic merge patch.
//!
//! The result keeps two orders: that of the patch among the items of the patch, and that of the object among
//! the others. Where the two meet, the object's order decides if it has both items; otherwise the item of the
//! patch comes first.
//!
//! Items are looked up by hash: lists may be long, and each item of the patch is searched among those of the object.

use std::collections::{HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use super::shown_list;
use super::strategic::{DIRECTIVE, Error, Type, merge_map, unknown_directive};
use crate::by_content::{ByContent, set_of};
use crate::json::write_to_string;
use crate::value::{Str, Value};

/// The type of a list's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Maps,
    Scalars,
}

/// The common type of the items of two lists: all are of one type, and not lists.
pub(super) fn elements(a: &[Value], b: &[Value]) -> Result<Items, Error> {
    let mut all = a.iter().chain(b);
    let first = all.next().ok_or(Error::NoElements)?;
    if let Value::Array(_) = first {
        return Err(Error::ListOfLists);
    }
    let type_of = discriminant::<Value>;
    if first.is_null() || all.any(|item| type_of(item) != type_of(first)) {
        return Err(Error::MixedElements(format!("[{} {}]", shown_list(a), shown_list(b))));
    }
    Ok(if matches!(first, Value::Object(_)) { Items::Maps } else { Items::Scalars })
}

/// Merges a patch into a list that merges. Returns the object's order for a later ordering of the list:
/// as in upstream, added items take the positions of deleted ones.
pub(super) fn merge(
    current: &mut Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
    item: Type<'_>,
) -> Result<Vec<Value>, Error> {
    if current.is_empty() && patch.is_empty() {
        return Ok(Vec::new());
    }
    let places = current.len();
    let items = elements(current, &patch)?;
    let replaced = patch.iter().any(|item| directive_of(item) == Some("replace")).then(|| current.clone());
    let (merged, before, named) = match items {
        Items::Scalars => {
            let before = std::mem::take(current);
            let mut seen = HashSet::with_capacity(before.len() + patch.len());
            let all = before.iter().chain(&patch);
            let merged = all.filter(|value| seen.insert(ByContent(value))).cloned().collect();
            (merged, before, patch)
        }
        Items::Maps if merge_key.is_empty() => return Err(Error::UndeclaredMergeKey(item.name())),
        Items::Maps => {
            let (mut before, patch) = apply_directives(std::mem::take(current), patch, merge_key)?;
            let keys = before.clone();
            let named = patch.clone();
            merge_items(&mut before, patch, merge_key, item)?;
            (before, keys, named)
        }
    };
    let order = replaced.unwrap_or_else(|| merged.iter().take(places).cloned().collect());
    let (listed, others) = partition(merged, &named, merge_key)?;
    *current = interleave(listed, others, &named, &before, merge_key, items)?;
    Ok(order)
}

fn directive_of(item: &Value) -> Option<&str> {
    item.get(DIRECTIVE)?.as_str()
}

/// Deletes the items that the patch deletes; returns the rest of list and patch.
fn apply_directives(
    mut current: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(mut map) = item else { return Err(Error::expected_map(&item)) };
        let Some(directive) = map.remove(DIRECTIVE) else {
            rest.push(Value::Object(map));
            continue;
        };
        match directive.as_str() {
            Some("delete") => match map.get(merge_key) {
                Some(value) => deleted.push(value.clone()),
                None => {
                    map.insert(DIRECTIVE, directive);
                    return Err(Error::no_merge_key(&map, merge_key));
                }
            },
            Some("replace") => replace = true,
            Some("merge") => return Err(Error::MergeDirectiveInList),
            _ => return Err(unknown_directive(directive, map)),
        }
    }
    if !deleted.is_empty() {
        let deleted = set_of(&deleted);
        current.retain(|item| !item.get(merge_key).is_some_and(|key| deleted.contains(&ByContent(key))));
    }
    Ok(if replace { (rest, Vec::new()) } else { (current, rest) })
}

/// Merges each item of a patch into the first one that has its merge key, or adds it.
fn merge_items(
    current: &mut Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
    schema: Type<'_>,
) -> Result<(), Error> {
    // By the text of their keys: merging an item does not change its key.
    let mut places: HashMap<Key, usize> = HashMap::with_capacity(current.len());
    let mut odd = None;
    for (at, item) in current.iter().enumerate() {
        let Value::Object(map) = item else {
            odd = Some(at);
            break;
        };
        if let Some(key) = map.get(merge_key) {
            places.entry(Key::of(key)).or_insert(at);
        }
    }
    for item in patch {
        let Value::Object(patch) = item else { return Err(Error::expected_map(&item)) };
        let key = patch.get(merge_key).ok_or_else(|| Error::no_merge_key(&patch, merge_key))?;
        let key = Key::of(key);
        match places.get(&key) {
            Some(at) => merge_map(current[*at].make_object(), patch, schema)?,
            None => {
                if let Some(at) = odd {
                    return Err(Error::ItemIsNoMap(at));
                }
                places.insert(key, current.len());
                current.push(Value::Object(patch));
            }
        }
    }
    Ok(())
}

/// A merge key as a key of a hash table: texts are not copied.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Text(Str),
    Other(Discriminant<Value>, String),
}

impl Key {
    fn of(value: &Value) -> Key {
        match value {
            Value::String(text) => Key::Text(text.clone()),
            other => Key::Other(discriminant(other), write_to_string(other)),
        }
    }
}

fn key_of<'v>(item: &'v Value, merge_key: &str) -> Result<&'v Value, Error> {
    let Value::Object(map) = item else { return Err(Error::expected_map(item)) };
    map.get(merge_key).ok_or_else(|| Error::no_merge_key(map, merge_key))
}

/// Returns true if two items are the same: by their merge key, or as a whole where there is none.
pub(super) fn same(a: &Value, b: &Value, merge_key: &str) -> Result<bool, Error> {
    if merge_key.is_empty() {
        return Ok(a == b);
    }
    let check = |item: &Value| match item {
        Value::Object(_) => Ok(()),
        other => Err(Error::expected_map(other)),
    };
    check(a)?;
    check(b)?;
    Ok(key_of(a, merge_key)? == key_of(b, merge_key)?)
}

/// Splits a list into the items that `named` contains and the rest.
pub(super) fn partition(
    merged: Vec<Value>,
    named: &[Value],
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let (mut listed, mut others) = (Vec::with_capacity(merged.len()), Vec::new());
    let odd = named.iter().position(|item| !merge_key.is_empty() && !matches!(item, Value::Object(_)));
    let names: HashSet<ByContent<'_>> = match merge_key {
        "" => set_of(named),
        key => named[..odd.unwrap_or(named.len())].iter().filter_map(|i| i.get(key)).map(ByContent).collect(),
    };
    for item in merged {
        let name = if merge_key.is_empty() { &item } else { key_of(&item, merge_key)? };
        let is_named = names.contains(&ByContent(name));
        if let (false, Some(at)) = (is_named, odd) {
            return Err(Error::ItemIsNoMap(at));
        }
        if is_named { listed.push(item) } else { others.push(item) }
    }
    Ok((listed, others))
}

/// Orders each part, and merges both in the object's order.
pub(super) fn interleave(
    listed: Vec<Value>,
    others: Vec<Value>,
    named: &[Value],
    before: &[Value],
    merge_key: &str,
    items: Items,
) -> Result<Vec<Value>, Error> {
    if items == Items::Maps {
        for list in [&listed[..], named, &others[..], before] {
            list.iter().try_for_each(|item| key_of(item, merge_key).map(drop))?;
        }
    }
    let merge_key = if items == Items::Maps { merge_key } else { "" };
    let (named, before) = (Ranks::of(named, merge_key), Ranks::of(before, merge_key));
    let listed = sorted(listed, |item| named.rank(item));
    let others = sorted(others, |item| before.rank(item));
    let mut out = Vec::with_capacity(listed.len() + others.len());
    let mut others = others.into_iter().map(|item| (before.rank(&item), item)).peekable();
    for item in listed {
        let rank = before.rank(&item);
        while let Some((_, other)) =
            others.next_if(|(other, _)| matches!((other, rank), (Some(other), Some(rank)) if *other < rank))
        {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, item)| item));
    Ok(out)
}

/// The positions of items in a list: of equal ones the first.
struct Ranks<'v> {
    merge_key: &'v str,
    ranks: HashMap<ByContent<'v>, usize>,
}

impl<'v> Ranks<'v> {
    /// Without a merge key, items are the same if they are equal.
    fn of(items: &'v [Value], merge_key: &'v str) -> Ranks<'v> {
        let mut ranks = HashMap::with_capacity(items.len());
        for (rank, item) in items.iter().enumerate() {
            ranks.entry(ByContent(identity(item, merge_key))).or_insert(rank);
        }
        Ranks { merge_key, ranks }
    }

    fn rank(&self, item: &Value) -> Option<usize> {
        self.ranks.get(&ByContent(identity(item, self.merge_key))).copied()
    }
}

fn identity<'v>(item: &'v Value, merge_key: &str) -> &'v Value {
    if merge_key.is_empty() { item } else { item.get(merge_key).unwrap_or(&Value::Null) }
}

/// Longer lists with missing ranks are sorted with those items first: upstream's order of them is
/// equally arbitrary.
const MAX_INSERTION_SORT: usize = 1000;

/// Sorts by rank, as upstream does: where a rank is missing, each item goes before the one it follows.
fn sorted(items: Vec<Value>, rank: impl Fn(&Value) -> Option<usize>) -> Vec<Value> {
    let mut ranked: Vec<(Option<usize>, Value)> = items.into_iter().map(|item| (rank(&item), item)).collect();
    if ranked.len() > MAX_INSERTION_SORT || ranked.iter().all(|(rank, _)| rank.is_some()) {
        ranked.sort_by_key(|(rank, _)| *rank);
    } else {
        for end in 1..ranked.len() {
            let mut at = end;
            while at > 0 && goes_before(ranked[at].0, ranked[at - 1].0) {
                ranked.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    ranked.into_iter().map(|(_, item)| item).collect()
}

fn goes_before(a: Option<usize>, b: Option<usize>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a < b,
        _ => true,
    }
}
