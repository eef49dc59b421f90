//! The fields of a new object, written straight into the text its first manager's entry carries.
//!
//! The result is that of comparing the object with an unset one of its type. Creation is the most frequent write and
//! has no other managers, so no set is built only to be encoded. Unusual objects (with items that have no unique keys)
//! are left to the comparison.

use super::compare::{everything, same, zero};
use super::element::{Element, write_field};
use super::set::Set;
use super::shape::{Items, Shape};
use super::{Filter, STRIPPED};
use crate::schema::Struct;
use crate::value::{Map, Str, Value};

/// Most texts fit.
const ROOM: usize = 4 << 10;

/// The text of all fields of a new object; `None` where the comparison has to decide.
pub(super) fn fields(new: &Value, schema: &Struct, filter: Option<&Filter>) -> Option<Str> {
    let excluded = match filter {
        None => None,
        Some(Filter::Exclude(set)) => Some(set),
        Some(Filter::Include(_)) => return None,
    };
    let mut writer = Writer { out: Vec::with_capacity(ROOM), scratch: Vec::with_capacity(64) };
    writer.out.push(b'{');
    writer.untouched(new.as_object()?, schema, Place { is_object: true, is_metadata: false, excluded })?;
    writer.out.push(b'}');
    String::from_utf8(writer.out).ok().map(Str::from)
}

/// A place in an object, as far as it decides whether its members can be owned.
#[derive(Clone, Copy)]
struct Place<'a> {
    is_object: bool,
    is_metadata: bool,
    excluded: Option<&'a Set>,
}

impl<'a> Place<'a> {
    /// The place of a member; `None` if it cannot be owned.
    fn below(self, name: &str) -> Option<Place<'a>> {
        if !self.is_object && self.is_plain() {
            return Some(self);
        }
        let stripped = (self.is_object && matches!(name, "apiVersion" | "kind"))
            || (self.is_metadata && STRIPPED.contains(&name));
        let excluded = self.excluded.and_then(|set| set.field(name));
        if stripped || excluded.is_some_and(|node| node.member) {
            return None;
        }
        Some(Place {
            is_object: false,
            is_metadata: self.is_object && name == "metadata",
            excluded: excluded.map(|node| &node.children),
        })
    }

    /// Returns true if everything below can be owned.
    fn is_plain(self) -> bool {
        !self.is_metadata && self.excluded.is_none()
    }
}

struct Writer {
    out: Vec<u8>,
    scratch: Vec<u8>,
}

impl Writer {
    /// Members of an object that its type always has: only those that differ from an unset object are owned.
    fn untouched(&mut self, map: &Map, schema: &Struct, place: Place<'_>) -> Option<()> {
        for (name, value) in map.iter() {
            let field = schema.field(name);
            let shape = field.map_or(Shape::Deduced, Shape::of_field);
            let Some(below) = place.below(name) else {
                // Items without keys leave the whole object without owners, wherever they are.
                everything(value, shape).ok()?;
                continue;
            };
            let before = field.filter(|field| field.keep);
            let start = self.field(name);
            let written = match (before, shape, value) {
                // The object always exists, so only its members can be new.
                (Some(field), Shape::Struct(inner), Value::Object(members)) if !field.pointer => {
                    let start = self.open(false);
                    self.untouched(members, inner, below)?;
                    self.close(start)
                }
                (Some(field), ..) if same(&zero(&field.kind, field.pointer), value) => false,
                _ if !below.is_plain() => return None,
                (None, ..) if !shape.has_parts(value) => self.whole(),
                (before, ..) => {
                    let start = self.open(before.is_none());
                    self.everything(value, shape, below)?;
                    self.close(start) || self.leaf(start)
                }
            };
            if !written {
                self.out.truncate(start);
            }
        }
        Some(())
    }

    /// Everything below a value that is new as a whole.
    fn everything(&mut self, value: &Value, shape: Shape<'_>, place: Place<'_>) -> Option<()> {
        match (shape, value) {
            (Shape::Struct(_) | Shape::Map(_) | Shape::Deduced, Value::Object(map)) => {
                for (name, value) in map.iter() {
                    let shape = shape.member(name).0;
                    let Some(below) = place.below(name) else {
                        everything(value, shape).ok()?;
                        continue;
                    };
                    let start = self.field(name);
                    if !self.node(value, shape, below)? {
                        self.out.truncate(start);
                    }
                }
            }
            (Shape::List(items), Value::Array(list)) => self.items(list, items)?,
            _ => {}
        }
        Some(())
    }

    fn items(&mut self, list: &[Value], items: Items<'_>) -> Option<()> {
        let plain = Place { is_object: false, is_metadata: false, excluded: None };
        let mut elements = list
            .iter()
            .map(|item| Some((items.element(item).ok()?, item)))
            .collect::<Option<Vec<(Element, &Value)>>>()?;
        if !elements.is_sorted_by(|a, b| a.0 < b.0) {
            elements.sort_by(|a, b| a.0.cmp(&b.0));
            if elements.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
        }
        for (element, item) in elements {
            self.comma();
            element.write(&mut self.out, &mut self.scratch);
            self.out.push(b':');
            self.node(item, Shape::of(items.item), plain)?;
        }
        Some(())
    }

    /// A value and everything below it. False if nothing of it can be owned.
    fn node(&mut self, value: &Value, shape: Shape<'_>, place: Place<'_>) -> Option<bool> {
        if !shape.has_parts(value) {
            return Some(self.whole());
        }
        let start = self.open(true);
        self.everything(value, shape, place)?;
        Some(self.close(start) || self.leaf(start))
    }

    /// A value that is owned as a whole.
    fn whole(&mut self) -> bool {
        self.out.extend_from_slice(b"{}");
        true
    }

    /// Begins a member; returns the length to truncate to if nothing of it can be owned.
    fn field(&mut self, name: &str) -> usize {
        let start = self.out.len();
        self.comma();
        write_field(name, &mut self.out, &mut self.scratch);
        self.out.push(b':');
        start
    }

    fn comma(&mut self) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
    }

    /// Begins a level, which is owned itself or only has parts that are.
    fn open(&mut self, own: bool) -> usize {
        self.out.push(b'{');
        let start = self.out.len();
        if own {
            self.out.extend_from_slice(b"\".\":{}");
        }
        start
    }

    /// Ends a level that has parts; false if it has none.
    fn close(&mut self, start: usize) -> bool {
        let own: &[u8] = b"\".\":{}";
        if self.out.len() == start || self.out[start..] == *own {
            return false;
        }
        self.out.push(b'}');
        true
    }

    /// Ends a level without parts: it is owned as one value.
    fn leaf(&mut self, start: usize) -> bool {
        self.out.truncate(start);
        self.out.push(b'}');
        true
    }
}
