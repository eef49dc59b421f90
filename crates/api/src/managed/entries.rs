//! `metadata.managedFields`: managers, their fields and times.
//!
//! Invariants: a manager is identified by name, operation, subresource and, for updates, version; no two
//! entries have the same manager and none is empty; entries are in upstream's order; at most ten come
//! from updates, older ones being merged into one called `ancient-changes`.

use std::collections::HashMap;

use super::Context;
use super::set::Set;
use super::text::{self, InvalidFields};
use crate::value::{Map, Str, Value};

const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One manager's entry. Its set is decoded only when needed; then it replaces the text.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    map: Map,
    set: Option<Set>,
}

impl Entry {
    pub(super) fn new(ctx: &Context<'_>, manager: &str, operation: Operation, set: Set) -> Entry {
        let mut map = Map::with_capacity(7);
        let manager = if manager.is_empty() { "unknown" } else { manager };
        map.insert("apiVersion", ctx.api_version);
        map.insert("fieldsType", "FieldsV1");
        map.insert("fieldsV1", Value::Null);
        map.insert("manager", manager);
        map.insert("operation", operation.name());
        if !ctx.subresource.is_empty() {
            map.insert("subresource", ctx.subresource);
        }
        Entry { map, set: Some(set) }
    }

    /// An entry whose fields are already encoded.
    pub(super) fn of_text(ctx: &Context<'_>, manager: &str, operation: Operation, text: Str) -> Entry {
        let mut entry = Entry::new(ctx, manager, operation, Set::new());
        entry.map.insert("fieldsV1", Value::Raw(text));
        entry.set = None;
        entry
    }

    fn text_of(&self, key: &str) -> &str {
        self.map.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn manager(&self) -> &str {
        self.text_of("manager")
    }

    pub(super) fn api_version(&self) -> &str {
        self.text_of("apiVersion")
    }

    pub(super) fn subresource(&self) -> &str {
        self.text_of("subresource")
    }

    pub(super) fn is_apply(&self) -> bool {
        self.text_of("operation") == "Apply"
    }

    pub(super) fn time(&self) -> &str {
        self.text_of("time")
    }

    pub(super) fn set_time(&mut self, now: &str) {
        self.map.insert("time", now);
    }

    pub(super) fn copy_time(&mut self, from: &Entry) {
        match from.map.get("time") {
            Some(time) => drop(self.map.insert("time", time.clone())),
            None => drop(self.map.remove("time")),
        }
    }

    pub(super) fn forget_time(&mut self) {
        self.map.remove("time");
    }

    /// Makes this an entry of another version with other fields.
    pub(super) fn replace(&mut self, api_version: &str, set: Set) {
        self.map.insert("apiVersion", api_version);
        self.set = Some(set);
    }

    pub(super) fn is_same_manager(&self, other: &Entry) -> bool {
        self.manager() == other.manager()
            && self.text_of("operation") == other.text_of("operation")
            && self.subresource() == other.subresource()
            && (self.is_apply() || self.api_version() == other.api_version())
    }

    /// Upstream's identity of managers; its order decides where times are equal.
    pub(super) fn identifier(&self) -> String {
        let version = if self.is_apply() { "" } else { self.api_version() };
        let parts = [
            ("manager", self.manager()),
            ("operation", self.text_of("operation")),
            ("apiVersion", version),
            ("subresource", self.subresource()),
        ];
        let present = parts.iter().filter(|(_, text)| !text.is_empty());
        let members: Vec<String> = present.map(|(name, text)| format!("\"{name}\":{text:?}")).collect();
        format!("{{{}}}", members.join(","))
    }

    /// The manager as conflicts name it.
    pub(super) fn described(&self) -> String {
        let mut out = format!("{:?}", self.manager());
        if !self.subresource().is_empty() {
            out.push_str(&format!(" with subresource {:?}", self.subresource()));
        }
        if !self.is_apply() {
            out.push_str(&format!(" using {}", self.api_version()));
        }
        out
    }

    pub(super) fn text(&self) -> &str {
        match self.map.get("fieldsV1") {
            Some(Value::Raw(text)) => text,
            _ => "{}",
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.set {
            Some(set) => set.is_empty(),
            None => self.text() == "{}",
        }
    }

    /// The set, decoded from the text at the first call.
    pub(super) fn set(&mut self, ctx: &Context<'_>) -> Result<&mut Set, InvalidFields> {
        if self.set.is_none() {
            let mut set = Set::parse(self.text())?;
            if let Some(form) = ctx.form(self.api_version()) {
                set.reconcile(&form);
            }
            self.set = Some(set);
        }
        Ok(self.set.get_or_insert_default())
    }

    pub(super) fn overlap(&self, set: &Set) -> Result<text::Overlap, InvalidFields> {
        match &self.set {
            Some(own) => Ok(text::Overlap { shared: own.intersection(set).size(), deeper: false }),
            None => text::overlap(self.text(), set),
        }
    }

    fn into_value(mut self) -> Value {
        if let Some(set) = self.set {
            self.map.insert("fieldsV1", Value::Raw(set.to_text()));
        }
        Value::Object(self.map)
    }
}

/// Returns true if a client resets field management: with a list that is empty, or holds one empty
/// entry.
pub fn is_reset(managed_fields: &Value) -> bool {
    match managed_fields.as_array() {
        Some([]) => true,
        Some([Value::Object(only)]) => only.is_empty(),
        _ => false,
    }
}

/// Entries that were written by this module.
pub(super) fn trusted(managed_fields: Option<&Value>) -> Vec<Entry> {
    let items = managed_fields.and_then(Value::as_array).unwrap_or_default();
    let maps = items.iter().filter_map(Value::as_object);
    maps.map(|map| Entry { map: map.clone(), set: None }).collect()
}

/// Checks managedFields that were changed after they were computed.
pub fn check(managed_fields: &Value) -> Result<(), String> {
    decode(managed_fields, None).map(drop)
}

/// Entries that a client sent: checked, and converted to their canonical form and to the type.
pub(super) fn decode(managed_fields: &Value, ctx: Option<&Context<'_>>) -> Result<Vec<Entry>, String> {
    let mut out: Vec<Option<Entry>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (i, item) in managed_fields.as_array().unwrap_or_default().iter().enumerate() {
        let mut entry = Entry { map: item.as_object().cloned().unwrap_or_default(), set: None };
        if !matches!(entry.text_of("operation"), "Apply" | "Update") {
            return Err("operation must be `Apply` or `Update`".to_owned());
        }
        if entry.api_version().is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match entry.text_of("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
            other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {i}")),
        }
        let mut set = Set::parse(entry.text()).map_err(|e| format!("error decoding set: {e}"))?;
        if let Some(form) = ctx.and_then(|ctx| ctx.form(entry.api_version())) {
            set.reconcile(&form);
        }
        entry.set = Some(set);
        // Of several entries of one manager the last counts, at its position.
        if let Some(earlier) = places.insert(entry.identifier(), out.len()) {
            out[earlier] = None;
        }
        out.push(Some(entry));
    }
    Ok(out.into_iter().flatten().collect())
}

/// Merges the oldest entries from updates, version by version, until there are few enough.
pub(super) fn cap(ctx: &Context<'_>, entries: &mut Vec<Entry>) -> Result<(), InvalidFields> {
    let mut excess = entries.iter().filter(|e| !e.is_apply()).count().saturating_sub(MAX_UPDATE_MANAGERS);
    if excess == 0 {
        return Ok(());
    }
    entries.sort_by_cached_key(|e| (e.is_apply(), Str::new(e.time()), e.identifier()));
    let mut slots: Vec<Option<Entry>> = std::mem::take(entries).into_iter().map(Some).collect();
    let mut ancient = Ancient::new(&slots);
    for at in 0..slots.len() {
        let Some(entry) = slots[at].as_ref().filter(|e| excess > 0 && !e.is_apply()) else { break };
        let version = Str::new(entry.api_version());
        let Some(first) = ancient.firsts.get(&version).copied() else {
            ancient.firsts.insert(version, at);
            continue;
        };
        let Some(mut merged) = slots[at].take() else { continue };
        // A bucket that is itself merged is no longer one.
        if ancient.buckets.get(&version) == Some(&at) {
            ancient.buckets.remove(&version);
        }
        let place = match ancient.buckets.get(&version) {
            Some(place) => *place,
            None => {
                let mut bucket = Entry::new(ctx, ANCIENT_CHANGES, Operation::Update, Set::new());
                bucket.map.insert("apiVersion", version.clone());
                bucket.map.remove("subresource");
                if let Some(first) = &mut slots[first] {
                    bucket.set = Some(std::mem::take(first.set(ctx)?));
                }
                slots[first] = Some(bucket);
                ancient.buckets.insert(version, first);
                first
            }
        };
        let mut gathered = ancient.gathered.remove(&at).unwrap_or_default();
        gathered.push(std::mem::take(merged.set(ctx)?));
        ancient.gathered.entry(place).or_default().append(&mut gathered);
        if let Some(bucket) = &mut slots[place] {
            bucket.copy_time(&merged);
        }
        excess -= 1;
    }
    for (place, sets) in ancient.gathered {
        if let Some(bucket) = &mut slots[place] {
            bucket.set(ctx)?.unite_all(sets);
        }
    }
    entries.extend(slots.into_iter().flatten());
    Ok(())
}

/// The entries that are merged into others, by position.
struct Ancient {
    /// The first entry of each version.
    firsts: HashMap<Str, usize>,
    /// The entry of each version that others are merged into.
    buckets: HashMap<Str, usize>,
    /// The sets to add to each bucket at the end.
    gathered: HashMap<usize, Vec<Set>>,
}

impl Ancient {
    fn new(entries: &[Option<Entry>]) -> Ancient {
        let mut buckets = HashMap::new();
        for (at, entry) in entries.iter().enumerate().filter_map(|(at, e)| Some((at, e.as_ref()?))) {
            if entry.manager() == ANCIENT_CHANGES && !entry.is_apply() && entry.subresource().is_empty() {
                buckets.entry(Str::new(entry.api_version())).or_insert(at);
            }
        }
        Ancient { firsts: HashMap::new(), buckets, gathered: HashMap::new() }
    }
}

/// The list as an object has it; `None` if there are no owners.
pub(super) fn encode(mut entries: Vec<Entry>) -> Option<Value> {
    entries.retain(|e| !e.is_empty());
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(|a, b| {
        (b.is_apply().cmp(&a.is_apply()))
            .then_with(|| a.time().cmp(b.time()))
            .then_with(|| a.manager().cmp(b.manager()))
            .then_with(|| a.api_version().cmp(b.api_version()))
            .then_with(|| a.subresource().cmp(b.subresource()))
    });
    Some(Value::Array(entries.into_iter().map(Entry::into_value).collect()))
}
