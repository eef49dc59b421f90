//! The estimate of a checked expression's cost: a walk that follows sizes from schemas and literals through the tree.
//!
//! The path of a node (`self`, `items`, `@items`, `name`) names the place of its value in the schema; the sizes there
//! bound loops and traversals. A value that is not at such a place has the size that its expression gives, or an
//! unknown one.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Argument, Call, Estimate, LIST, MAP, Range, SELECT, STRUCT, functions, standard};
use crate::ast::{CallExpr, Comprehension, Expr, ExprKind, Literal};
use crate::check::{Checked, Reference};
use crate::declare::{Cost, Overload};
use crate::schema::{Schema, Shape};
use crate::types::{Kind, Type};

/// Sizes of values by their path. The first part is a variable, the others are fields, `@items`, `@keys` or `@values`.
pub trait Sizes {
    fn size(&self, path: &[Arc<str>]) -> Option<Range>;
}

/// No sizes.
pub struct NoSizes;

impl Sizes for NoSizes {
    fn size(&self, _path: &[Arc<str>]) -> Option<Range> {
        None
    }
}

/// Sizes below a variable with this schema; the variable's name does not matter.
impl Sizes for Schema {
    fn size(&self, path: &[Arc<str>]) -> Option<Range> {
        let mut schema = self;
        let steps = path.split_first()?.1;
        for (at, step) in steps.iter().enumerate() {
            schema = match (&**step, schema.shape()) {
                ("@items" | "@values", Shape::Array(Some(inner), _) | Shape::Map(inner)) => inner,
                // Keys have no bound; nothing is below them.
                ("@keys", Shape::Map(_)) if at + 1 == steps.len() => return Some(Range::ZERO),
                (field, _) => schema.field(field, false)?,
            };
        }
        Some(Range::new(0, schema.max_elements() as u64))
    }
}

/// Estimates the cost of an expression.
pub fn estimate(checked: &Checked, sizes: &dyn Sizes) -> Range {
    let count = checked.types.len();
    let mut coster = Coster {
        checked,
        sizes,
        paths: vec![Vec::new(); count],
        computed: vec![None; count],
        entries: vec![None; count],
        locals: HashMap::new(),
    };
    coster.cost(&checked.expr)
}

type Path = Vec<Arc<str>>;

struct Coster<'c> {
    checked: &'c Checked,
    sizes: &'c dyn Sizes,
    /// By id of a node, as the following.
    paths: Vec<Path>,
    computed: Vec<Option<Range>>,
    entries: Vec<Option<EntrySize>>,
    locals: HashMap<Arc<str>, Vec<Local>>,
}

/// Sizes of the entries of a list or map that the expression creates.
#[derive(Clone, Copy)]
struct EntrySize {
    list: bool,
    key: Range,
    value: Range,
}

/// A variable of a comprehension.
#[derive(Clone)]
struct Local {
    path: Path,
    size: Option<Range>,
    entry: Option<EntrySize>,
}

fn union(a: Option<EntrySize>, b: Option<EntrySize>) -> Option<EntrySize> {
    let (a, b) = (a?, b?);
    Some(EntrySize { list: a.list, key: a.key.union(b.key), value: a.value.union(b.value) })
}

impl<'c> Coster<'c> {
    fn ty(&self, expr: &Expr) -> &'c Type {
        self.checked.ty(expr)
    }

    fn local(&self, expr: &Expr) -> Option<&Local> {
        match &expr.kind {
            ExprKind::Ident(name) => self.locals.get(name)?.last(),
            _ => None,
        }
    }

    fn path(&self, expr: &Expr) -> Path {
        match self.local(expr) {
            Some(local) => local.path.clone(),
            None => self.paths[expr.id].clone(),
        }
    }

    fn path_with(&self, expr: &Expr, step: &str) -> Path {
        let mut path = self.path(expr);
        path.push(step.into());
        path
    }

    /// The size of a node, where it is known.
    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.computed[expr.id] {
            return Some(size);
        }
        let size = match &expr.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text.chars().count()),
            ExprKind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            ExprKind::Literal(_) => Some(1),
            ExprKind::List(elements) => Some(elements.len()),
            ExprKind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = size {
            return Some(Range::exactly(size as u64));
        }
        let path = self.path(expr);
        if !path.is_empty()
            && let Some(size) = self.sizes.size(&path)
        {
            self.computed[expr.id] = Some(size);
            return Some(size);
        }
        if is_scalar(self.ty(expr)) {
            return Some(Range::ONE);
        }
        self.local(expr)?.size
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Range>) {
        if size.is_some() {
            self.computed[expr.id] = size;
        }
    }

    fn entry(&self, expr: &Expr) -> Option<EntrySize> {
        self.entries[expr.id].or_else(|| self.local(expr)?.entry)
    }

    fn set_entry(&mut self, expr: &Expr, entry: Option<EntrySize>) {
        if entry.is_some() {
            self.entries[expr.id] = entry;
        }
    }

    fn push(&mut self, name: &Arc<str>, local: Local) {
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn pop(&mut self, name: &Arc<str>) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Invalid | ExprKind::Literal(_) => Range::ZERO,
            ExprKind::Ident(name) => {
                self.paths[expr.id] = match self.local(expr) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                Range::exactly(SELECT)
            }
            ExprKind::Select(select) if select.test => self.cost(&select.operand),
            ExprKind::Select(select) => {
                let mut cost = self.cost(&select.operand);
                if matches!(self.ty(&select.operand).kind(), Kind::Map | Kind::Object | Kind::Parameter) {
                    cost = cost.plus(Range::exactly(SELECT));
                }
                self.paths[expr.id] = self.path_with(&select.operand, &select.field);
                cost
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(elements) => {
                let mut cost = Range::ZERO;
                let mut item = empty_range(elements.is_empty());
                for element in elements {
                    cost = cost.plus(self.cost(&element.value));
                    item = item.union(self.size_or_unknown(&element.value));
                }
                self.set_entry(expr, Some(EntrySize { list: true, key: Range::ONE, value: item }));
                cost.plus(Range::exactly(LIST))
            }
            ExprKind::Map(entries) => {
                let mut cost = Range::ZERO;
                let (mut key, mut value) = (empty_range(entries.is_empty()), empty_range(entries.is_empty()));
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.set_entry(expr, Some(EntrySize { list: false, key, value }));
                cost.plus(Range::exactly(MAP))
            }
            ExprKind::Struct(object) => {
                let costs = object.fields.iter().map(|field| self.cost(&field.value));
                costs.fold(Range::ZERO, Range::plus).plus(Range::exactly(STRUCT))
            }
            ExprKind::Comprehension(c) if is_binding(c) => self.binding(expr, c),
            ExprKind::Comprehension(c) => self.comprehension(expr, c),
        }
    }

    fn binding(&mut self, expr: &Expr, c: &Comprehension) -> Range {
        let mut cost = self.cost(&c.range).plus(self.cost(&c.init));
        let (path, size, entry) = (self.path(&c.init), self.size(&c.init), self.entry(&c.init));
        self.push(&c.accumulator, Local { path, size, entry });
        cost = cost.plus(self.cost(&c.result));
        self.pop(&c.accumulator);
        let (size, entry) = (self.size(&c.result), self.entry(&c.result));
        self.set_size(expr, size);
        self.set_entry(expr, entry);
        cost
    }

    /// A variable of a loop over keys, or over values.
    fn iteration(&mut self, name: &Arc<str>, range: &Expr, keys: bool, two: bool) {
        let entry = self.entry(range);
        let list = entry.map_or(self.ty(range).kind() == Kind::List, |entry| entry.list);
        let (step, size) = match (list, two, keys) {
            (true, true, true) => ("@indices", entry.map(|entry| entry.key)),
            (true, ..) => ("@items", entry.map(|entry| entry.value)),
            (false, _, true) => ("@keys", entry.map(|entry| entry.key)),
            (false, _, false) => ("@values", entry.map(|entry| entry.value)),
        };
        let path = self.path_with(range, step);
        self.push(name, Local { path, size, entry: None });
    }

    fn comprehension(&mut self, expr: &Expr, c: &Comprehension) -> Range {
        let mut cost = self.cost(&c.range).plus(self.cost(&c.init));
        let (path, size, entry) = (self.path(&c.init), self.size(&c.init), self.entry(&c.init));
        self.push(&c.accumulator, Local { path, size, entry });
        self.iteration(&c.variable, &c.range, true, c.variable2.is_some());
        if let Some(variable) = &c.variable2 {
            self.iteration(variable, &c.range, false, true);
        }
        let each = self.cost(&c.condition);
        let each = self.cost(&c.step).plus(each);
        self.pop(&c.variable);
        if let Some(variable) = &c.variable2 {
            self.pop(variable);
        }
        cost = cost.plus(self.cost(&c.result));
        self.pop(&c.accumulator);
        let count = self.size_or_unknown(&c.range);
        cost = cost.plus(count.times(each));
        match &c.init.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&c.init);
                self.set_size(expr, size);
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.set_size(expr, Some(count));
                let entry = self.entry(&c.step);
                self.set_entry(expr, entry);
            }
            _ => {}
        }
        cost
    }

    fn call(&mut self, expr: &Expr, call: &CallExpr) -> Range {
        if let ("dyn", Some(argument)) = (&*call.function, call.arguments.first()) {
            let cost = self.cost(argument);
            let (size, entry) = (self.size(argument), self.entry(argument));
            self.set_size(expr, size);
            self.set_entry(expr, entry);
            return cost.plus(Range::ONE);
        }
        let mut costs = Vec::with_capacity(call.arguments.len());
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            costs.push(self.cost(argument));
            arguments.push(self.argument(argument));
        }
        let mut total = Range::ZERO;
        let target = call.target.as_ref().map(|target| {
            total = self.cost(target);
            self.argument(target)
        });
        let checked = self.checked;
        let (function, overloads): (&str, &[Arc<Overload>]) = match checked.reference(expr) {
            Reference::Function(function, overloads) => (function, overloads),
            Reference::OptionalSelect => ("_?._", &[]),
            _ => return Range::ZERO,
        };
        let sum = costs.iter().copied().fold(Range::ZERO, Range::plus);
        let mut cost = Range::new(u64::MAX, 0);
        let mut result = None;
        if overloads.is_empty() {
            cost = Range::ONE.plus(sum);
            result = self.size(expr);
        }
        let mut described = Call { overload: "", target, arguments };
        for overload in overloads {
            described.overload = overload.id;
            let estimate = self.overload(expr, call, function, overload, &described, &costs, sum);
            cost = cost.union(estimate.cost);
            result = match (result, estimate.result) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let ("index_list" | "index_map", Some(operand)) = (overload.id, call.arguments.first()) {
                result = self.entry(operand).map(|entry| entry.value);
                let step = if overload.id == "index_list" { "@items" } else { "@values" };
                self.paths[expr.id] = self.path_with(operand, step);
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        self.set_size(expr, result);
        total.plus(cost)
    }

    /// An argument as the rules of functions see it.
    fn argument<'e>(&mut self, expr: &'e Expr) -> Argument<'e>
    where
        'c: 'e,
    {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| matches!(&**first, "@result" | "__result__")) {
            path.clear();
        }
        let computed = self.size(expr);
        let size = computed.or_else(|| self.sizes.size(&path)).unwrap_or(Range::UNKNOWN);
        let ty = self.ty(expr);
        let items = (!path.is_empty()).then(|| {
            path.push("@items".into());
            self.sizes.size(&path)
        });
        let item_size = items.flatten().unwrap_or(Range::UNKNOWN);
        Argument { ty, size, computed, item_size, literal: expr.literal() }
    }

    /// The estimate of a call of one overload, with the costs of its arguments.
    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    fn overload(
        &mut self,
        expr: &Expr,
        call: &CallExpr,
        function: &str,
        overload: &Overload,
        described: &Call<'_>,
        costs: &[Range],
        sum: Range,
    ) -> Estimate {
        let rules = match overload.cost {
            Cost::Rules(rules) => Some((rules.estimate)(described)),
            Cost::Standard => functions::estimate(function, described),
        };
        if let Some(estimate) = rules {
            return Estimate { cost: estimate.cost.plus(sum), ..estimate };
        }
        match (overload.id, costs, call.arguments.as_slice()) {
            // The second operand may not be evaluated.
            ("logical_or" | "logical_and", [a, b], _) => Estimate::of(Range::new(a.min, a.plus(*b).max)),
            ("conditional", [condition, a, b], [_, then, otherwise]) => {
                let size = self.size_or_unknown(then).union(self.size_or_unknown(otherwise));
                let entry = union(self.entry(then), self.entry(otherwise));
                self.set_entry(expr, entry);
                Estimate::sized(condition.plus(a.union(*b)), size)
            }
            _ => {
                if let ("add_string" | "add_bytes" | "add_list", [a, b]) =
                    (overload.id, call.arguments.as_slice())
                {
                    let entry = union(self.entry(a), self.entry(b));
                    self.set_entry(expr, entry);
                }
                let estimate =
                    standard::estimate(overload.id, described.target.as_ref(), &described.arguments);
                let estimate = estimate.unwrap_or(Estimate::of(Range::ONE));
                Estimate { cost: estimate.cost.plus(sum), ..estimate }
            }
        }
    }
}

/// The range of no sizes: that of an empty aggregate is zero.
fn empty_range(empty: bool) -> Range {
    if empty { Range::ZERO } else { Range::new(u64::MAX, 0) }
}

/// A loop that never runs: the accumulator is a local variable.
fn is_binding(c: &Comprehension) -> bool {
    matches!(&c.range.kind, ExprKind::List(elements) if elements.is_empty())
        && matches!(c.condition.literal(), Some(Literal::Bool(false)))
        && &*c.accumulator != "__result__"
}

/// True for types whose values all have the same size.
fn is_scalar(ty: &Type) -> bool {
    match ty.kind() {
        Kind::Bool | Kind::Double | Kind::Duration | Kind::Int | Kind::Timestamp | Kind::Uint => true,
        Kind::Opaque => ty.optional_value().is_some_and(is_scalar),
        _ => false,
    }
}
