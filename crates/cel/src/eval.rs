//! The evaluator: walks a program and counts its cost.
//!
//! Costs are upstream's, node by node. Errors are values until a strict operation meets them: `&&`, `||` and the
//! conditions of comprehensions absorb them; a cancelled evaluation ends at once. Memory is bounded by the cost limit
//! and by `MAX_MEMORY`, because some functions create more than they cost.

mod attributes;
mod calls;
mod folds;

pub(crate) use attributes::{is_qualifier, unsupported_qualifier};
pub(crate) use calls::{call, unsupported_key};

use std::sync::Arc;

use crate::cost;
use crate::error::{Error, Result};
use crate::library::regex::Patterns;
use crate::program::{Node, NodeId, Program, Variables};
use crate::value::{Entries, Key, Map, Object, Text, Value, equal};
use crate::{value, work};

/// The most memory that the values of one evaluation take, all together, in bytes.
const MAX_MEMORY: usize = 256 << 20;
/// The steps of work that cost nothing, and those beyond that cost 1: real objects are compared with far fewer.
const FREE_STEPS: u64 = 10_000;
const STEPS_OF_COST: u64 = 2;

/// Evaluates a program: the value, and what it cost.
pub(crate) fn evaluate<'a>(
    program: &'a Program,
    variables: &dyn Variables<'a>,
    limit: u64,
    patterns: &Patterns,
) -> (Result<Value<'a>>, u64) {
    let locals = std::iter::repeat_with(|| Local::Unset).take(program.locals).collect();
    let mut evaluator =
        Evaluator { program, variables, locals, cost: 0, limit, memory: 0, steps: 0, patterns };
    let value = evaluator.eval(program.root);
    (value, evaluator.cost)
}

struct Evaluator<'v, 'a> {
    program: &'a Program,
    variables: &'v dyn Variables<'a>,
    locals: Vec<Local<'a>>,
    cost: u64,
    limit: u64,
    memory: usize,
    /// Work that calls did (`work`).
    steps: u64,
    patterns: &'v Patterns,
}

/// A variable of a comprehension.
enum Local<'a> {
    Unset,
    /// Computed when it is first read.
    Lazy(NodeId),
    Value(Result<Value<'a>>),
}

impl<'a> Evaluator<'_, 'a> {
    /// Counts cost. Too much of it ends the evaluation.
    fn charge(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Makes a call that may visit more values than its cost says. Work beyond `FREE_STEPS` counts as cost.
    fn counted<T>(&mut self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let free = FREE_STEPS.saturating_sub(self.steps);
        let paid = (self.limit - self.cost.min(self.limit)).saturating_mul(STEPS_OF_COST);
        let (result, steps) = work::within(free.saturating_add(paid).saturating_add(1), call);
        let beyond = |steps: u64| steps.saturating_sub(FREE_STEPS) / STEPS_OF_COST;
        let before = beyond(self.steps);
        self.steps = self.steps.saturating_add(steps);
        self.charge(beyond(self.steps) - before)?;
        result
    }

    /// Counts the memory of a new value, and limits its depth.
    fn allocate(&mut self, value: &Value<'a>) -> Result<()> {
        if value.depth() > value::MAX_DEPTH {
            return Err(Error::Cancelled);
        }
        let size = match value {
            Value::String(Text::Shared(text)) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(value::List::Items(items, _)) => items.len().saturating_mul(size_of::<Value<'_>>()),
            _ => return Ok(()),
        };
        self.memory = self.memory.saturating_add(size);
        if self.memory > MAX_MEMORY { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn eval(&mut self, id: NodeId) -> Result<Value<'a>> {
        let program = self.program;
        match program.node(id) {
            Node::Constant(value) => Ok(constant(value)),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::And(a, b) => self.logic(*a, *b, false),
            Node::Or(a, b) => self.logic(*a, *b, true),
            Node::Equal(a, b) => self.equality(*a, *b),
            Node::NotEqual(a, b) => self.inequality(*a, *b),
            Node::Call(call) => self.call(call),
            Node::NotStrictlyFalse(argument) => {
                let value = self.eval(*argument);
                if matches!(value, Err(Error::Cancelled)) {
                    return value;
                }
                self.charge(1)?;
                Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))))
            }
            Node::InSet(argument, set) => {
                let value = self.eval(*argument)?;
                Ok(Value::Bool(Key::of(&value).is_some_and(|key| set.contains(&key))))
            }
            Node::List(elements) => {
                let list = self.list(elements);
                self.charge(cost::LIST)?;
                list
            }
            Node::Map(entries) => {
                let map = self.map(entries);
                self.charge(cost::MAP)?;
                map
            }
            Node::Object(name, fields) => {
                let object = self.object(name, fields);
                self.charge(cost::STRUCT)?;
                object
            }
            Node::Fold(fold) => self.fold(fold),
            Node::Append(slot, item) => self.append(*slot, *item),
            Node::Insert(slot, key, value) => self.insert(*slot, *key, *value),
            Node::InsertAll(slot, entries) => self.insert_all(*slot, *entries),
            Node::OptionalOr(a, b) => match self.eval(*a)? {
                Value::Optional(None) => self.eval(*b),
                value @ Value::Optional(_) => Ok(value),
                _ => Err(Error::no_such_overload()),
            },
            Node::OptionalOrValue(a, b) => match self.eval(*a)? {
                Value::Optional(None) => self.eval(*b),
                Value::Optional(Some(value)) => Ok(Value::clone(&value)),
                _ => Err(Error::no_such_overload()),
            },
        }
    }

    /// `a && b`, or `a || b`: the deciding value wins over errors.
    fn logic(&mut self, a: NodeId, b: NodeId, deciding: bool) -> Result<Value<'a>> {
        let mut error = None;
        for operand in [a, b] {
            match self.eval(operand) {
                Ok(Value::Bool(value)) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(Some(Error::no_such_overload())),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        error.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    /// Evaluates two operands, the second also if the first fails.
    fn operands(&mut self, a: NodeId, b: NodeId) -> Result<(Result<Value<'a>>, Result<Value<'a>>)> {
        let a = self.eval(a);
        if matches!(a, Err(Error::Cancelled)) {
            return Err(Error::Cancelled);
        }
        let b = self.eval(b);
        if matches!(b, Err(Error::Cancelled)) {
            return Err(Error::Cancelled);
        }
        Ok((a, b))
    }

    fn equality(&mut self, a: NodeId, b: NodeId) -> Result<Value<'a>> {
        let (a, b) = self.operands(a, b)?;
        // Some types of libraries cost 1, whatever their size.
        let cost = match &a {
            Ok(Value::Opaque(_)) => 1,
            _ => smaller_traversal(&a, &b),
        };
        self.charge(cost)?;
        let (a, b) = (a?, b?);
        self.counted(|| equal(&a, &b)).map(Value::Bool)
    }

    fn inequality(&mut self, a: NodeId, b: NodeId) -> Result<Value<'a>> {
        let (a, b) = self.operands(a, b)?;
        self.charge(smaller_traversal(&a, &b))?;
        // Values that cannot be compared are not equal.
        let (a, b) = (a?, b?);
        self.counted(|| equal(&a, &b).or_else(Error::unless_cancelled)).map(|equal| Value::Bool(!equal))
    }

    fn list(&mut self, elements: &[(NodeId, bool)]) -> Result<Value<'a>> {
        let mut items = Vec::with_capacity(elements.len());
        for (id, optional) in elements {
            let value = self.eval(*id)?;
            match (optional, value) {
                (false, value) => items.push(value),
                (true, Value::Optional(None)) => {}
                (true, Value::Optional(Some(value))) => items.push(Value::clone(&value)),
                (true, value) => {
                    let message =
                        format!("cannot initialize optional list element from non-optional value {value}");
                    return Err(message.into());
                }
            }
        }
        let list = Value::list(items);
        self.allocate(&list)?;
        Ok(list)
    }

    fn object(&mut self, name: &Arc<str>, fields: &[(Arc<str>, NodeId, bool)]) -> Result<Value<'a>> {
        let mut object = Object::new(name.clone(), fields.len());
        for (name, id, optional) in fields {
            match (optional, self.eval(*id)?) {
                (false, value) => object.set(name, value)?,
                (true, Value::Optional(None)) => {}
                (true, Value::Optional(Some(value))) => object.set(name, Value::clone(&value))?,
                (true, value) => {
                    let message =
                        format!("cannot initialize optional entry '{name}' from non-optional value {value}");
                    return Err(message.into());
                }
            }
        }
        let object = Value::Object(Arc::new(object));
        self.allocate(&object)?;
        Ok(object)
    }

    fn map(&mut self, entries: &[(NodeId, NodeId, bool)]) -> Result<Value<'a>> {
        let mut result = Entries::default();
        for (key, value, optional) in entries {
            let key = self.eval(*key)?;
            let value = self.eval(*value)?;
            let value = match (optional, value) {
                (false, value) => value,
                (true, Value::Optional(None)) => {
                    result.remove(&key);
                    continue;
                }
                (true, Value::Optional(Some(value))) => Value::clone(&value),
                (true, value) => {
                    let message =
                        format!("cannot initialize optional entry '{key}' from non-optional value {value}");
                    return Err(message.into());
                }
            };
            let refused = unsupported_key(&key);
            if !result.insert(key, value) {
                return Err(refused);
            }
        }
        let map = Value::Map(Map::of(result));
        self.allocate(&map)?;
        Ok(map)
    }
}

/// A constant of the program. Text is borrowed, which is cheaper than sharing it.
fn constant<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::String(text) => Value::String(Text::Borrowed(text)),
        other => other.clone(),
    }
}

/// The cost of comparing: traversing the smaller value.
fn smaller_traversal(a: &Result<Value<'_>>, b: &Result<Value<'_>>) -> u64 {
    let size = |value: &Result<Value<'_>>| value.as_ref().map_or(1, cost::functions::actual_size);
    cost::traversal(size(a).min(size(b)), cost::TRAVERSAL)
}
