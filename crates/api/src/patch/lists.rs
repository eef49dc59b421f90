//! Merging and ordering of lists in a strategic merge patch.
//!
//! The result keeps two orders: that of the patch among what the patch names, and that of the object among
//! the rest. Where the two meet, the object's order decides if it knows both items; otherwise what the
//! patch names comes first.

use super::shown_list;
use super::strategic::{DIRECTIVE, Error, Type, merge_map, unknown_directive};
use crate::value::Value;

/// What a list consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Maps,
    Scalars,
}

/// What two lists have in common: all their items are of one type, and not lists.
pub(super) fn elements(a: &[Value], b: &[Value]) -> Result<Items, Error> {
    let mut all = a.iter().chain(b);
    let first = all.next().ok_or(Error::NoElements)?;
    if let Value::Array(_) = first {
        return Err(Error::ListOfLists);
    }
    let type_of = std::mem::discriminant::<Value>;
    if first.is_null() || all.any(|item| type_of(item) != type_of(first)) {
        return Err(Error::MixedElements(format!("[{} {}]", shown_list(a), shown_list(b))));
    }
    Ok(if matches!(first, Value::Object(_)) { Items::Maps } else { Items::Scalars })
}

/// Merges a patch into a list that merges. What comes back is the object's order for whoever orders the list
/// once more: as upstream leaves it, what was added stands in the places of what was deleted.
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
            let mut merged: Vec<Value> = Vec::with_capacity(before.len() + patch.len());
            for value in before.iter().chain(&patch) {
                if !merged.contains(value) {
                    merged.push(value.clone());
                }
            }
            (merged, before, patch)
        }
        Items::Maps if merge_key.is_empty() => return Err(Error::UndeclaredMergeKey(item.name())),
        Items::Maps => {
            let (mut before, patch) = obey_directives(std::mem::take(current), patch, merge_key)?;
            let keys = before.clone();
            let named = patch.clone();
            for value in patch {
                merge_item(&mut before, value, merge_key, item)?;
            }
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

/// Deletes what the patch deletes; what remains of list and patch comes back.
fn obey_directives(
    mut current: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Value::Object(mut map) = item else { return Err(Error::expected_map(&item)) };
        let Some(directive) = map.remove(DIRECTIVE) else {
            rest.push(Value::Object(map));
            continue;
        };
        match directive.as_str() {
            Some("delete") => match map.get(merge_key) {
                Some(value) => current.retain(|item| item.get(merge_key) != Some(value)),
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
    Ok(if replace { (rest, Vec::new()) } else { (current, rest) })
}

fn merge_item(current: &mut Vec<Value>, item: Value, merge_key: &str, schema: Type<'_>) -> Result<(), Error> {
    let Value::Object(patch) = item else { return Err(Error::expected_map(&item)) };
    let key = patch.get(merge_key).ok_or_else(|| Error::no_merge_key(&patch, merge_key))?;
    match position(current, merge_key, key)? {
        Some(at) => merge_map(current[at].make_object(), patch, schema),
        None => {
            current.push(Value::Object(patch));
            Ok(())
        }
    }
}

/// The first item with that merge key.
fn position(items: &[Value], merge_key: &str, key: &Value) -> Result<Option<usize>, Error> {
    for (at, item) in items.iter().enumerate() {
        let Value::Object(map) = item else { return Err(Error::ItemIsNoMap(at)) };
        if map.get(merge_key) == Some(key) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn key_of<'v>(item: &'v Value, merge_key: &str) -> Result<&'v Value, Error> {
    let Value::Object(map) = item else { return Err(Error::expected_map(item)) };
    map.get(merge_key).ok_or_else(|| Error::no_merge_key(map, merge_key))
}

/// Whether two items are the same one: by their merge key, or as a whole where there is none.
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

/// Splits a list into what `named` names and the rest.
pub(super) fn partition(
    merged: Vec<Value>,
    named: &[Value],
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let (mut listed, mut others) = (Vec::with_capacity(merged.len()), Vec::new());
    for item in merged {
        let is_named = if merge_key.is_empty() {
            named.contains(&item)
        } else {
            position(named, merge_key, key_of(&item, merge_key)?)?.is_some()
        };
        if is_named { listed.push(item) } else { others.push(item) }
    }
    Ok((listed, others))
}

/// Puts each part in its order, and both together in the object's.
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
    let rank_in = |order: &[Value], item: &Value| {
        order.iter().position(|other| match items {
            Items::Maps => other.get(merge_key) == item.get(merge_key),
            Items::Scalars => other == item,
        })
    };
    let listed = sorted(listed, |item| rank_in(named, item));
    let others = sorted(others, |item| rank_in(before, item));
    let mut out = Vec::with_capacity(listed.len() + others.len());
    let mut others = others.into_iter().map(|item| (rank_in(before, &item), item)).peekable();
    for item in listed {
        let rank = rank_in(before, &item);
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

/// Sorts by rank, as upstream does: where a rank is missing, each item goes before the one it follows.
fn sorted(items: Vec<Value>, rank: impl Fn(&Value) -> Option<usize>) -> Vec<Value> {
    let mut ranked: Vec<(Option<usize>, Value)> = items.into_iter().map(|item| (rank(&item), item)).collect();
    if ranked.iter().all(|(rank, _)| rank.is_some()) {
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
