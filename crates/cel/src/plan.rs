//! Planning: a checked expression becomes a program.
//!
//! As upstream's planner with its optimizations, because they decide costs and which expressions are accepted: constant
//! lists, maps and conversions are computed here, membership in a constant list is a lookup, and constant regular
//! expressions are checked; they are compiled when they are first used. A constant part that fails, fails the compilation.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use crate::ast::{CallExpr, Comprehension, Entry, Expr, ExprKind, Literal};
use crate::check::{Checked, Reference};
use crate::cost::functions::Actual;
use crate::declare::{Implementation, Overload};
use crate::environment::Environment;
use crate::eval;
use crate::library::regex::{Budget, Patterns};
use crate::program::{
    Attribute, Call, Constant, Dispatch, Fold, Node, NodeId, Program, Qualifier, QualifierKey, Root,
};
use crate::value::{Entries, Key, List, Map, Text, Value};

/// Compiles a checked expression whose constant patterns take part of a budget. The error is the text of a constant
/// part's failure.
pub(crate) fn plan(checked: &Checked, environment: &Environment, budget: &Budget) -> Result<Program, String> {
    let share = budget.share();
    let before = share.left();
    let mut planner = Planner {
        checked,
        environment,
        budget: &share,
        nodes: Vec::new(),
        scopes: Vec::new(),
        depth: 0,
        locals: 0,
    };
    let root = planner.plan(&checked.expr);
    let (nodes, locals) = (planner.nodes, planner.locals);
    budget.take(before - share.left());
    Ok(Program { nodes, root: root?, locals })
}

struct Planner<'c> {
    checked: &'c Checked,
    environment: &'c Environment,
    budget: &'c Budget,
    nodes: Vec<Node>,
    /// Variables of comprehensions and their slots, innermost last.
    scopes: Vec<(Arc<str>, usize)>,
    /// Slots in use.
    depth: usize,
    locals: usize,
}

/// Conversions, which are computed for constants.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// A node that is not in the program yet, so that qualifiers can be added to it.
enum Planned {
    Attribute(Attribute),
    Done(NodeId),
}

impl Planner<'_> {
    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    fn plan(&mut self, expr: &Expr) -> Result<NodeId, String> {
        match self.plan_open(expr)? {
            Planned::Attribute(attribute) => Ok(self.push(Node::Attribute(attribute))),
            Planned::Done(id) => Ok(id),
        }
    }

    fn constant(&self, id: NodeId) -> Option<&Value<'static>> {
        match self.nodes.get(id.0 as usize) {
            Some(Node::Constant(value)) => Some(value),
            _ => None,
        }
    }

    fn plan_open(&mut self, expr: &Expr) -> Result<Planned, String> {
        let node = match &expr.kind {
            ExprKind::Invalid => return Err("unsupported expr".to_owned()),
            ExprKind::Literal(literal) => Node::Constant(literal_value(literal)),
            ExprKind::Ident(name) => return self.plan_ident(expr, name),
            ExprKind::Select(select) => {
                if let Some(root) = self.record_field(&select.operand, &select.field) {
                    let test = select.test;
                    return Ok(Planned::Attribute(Attribute { root, qualifiers: Vec::new(), test }));
                }
                let mut attribute = self.plan_attribute(&select.operand)?;
                let key = QualifierKey::Field(select.field.clone());
                attribute.qualifiers.push(Qualifier { key, optional: false });
                attribute.test = select.test;
                return Ok(Planned::Attribute(attribute));
            }
            ExprKind::Call(call) => return self.plan_call(expr, call),
            ExprKind::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for element in elements {
                    items.push((self.plan(&element.value)?, element.optional));
                }
                self.plan_list(items)
            }
            ExprKind::Map(entries) => self.plan_map(entries)?,
            ExprKind::Struct(object) => {
                if !self.environment.is_patch_type(&object.name) {
                    return Err(format!("unknown type: {}", object.name));
                }
                let mut fields = Vec::with_capacity(object.fields.len());
                for field in &object.fields {
                    fields.push((field.name.clone(), self.plan(&field.value)?, field.optional));
                }
                Node::Object(object.name.clone(), fields.into())
            }
            ExprKind::Comprehension(c) => self.plan_comprehension(c)?,
        };
        Ok(Planned::Done(self.push(node)))
    }

    fn plan_ident(&mut self, expr: &Expr, name: &Arc<str>) -> Result<Planned, String> {
        let root = match self.checked.reference(expr) {
            Reference::Variable(slot) => {
                let name = self.environment.variable_name(*slot).unwrap_or_default();
                match self.environment.is_record_field(*slot) {
                    true => Root::Field(*slot, name),
                    false => Root::Variable(*slot, name),
                }
            }
            Reference::Type(ty) => {
                let value = Value::Type(Arc::new(ty.clone()));
                return Ok(Planned::Done(self.push(Node::Constant(value))));
            }
            _ => Root::Local(self.slot(name).ok_or_else(|| format!("no such attribute(s): {name}"))?),
        };
        Ok(Planned::Attribute(Attribute { root, qualifiers: Vec::new(), test: false }))
    }

    /// A field of the record, where its presence is tested. Others are variables since the check.
    fn record_field(&self, operand: &Expr, field: &str) -> Option<Root> {
        let ExprKind::Ident(name) = &operand.kind else { return None };
        let Reference::Variable(_) = self.checked.reference(operand) else { return None };
        let name = format!("{name}.{field}");
        let (slot, _) = self.environment.variable(&name)?;
        self.environment.is_record_field(slot).then(|| Root::Field(slot, name.into()))
    }

    fn slot(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rev().find(|(known, _)| **known == *name).map(|(_, slot)| *slot)
    }

    /// The node of an operand as something that qualifiers can be added to.
    fn plan_attribute(&mut self, operand: &Expr) -> Result<Attribute, String> {
        Ok(match self.plan_open(operand)? {
            Planned::Attribute(attribute) if !attribute.test => attribute,
            Planned::Attribute(attribute) => {
                let id = self.push(Node::Attribute(attribute));
                Attribute { root: Root::Node(id), qualifiers: Vec::new(), test: false }
            }
            Planned::Done(id) => Attribute { root: Root::Node(id), qualifiers: Vec::new(), test: false },
        })
    }

    fn plan_list(&self, items: Vec<(NodeId, bool)>) -> Node {
        let constants: Option<Vec<Value<'static>>> =
            items.iter().map(|(id, optional)| self.constant(*id).filter(|_| !optional).cloned()).collect();
        match constants {
            Some(values) => Node::Constant(Value::list(values)),
            None => Node::List(items.into()),
        }
    }

    fn plan_map(&mut self, entries: &[Entry]) -> Result<Node, String> {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            planned.push((self.plan(&entry.key)?, self.plan(&entry.value)?, entry.optional));
        }
        let mut constants = Entries::default();
        for (key, value, optional) in &planned {
            let (Some(key), Some(value), false) = (self.constant(*key), self.constant(*value), optional)
            else {
                return Ok(Node::Map(planned.into()));
            };
            if !constants.insert(key.clone(), value.clone()) {
                return Err(eval::unsupported_key(key).to_string());
            }
        }
        Ok(Node::Constant(Value::Map(Map::of(constants))))
    }

    fn plan_call(&mut self, expr: &Expr, call: &CallExpr) -> Result<Planned, String> {
        let (function, overloads) = match self.checked.reference(expr) {
            Reference::OptionalSelect => return self.plan_index(call, true),
            Reference::Function(function, overloads) => (*function, overloads.as_slice()),
            _ => return Err(format!("no such overload: {}", call.function)),
        };
        if matches!(function, "_[_]" | "_[?_]") {
            return self.plan_index(call, function == "_[?_]");
        }
        if function == "cel.@mapInsert" {
            let node = self.plan_insert(call)?;
            return Ok(Planned::Done(self.push(node)));
        }
        let mut arguments = Vec::with_capacity(call.arguments.len() + 1);
        for argument in call.target.iter().chain(&call.arguments) {
            arguments.push(self.plan(argument)?);
        }
        let node = match (function, arguments.as_slice()) {
            ("_&&_", [a, b]) => Node::And(*a, *b),
            ("_||_", [a, b]) => Node::Or(*a, *b),
            ("@not_strictly_false", [a]) => Node::NotStrictlyFalse(*a),
            ("_==_", [a, b]) => Node::Equal(*a, *b),
            ("_!=_", [a, b]) => Node::NotEqual(*a, *b),
            ("or", [a, b]) if only(overloads, "optional_or_optional") => Node::OptionalOr(*a, *b),
            ("orValue", [a, b]) if only(overloads, "optional_orValue_value") => Node::OptionalOrValue(*a, *b),
            ("_?_:_", [condition, a, b]) => {
                let root = Root::Conditional(*condition, *a, *b);
                return Ok(Planned::Attribute(Attribute { root, qualifiers: Vec::new(), test: false }));
            }
            _ => self.plan_function(function, overloads, arguments)?,
        };
        Ok(Planned::Done(self.push(node)))
    }

    fn plan_index(&mut self, call: &CallExpr, optional: bool) -> Result<Planned, String> {
        let [operand, index] = call.arguments.as_slice() else {
            return Err("no such overload: _[_]".to_owned());
        };
        let mut attribute = self.plan_attribute(operand)?;
        let id = self.plan(index)?;
        let key = match self.constant(id) {
            Some(Value::String(text)) => QualifierKey::Field((&**text).into()),
            Some(constant) if eval::is_qualifier(constant) => QualifierKey::Constant(constant.clone()),
            Some(constant) => return Err(eval::unsupported_qualifier(constant).to_string()),
            None => QualifierKey::Node(id),
        };
        attribute.qualifiers.push(Qualifier { key, optional });
        Ok(Planned::Attribute(attribute))
    }

    fn plan_function(
        &mut self,
        function: &'static str,
        overloads: &[Arc<Overload>],
        arguments: Vec<NodeId>,
    ) -> Result<Node, String> {
        if let ([_], [a, b]) = (overloads, arguments.as_slice())
            && only(overloads, "in_list")
            && let Some(Value::List(list)) = self.constant(*b)
        {
            if list.is_empty() {
                return Ok(Node::Constant(Value::Bool(false)));
            }
            if let Some(set) = member_set(list) {
                return Ok(Node::InSet(*a, set));
            }
        }
        // Without argument types, which are known where one overload matches, the values decide.
        let (dispatch, id) = match overloads {
            [one] => (self.plan_overload(one, &arguments)?, one.id),
            several => (Dispatch::Several(Arc::new(several.to_vec())), ""),
        };
        let singleton = overloads.iter().all(|overload| overload.unguarded);
        let compiled = matches!(dispatch, Dispatch::Pattern(..));
        let variadic = arguments.len() > 2 || (overloads.len() > 1 && !singleton) || compiled;
        let cost = Actual::of(function, id, overloads);
        let call = Call { function, arguments: arguments.into(), dispatch, cost, variadic };
        if CONVERSIONS.contains(&function)
            && let [argument] = *call.arguments
            && let Some(constant) = self.constant(argument)
        {
            let value = eval::call(&call, std::slice::from_ref(constant), &Patterns::default())
                .map_err(|error| error.to_string())?;
            return Ok(Node::Constant(value));
        }
        Ok(Node::Call(Box::new(call)))
    }

    /// One overload. A constant regular expression is checked.
    fn plan_overload(&self, overload: &Arc<Overload>, arguments: &[NodeId]) -> Result<Dispatch, String> {
        if let Implementation::Pattern(at, function) = overload.implementation
            && let Some(Value::String(pattern)) = arguments.get(at).and_then(|id| self.constant(*id))
        {
            let kept = match self.budget.translate(pattern) {
                Ok(_) => Some(OnceLock::new()),
                Err(refused) if refused.too_large && self.budget.lenient => None,
                Err(refused) => return Err(refused.why),
            };
            let constant = Constant { pattern: (&**pattern).into(), kept };
            return Ok(Dispatch::Pattern(overload.clone(), constant, function));
        }
        Ok(Dispatch::One(overload.clone()))
    }

    /// The step of a comprehension that builds a map.
    fn plan_insert(&mut self, call: &CallExpr) -> Result<Node, String> {
        let slot = match call.arguments.first().map(|argument| &argument.kind) {
            Some(ExprKind::Ident(name)) => self.slot(name),
            _ => None,
        };
        match (slot, call.arguments.as_slice()) {
            (Some(slot), [_, key, value]) => {
                let (key, value) = (self.plan(key)?, self.plan(value)?);
                Ok(Node::Insert(slot, key, value))
            }
            (Some(slot), [_, entries]) => Ok(Node::InsertAll(slot, self.plan(entries)?)),
            _ => Err("no such overload: cel.@mapInsert".to_owned()),
        }
    }

    fn plan_comprehension(&mut self, c: &Comprehension) -> Result<Node, String> {
        let range = self.plan(&c.range)?;
        let (slot, outer, locals) = (self.depth, self.scopes.len(), self.locals);
        // The initial value is computed when it is first read, in the middle of the loop: its slots are its own.
        self.depth += 3;
        self.locals = self.depth;
        let init = self.plan(&c.init)?;
        self.depth = self.locals;
        self.locals = self.locals.max(locals);
        self.scopes.push((c.accumulator.clone(), slot));
        let accumulator = self.scopes.len();
        self.scopes.push((c.variable.clone(), slot + 1));
        if let Some(variable) = &c.variable2 {
            self.scopes.push((variable.clone(), slot + 2));
        }
        let condition = self.plan(&c.condition)?;
        let step = self.plan_step(c)?;
        self.scopes.truncate(accumulator);
        let result = self.plan(&c.result)?;
        self.scopes.truncate(outer);
        self.depth = slot;
        let two_variables = c.variable2.is_some();
        Ok(Node::Fold(Box::new(Fold { range, init, condition, step, result, slot, two_variables })))
    }

    /// The step of a comprehension. Steps that append to the accumulator do so in place.
    fn plan_step(&mut self, c: &Comprehension) -> Result<NodeId, String> {
        match &c.step.kind {
            ExprKind::Call(call) if &*call.function == "_?_:_" => {
                let [condition, then, otherwise] = call.arguments.as_slice() else {
                    return self.plan(&c.step);
                };
                let Some(item) = appended(then, c) else { return self.plan(&c.step) };
                let condition = self.plan(condition)?;
                let then = self.plan_append(item, c)?;
                let otherwise = self.plan(otherwise)?;
                let root = Root::Conditional(condition, then, otherwise);
                Ok(self.push(Node::Attribute(Attribute { root, qualifiers: Vec::new(), test: false })))
            }
            _ => match appended(&c.step, c) {
                Some(item) => self.plan_append(item, c),
                None => self.plan(&c.step),
            },
        }
    }

    fn plan_append(&mut self, item: &Expr, c: &Comprehension) -> Result<NodeId, String> {
        let slot = self.slot(&c.accumulator).unwrap_or_default();
        let item = self.plan(item)?;
        Ok(self.push(Node::Append(slot, item)))
    }
}

/// The item that a step appends: `accumulator + [item]` where the accumulator starts empty.
fn appended<'e>(step: &'e Expr, c: &Comprehension) -> Option<&'e Expr> {
    let ExprKind::List(init) = &c.init.kind else { return None };
    let ExprKind::Call(call) = &step.kind else { return None };
    let [accumulator, items] = call.arguments.as_slice() else { return None };
    let is_accumulator = matches!(&accumulator.kind, ExprKind::Ident(name) if *name == c.accumulator);
    match &items.kind {
        ExprKind::List(items) if init.is_empty() && &*call.function == "_+_" && is_accumulator => {
            match items.as_slice() {
                [item] if !item.optional => Some(&item.value),
                _ => None,
            }
        }
        _ => None,
    }
}

fn only(overloads: &[Arc<Overload>], id: &str) -> bool {
    matches!(overloads, [one] if one.id == id)
}

/// The keys of a constant list whose members are all primitive; numbers also as the other types of the same value.
fn member_set(list: &List<'static>) -> Option<HashSet<Key>> {
    let mut set = HashSet::new();
    for item in list.iter() {
        let item = item.ok()?;
        match &item {
            Value::Double(d) => {
                let (int, uint) = (*d as i64, *d as u64);
                if int as f64 == *d && crate::value::in_int_range(*d) {
                    set.insert(Key::Int(int));
                }
                if uint as f64 == *d && crate::value::in_uint_range(*d) {
                    set.insert(Key::Uint(uint));
                }
            }
            Value::Int(i) => {
                set.extend(Key::of(&Value::Double(*i as f64)));
                set.extend(u64::try_from(*i).ok().map(Key::Uint));
            }
            Value::Uint(u) => {
                set.extend(Key::of(&Value::Double(*u as f64)));
                set.extend(i64::try_from(*u).ok().map(Key::Int));
            }
            Value::Bool(_) | Value::String(_) => {}
            _ => return None,
        }
        set.insert(Key::of(&item)?);
    }
    Some(set)
}

fn literal_value(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(i) => Value::Int(*i),
        Literal::Uint(u) => Value::Uint(*u),
        Literal::Double(d) => Value::Double(*d),
        Literal::String(text) => Value::String(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::bytes(bytes.clone()),
    }
}
