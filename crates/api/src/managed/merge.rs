//! Merges an applied configuration into the live object.
//!
//! Invariants: nothing is removed; where both have a value the applied one wins; a list's items are in
//! the applied order, with the other items of the live object kept in between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::element::Element;
use super::shape::{Items, Shape};
use crate::schema::Struct;
use crate::value::{Map, Value};

/// Merges two objects of a type. An error names the list whose items have no unique keys.
pub(super) fn merge(live: &Value, applied: &Value, schema: &Struct) -> Result<Value, String> {
    place(live, applied, Shape::Struct(schema))
}

fn place(live: &Value, applied: &Value, shape: Shape<'_>) -> Result<Value, String> {
    match shape {
        Shape::Leaf(_) => Ok(applied.clone()),
        Shape::Struct(_) | Shape::Map(_) => members(live, applied, shape),
        Shape::Deduced => match (live, applied) {
            (Value::Object(_), Value::Object(_) | Value::Null) => members(live, applied, shape),
            _ => Ok(applied.clone()),
        },
        Shape::List(items) => {
            let lists = (live.as_array().unwrap_or_default(), applied.as_array().unwrap_or_default());
            match lists {
                ([], _) => Ok(applied.clone()),
                (_, []) => Ok(live.clone()),
                (live, applied) => Lists::new(live, applied, items)?.merge().map(Value::Array),
            }
        }
    }
}

fn members(live: &Value, applied: &Value, shape: Shape<'_>) -> Result<Value, String> {
    let empty = Map::new();
    let lives = live.as_object().unwrap_or(&empty);
    let applieds = applied.as_object().unwrap_or(&empty);
    if lives.is_empty() {
        return Ok(applied.clone());
    }
    let mut out = Vec::with_capacity(lives.len() + applieds.len());
    for (key, value) in lives.iter() {
        let merged = match applieds.get(key) {
            Some(applied) => place(value, applied, shape.member(key).0)?,
            None => value.clone(),
        };
        out.push((key.clone(), merged));
    }
    let added = applieds.iter().filter(|(key, _)| !lives.contains_key(key));
    out.extend(added.map(|(key, value)| (key.clone(), value.clone())));
    Ok(Value::Object(out.into_iter().collect()))
}

/// Two lists being merged item by item.
struct Lists<'v, 's> {
    items: Items<'s>,
    live: Vec<(Element, &'v Value)>,
    applied: Vec<(Element, &'v Value)>,
}

impl<'v, 's> Lists<'v, 's> {
    fn new(live: &'v [Value], applied: &'v [Value], items: Items<'s>) -> Result<Self, String> {
        let index = |list: &'v [Value]| -> Result<Vec<(Element, &'v Value)>, String> {
            let with_place = list.iter().enumerate();
            with_place
                .map(|(i, item)| match items.element(item) {
                    Ok(element) => Ok((element, item)),
                    Err(why) => Err(format!("element {i}: {why}")),
                })
                .collect()
        };
        let (live, applied) = (index(live)?, index(applied)?);
        let mut seen = BTreeSet::new();
        if let Some((twice, _)) = applied.iter().find(|(element, _)| !seen.insert(element)) {
            return Err(format!("duplicate entries for key {twice}"));
        }
        Ok(Lists { items, live, applied })
    }

    fn merge(&self) -> Result<Vec<Value>, String> {
        // An item that occurs twice in the live object is replaced, not merged.
        let mut live: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
        for (element, item) in &self.live {
            live.entry(element).and_modify(|known| *known = None).or_insert(Some(item));
        }
        let applied: BTreeSet<&Element> = self.applied.iter().map(|(e, _)| e).collect();
        let mut shared: VecDeque<&Element> =
            self.applied.iter().map(|(e, _)| e).filter(|e| live.contains_key(e)).collect();
        let mut merged: BTreeSet<&Element> = BTreeSet::new();
        let mut out = Vec::with_capacity(self.live.len().max(self.applied.len()));
        let (mut l, mut a) = (0, 0);
        while l < self.live.len() || a < self.applied.len() {
            if let (Some((here, _)), Some((next, item))) = (self.live.get(l), self.applied.get(a)) {
                if here == next {
                    merged.insert(next);
                    out.push(self.item(live.get(next).copied().flatten(), item)?);
                    (l, a) = (l + 1, a + 1);
                    shared.pop_front();
                    continue;
                }
                if applied.contains(here) && shared.front().is_some_and(|s| *s != here) {
                    l += 1;
                    continue;
                }
            }
            if let Some((here, item)) = self.live.get(l) {
                if !applied.contains(here) {
                    out.push((*item).clone());
                    l += 1;
                    continue;
                }
                l += usize::from(merged.contains(here));
            }
            if let Some((next, item)) = self.applied.get(a) {
                merged.insert(next);
                out.push(self.item(live.get(next).copied().flatten(), item)?);
                a += 1;
                if shared.front() == Some(&next) {
                    shared.pop_front();
                }
            }
        }
        Ok(out)
    }

    fn item(&self, live: Option<&Value>, applied: &Value) -> Result<Value, String> {
        match live {
            Some(live) => place(live, applied, Shape::of(self.items.item)),
            None => Ok(applied.clone()),
        }
    }
}
