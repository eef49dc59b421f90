//! Comprehensions.
//!
//! The accumulator is computed when it is first read, so a local variable that is not read costs nothing. Lists and
//! maps that a comprehension builds grow in place: their slot owns them while they grow.

use std::sync::Arc;

use super::attributes::go_type;
use super::{Evaluator, Local, unsupported_key};
use crate::cost;
use crate::error::{Error, Result};
use crate::program::{Fold, NodeId};
use crate::value::{Entries, Growing, List, Map, Value};

impl<'a> Evaluator<'_, 'a> {
    fn set(&mut self, slot: usize, value: Local<'a>) {
        if let Some(local) = self.locals.get_mut(slot) {
            *local = value;
        }
    }

    pub(super) fn fold(&mut self, fold: &'a Fold) -> Result<Value<'a>> {
        let range = self.eval(fold.range)?;
        self.set(fold.slot, Local::Lazy(fold.init));
        match &range {
            Value::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    let proceed = match fold.two_variables {
                        true => self.step(fold, Ok(Value::Int(index as i64)), item)?,
                        false => self.step(fold, item, Ok(Value::Null))?,
                    };
                    if !proceed {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    if !self.step(fold, Ok(key), value)? {
                        break;
                    }
                }
            }
            other if fold.two_variables => {
                return Err(format!("unsupported comprehension range type: {}", go_type(other)).into());
            }
            other => return Err(format!("got '{}', expected iterable type", go_type(other)).into()),
        }
        self.set(fold.slot + 1, Local::Unset);
        self.set(fold.slot + 2, Local::Unset);
        let result = self.eval(fold.result);
        self.set(fold.slot, Local::Unset);
        result
    }

    /// One iteration. Returns false if the condition ends the loop.
    fn step(&mut self, fold: &'a Fold, first: Result<Value<'a>>, second: Result<Value<'a>>) -> Result<bool> {
        self.set(fold.slot + 1, Local::Value(first));
        if fold.two_variables {
            self.set(fold.slot + 2, Local::Value(second));
        }
        match self.eval(fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            _ => {}
        }
        let value = self.eval(fold.step);
        if matches!(value, Err(Error::Cancelled)) {
            return Err(Error::Cancelled);
        }
        self.set(fold.slot, Local::Value(value));
        Ok(true)
    }

    /// Takes the accumulator out of its slot.
    fn take(&mut self, slot: usize) -> Result<Value<'a>> {
        // Computes the initial value.
        self.local(slot)?;
        match self.locals.get_mut(slot).map(|local| std::mem::replace(local, Local::Unset)) {
            Some(Local::Value(value)) => value,
            _ => Err(Error::no_such_overload()),
        }
    }

    /// `accumulator + [item]`.
    pub(super) fn append(&mut self, slot: usize, item: NodeId) -> Result<Value<'a>> {
        self.charge(cost::SELECT)?;
        let constant = matches!(self.program.node(item), crate::program::Node::Constant(_));
        let item = self.eval(item);
        if matches!(item, Err(Error::Cancelled)) {
            return Err(Error::Cancelled);
        }
        self.charge(if constant { 1 } else { cost::LIST + 1 })?;
        let mut items = match self.take(slot)? {
            Value::List(List::Growing(items)) => items,
            Value::List(list) => {
                let mut items = Growing::default();
                for item in list.iter() {
                    items.push(item?);
                }
                Arc::new(items)
            }
            _ => return Err(Error::no_such_overload()),
        };
        Arc::make_mut(&mut items).push(item?);
        let list = Value::List(List::Growing(items));
        self.allocate(&list)?;
        Ok(list)
    }

    /// The accumulator's map, to be changed.
    fn take_map(&mut self, slot: usize) -> Result<Arc<Entries<'a>>> {
        match self.take(slot)? {
            Value::Map(Map::Entries(entries)) => Ok(entries),
            _ => Err(Error::no_such_overload()),
        }
    }

    pub(super) fn insert(&mut self, slot: usize, key: NodeId, value: NodeId) -> Result<Value<'a>> {
        // Arguments are evaluated up to the first that fails; the call costs 1 once all of them are.
        let failed = self.local(slot).err();
        self.charge(cost::SELECT)?;
        if let Some(error) = failed {
            return Err(error);
        }
        let key = self.eval(key)?;
        let value = self.eval(value);
        if matches!(value, Err(Error::Cancelled)) {
            return value;
        }
        self.charge(1)?;
        let value = value?;
        let mut entries = self.take_map(slot)?;
        add(Arc::make_mut(&mut entries), key, value)?;
        let map = Value::Map(Map::Entries(entries));
        self.allocate(&map)?;
        Ok(map)
    }

    pub(super) fn insert_all(&mut self, slot: usize, entries: NodeId) -> Result<Value<'a>> {
        self.charge(cost::SELECT)?;
        let added = self.eval(entries);
        if matches!(added, Err(Error::Cancelled)) {
            return Err(Error::Cancelled);
        }
        self.charge(1)?;
        let mut entries = self.take_map(slot)?;
        let Value::Map(added) = added? else { return Err(Error::no_such_overload()) };
        for (key, value) in added.iter() {
            add(Arc::make_mut(&mut entries), key, value?)?;
        }
        let map = Value::Map(Map::Entries(entries));
        self.allocate(&map)?;
        Ok(map)
    }
}

fn add<'a>(entries: &mut Entries<'a>, key: Value<'a>, value: Value<'a>) -> Result<()> {
    if entries.get(&key).is_some() {
        return Err(format!("insert failed: key {key} already exists").into());
    }
    let refused = unsupported_key(&key);
    if entries.insert(key, value) { Ok(()) } else { Err(refused) }
}
