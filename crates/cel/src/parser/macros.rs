//! Macros: calls that are replaced by comprehensions and presence tests while parsing.
//!
//! The accumulator of comprehensions is `@result`, which no expression can name.

use std::sync::Arc;

use super::Parser;
use crate::ast::{
    CallExpr, Comprehension, Element, Entry, Expr, ExprKind, FieldInit, Literal, Select, StructExpr,
};

const ACCUMULATOR: &str = "@result";
/// The name of the accumulator in older versions, which still cannot be a variable.
const OLD_ACCUMULATOR: &str = "__result__";

/// A macro: its name, its number of arguments, and its expansion. Methods have a target.
#[derive(Clone, Copy, Debug)]
pub struct Macro {
    name: &'static str,
    arguments: usize,
    method: bool,
    expand: fn(&mut Expander<'_, '_>, MacroArguments) -> Result<Expr, Refusal>,
}

/// The target and the arguments of a macro call. A macro that is no method has no target.
pub struct MacroArguments {
    target: Option<Expr>,
    arguments: Vec<Expr>,
}

/// A macro call that cannot be expanded.
enum Refusal {
    /// The error is at the node with this id.
    Error(usize, String),
    /// The call is no macro after all.
    NotMacro(MacroArguments),
}

const fn method(
    name: &'static str,
    arguments: usize,
    expand: fn(&mut Expander<'_, '_>, MacroArguments) -> Result<Expr, Refusal>,
) -> Macro {
    Macro { name, arguments, method: true, expand }
}

/// Macros of the language.
pub const STANDARD: &[Macro] = &[
    Macro { name: "has", arguments: 1, method: false, expand: has },
    method("all", 2, |e, call| e.quantifier(call, 1, Quantifier::All)),
    method("exists", 2, |e, call| e.quantifier(call, 1, Quantifier::Exists)),
    method("exists_one", 2, |e, call| e.quantifier(call, 1, Quantifier::One)),
    method("map", 2, map),
    method("map", 3, map),
    method("filter", 2, filter),
];

/// Macros of optional values.
pub const OPTIONAL: &[Macro] = &[
    method("optMap", 2, |e, call| opt_map(e, call, false)),
    method("optFlatMap", 2, |e, call| opt_map(e, call, true)),
];

/// Macros over keys and values.
pub const TWO_VARIABLES: &[Macro] = &[
    method("all", 3, |e, call| e.quantifier(call, 2, Quantifier::All)),
    method("exists", 3, |e, call| e.quantifier(call, 2, Quantifier::Exists)),
    method("existsOne", 3, |e, call| e.quantifier(call, 2, Quantifier::One)),
    method("exists_one", 3, |e, call| e.quantifier(call, 2, Quantifier::One)),
    method("transformList", 3, |e, call| transform(e, call, Transform::List)),
    method("transformList", 4, |e, call| transform(e, call, Transform::List)),
    method("transformMap", 3, |e, call| transform(e, call, Transform::Map)),
    method("transformMap", 4, |e, call| transform(e, call, Transform::Map)),
    method("transformMapEntry", 3, |e, call| transform(e, call, Transform::MapEntry)),
    method("transformMapEntry", 4, |e, call| transform(e, call, Transform::MapEntry)),
];

/// `cel.bind`, which only some environments have.
pub const BINDINGS: &[Macro] = &[method("bind", 3, bind)];

/// The macro of the list library.
pub const SORT_BY: &[Macro] = &[method("sortBy", 2, sort_by)];

impl Parser<'_> {
    /// Expands a macro call. Gives target and arguments back if there is no such macro.
    pub(super) fn expand(
        &mut self,
        offset: u32,
        function: &str,
        target: Option<Expr>,
        arguments: Vec<Expr>,
    ) -> Result<Expr, (Option<Expr>, Vec<Expr>)> {
        let matches = |known: &&Macro| {
            known.name == function && known.arguments == arguments.len() && known.method == target.is_some()
        };
        let Some(known) = self.options.macros.iter().find(matches) else { return Err((target, arguments)) };
        let mut expander = Expander { parser: self, offset };
        match (known.expand)(&mut expander, MacroArguments { target, arguments }) {
            Ok(expanded) => Ok(expanded),
            Err(Refusal::NotMacro(call)) => Err((call.target, call.arguments)),
            Err(Refusal::Error(id, message)) => {
                let offset = self.positions.get(id).copied().unwrap_or(offset);
                Ok(self.error_at(offset, message))
            }
        }
    }
}

/// Creates the nodes of an expansion, all at the place of the call.
struct Expander<'p, 's> {
    parser: &'p mut Parser<'s>,
    offset: u32,
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    One,
}

#[derive(Clone, Copy)]
enum Transform {
    List,
    Map,
    MapEntry,
}

impl Expander<'_, '_> {
    fn node(&mut self, kind: ExprKind) -> Expr {
        self.parser.expr_at(self.offset, kind)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, arguments: Vec<Expr>) -> Expr {
        self.parser.plain_call(self.offset, function, None, arguments)
    }

    fn method(&mut self, function: &str, target: Expr, arguments: Vec<Expr>) -> Expr {
        self.parser.plain_call(self.offset, function, Some(target), arguments)
    }

    fn list(&mut self, items: Vec<Expr>) -> Expr {
        let elements = items.into_iter().map(|value| Element { value, optional: false }).collect();
        self.node(ExprKind::List(elements))
    }

    /// Variables of a comprehension.
    fn variables(
        &mut self,
        arguments: &[Expr],
        count: usize,
        message: &str,
    ) -> Result<Vec<Arc<str>>, Refusal> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for argument in &arguments[..count] {
            let ExprKind::Ident(name) = &argument.kind else {
                return Err(Refusal::Error(argument.id, message.to_owned()));
            };
            names.push(name.clone());
        }
        if let [first, second] = names.as_slice()
            && first == second
        {
            return Err(Refusal::Error(arguments[1].id, format!("duplicate variable name: {first}")));
        }
        for (name, argument) in names.iter().zip(arguments) {
            if matches!(&**name, ACCUMULATOR | OLD_ACCUMULATOR) {
                let message = "iteration variable overwrites accumulator variable".to_owned();
                return Err(Refusal::Error(argument.id, message));
            }
        }
        Ok(names)
    }

    fn comprehension(&mut self, range: Expr, variables: Vec<Arc<str>>, parts: [Expr; 4]) -> Expr {
        let [init, condition, step, result] = parts;
        let mut variables = variables.into_iter();
        let variable = variables.next().unwrap_or_default();
        let variable2 = variables.next();
        let accumulator = ACCUMULATOR.into();
        let c = Comprehension { range, variable, variable2, accumulator, init, condition, step, result };
        self.node(ExprKind::Comprehension(Box::new(c)))
    }

    /// A local variable: a loop that never runs, whose accumulator is the variable.
    fn binding(&mut self, name: &Arc<str>, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        let c = Comprehension {
            range,
            variable: "#unused".into(),
            variable2: None,
            accumulator: name.clone(),
            init: value,
            condition,
            step,
            result,
        };
        self.node(ExprKind::Comprehension(Box::new(c)))
    }

    fn quantifier(
        &mut self,
        mut call: MacroArguments,
        count: usize,
        kind: Quantifier,
    ) -> Result<Expr, Refusal> {
        let variables = self.variables(&call.arguments, count, "argument must be a simple name")?;
        let range = call.take_target(self);
        let predicate = call.take_last(self);
        let parts = match kind {
            Quantifier::All => {
                let accumulator = self.accumulator();
                let condition = self.call("@not_strictly_false", vec![accumulator]);
                let accumulator = self.accumulator();
                let step = self.call("_&&_", vec![accumulator, predicate]);
                [self.literal(Literal::Bool(true)), condition, step, self.accumulator()]
            }
            Quantifier::Exists => {
                let accumulator = self.accumulator();
                let not = self.call("!_", vec![accumulator]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let accumulator = self.accumulator();
                let step = self.call("_||_", vec![accumulator, predicate]);
                [self.literal(Literal::Bool(false)), condition, step, self.accumulator()]
            }
            Quantifier::One => {
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let counted = self.call("_+_", vec![accumulator, one]);
                let accumulator = self.accumulator();
                let step = self.call("_?_:_", vec![predicate, counted, accumulator]);
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let result = self.call("_==_", vec![accumulator, one]);
                [self.literal(Literal::Int(0)), self.literal(Literal::Bool(true)), step, result]
            }
        };
        Ok(self.comprehension(range, variables, parts))
    }

    /// A step that applies only where the condition holds.
    fn conditional_step(&mut self, condition: Option<Expr>, step: Expr) -> Expr {
        match condition {
            Some(condition) => {
                let unchanged = self.accumulator();
                self.call("_?_:_", vec![condition, step, unchanged])
            }
            None => step,
        }
    }

    /// A comprehension that builds a list from `item`.
    fn build_list(
        &mut self,
        range: Expr,
        variables: Vec<Arc<str>>,
        condition: Option<Expr>,
        item: Expr,
    ) -> Expr {
        let (accumulator, items) = (self.accumulator(), self.list(vec![item]));
        let step = self.call("_+_", vec![accumulator, items]);
        let step = self.conditional_step(condition, step);
        let parts = [self.list(Vec::new()), self.literal(Literal::Bool(true)), step, self.accumulator()];
        self.comprehension(range, variables, parts)
    }

    /// A copy of an expression with new ids.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let offset = self.parser.positions.get(expr.id).copied().unwrap_or(self.offset);
        // Macros that copy their target double it with each nesting.
        if self.parser.positions.len() > self.parser.max_nodes() {
            self.parser.halt("expression exceeds the limit of nodes".to_owned());
            return self.parser.expr_at(offset, ExprKind::Invalid);
        }
        let kind = match &expr.kind {
            ExprKind::Invalid => ExprKind::Invalid,
            ExprKind::Literal(literal) => ExprKind::Literal(literal.clone()),
            ExprKind::Ident(name) => ExprKind::Ident(name.clone()),
            ExprKind::Select(select) => ExprKind::Select(Box::new(Select {
                operand: self.copy(&select.operand),
                field: select.field.clone(),
                test: select.test,
            })),
            ExprKind::Call(call) => ExprKind::Call(Box::new(CallExpr {
                function: call.function.clone(),
                target: call.target.as_ref().map(|target| self.copy(target)),
                arguments: call.arguments.iter().map(|argument| self.copy(argument)).collect(),
            })),
            ExprKind::List(elements) => ExprKind::List(
                elements
                    .iter()
                    .map(|e| Element { value: self.copy(&e.value), optional: e.optional })
                    .collect(),
            ),
            ExprKind::Map(entries) => {
                ExprKind::Map(entries.iter().map(|entry| self.copy_entry(entry)).collect())
            }
            ExprKind::Struct(object) => ExprKind::Struct(Box::new(StructExpr {
                name: object.name.clone(),
                fields: object.fields.iter().map(|field| self.copy_field(field)).collect(),
            })),
            ExprKind::Comprehension(c) => ExprKind::Comprehension(Box::new(Comprehension {
                range: self.copy(&c.range),
                variable: c.variable.clone(),
                variable2: c.variable2.clone(),
                accumulator: c.accumulator.clone(),
                init: self.copy(&c.init),
                condition: self.copy(&c.condition),
                step: self.copy(&c.step),
                result: self.copy(&c.result),
            })),
        };
        self.parser.expr_at(offset, kind)
    }

    fn copy_entry(&mut self, entry: &Entry) -> Entry {
        let id = self.node(ExprKind::Invalid).id;
        Entry { id, key: self.copy(&entry.key), value: self.copy(&entry.value), optional: entry.optional }
    }

    fn copy_field(&mut self, field: &FieldInit) -> FieldInit {
        let id = self.node(ExprKind::Invalid).id;
        FieldInit { id, name: field.name.clone(), value: self.copy(&field.value), optional: field.optional }
    }
}

impl MacroArguments {
    fn take_target(&mut self, expander: &mut Expander<'_, '_>) -> Expr {
        self.target.take().unwrap_or_else(|| expander.node(ExprKind::Invalid))
    }

    fn take_last(&mut self, expander: &mut Expander<'_, '_>) -> Expr {
        self.arguments.pop().unwrap_or_else(|| expander.node(ExprKind::Invalid))
    }
}

fn has(expander: &mut Expander<'_, '_>, mut call: MacroArguments) -> Result<Expr, Refusal> {
    let argument = call.take_last(expander);
    match argument.kind {
        ExprKind::Select(select) => {
            let Select { operand, field, .. } = *select;
            Ok(expander.node(ExprKind::Select(Box::new(Select { operand, field, test: true }))))
        }
        _ => Err(Refusal::Error(argument.id, "invalid argument to has() macro".to_owned())),
    }
}

fn map(expander: &mut Expander<'_, '_>, mut call: MacroArguments) -> Result<Expr, Refusal> {
    let variables = expander.variables(&call.arguments, 1, "argument is not an identifier")?;
    let range = call.take_target(expander);
    let item = call.take_last(expander);
    let condition = (call.arguments.len() == 2).then(|| call.take_last(expander));
    Ok(expander.build_list(range, variables, condition, item))
}

fn filter(expander: &mut Expander<'_, '_>, mut call: MacroArguments) -> Result<Expr, Refusal> {
    let variables = expander.variables(&call.arguments, 1, "argument is not an identifier")?;
    let range = call.take_target(expander);
    let condition = call.take_last(expander);
    let item = call.take_last(expander);
    Ok(expander.build_list(range, variables, Some(condition), item))
}

fn transform(
    expander: &mut Expander<'_, '_>,
    mut call: MacroArguments,
    kind: Transform,
) -> Result<Expr, Refusal> {
    let variables = expander.variables(&call.arguments, 2, "argument must be a simple name")?;
    let range = call.take_target(expander);
    let item = call.take_last(expander);
    let condition = (call.arguments.len() == 3).then(|| call.take_last(expander));
    let insert = match kind {
        Transform::List => return Ok(expander.build_list(range, variables, condition, item)),
        Transform::Map => {
            let key = variables.first().cloned().unwrap_or_default();
            vec![expander.accumulator(), expander.ident(&key), item]
        }
        Transform::MapEntry => vec![expander.accumulator(), item],
    };
    let step = expander.call("cel.@mapInsert", insert);
    let step = expander.conditional_step(condition, step);
    let init = expander.node(ExprKind::Map(Vec::new()));
    let parts = [init, expander.literal(Literal::Bool(true)), step, expander.accumulator()];
    Ok(expander.comprehension(range, variables, parts))
}

/// `target.optMap(variable, expression)`; a flat one expects that the expression is an optional value itself.
fn opt_map(expander: &mut Expander<'_, '_>, mut call: MacroArguments, flat: bool) -> Result<Expr, Refusal> {
    let name = match &call.arguments[0] {
        Expr { kind: ExprKind::Ident(name), .. } => name.clone(),
        other => {
            let function = if flat { "optFlatMap" } else { "optMap" };
            return Err(Refusal::Error(
                other.id,
                format!("{function}() variable name must be a simple identifier"),
            ));
        }
    };
    let target = call.take_target(expander);
    let body = call.take_last(expander);
    let copy = expander.copy(&target);
    let present = expander.method("hasValue", target, Vec::new());
    let value = expander.method("value", copy, Vec::new());
    let mut result = expander.binding(&name, value, body);
    if !flat {
        result = expander.call("optional.of", vec![result]);
    }
    let none = expander.call("optional.none", Vec::new());
    Ok(expander.call("_?_:_", vec![present, result, none]))
}

fn bind(expander: &mut Expander<'_, '_>, mut call: MacroArguments) -> Result<Expr, Refusal> {
    if !matches!(&call.target, Some(Expr { kind: ExprKind::Ident(name), .. }) if &**name == "cel") {
        return Err(Refusal::NotMacro(call));
    }
    let name = match &call.arguments[0] {
        Expr { kind: ExprKind::Ident(name), .. } => name.clone(),
        other => {
            let message = "cel.bind() variable names must be simple identifiers".to_owned();
            return Err(Refusal::Error(other.id, message));
        }
    };
    let result = call.take_last(expander);
    let value = call.take_last(expander);
    Ok(expander.binding(&name, value, result))
}

fn sort_by(expander: &mut Expander<'_, '_>, mut call: MacroArguments) -> Result<Expr, Refusal> {
    let target = call.take_target(expander);
    if matches!(
        target.kind,
        ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct(_) | ExprKind::Invalid
    ) {
        let message =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(Refusal::Error(target.id, message.to_owned()));
    }
    let input: Arc<str> = "@__sortBy_input__".into();
    call.target = Some(expander.ident(&input));
    let keys = map(expander, call)?;
    let list = expander.ident(&input);
    let sorted = expander.method("@sortByAssociatedKeys", list, vec![keys]);
    Ok(expander.binding(&input, target, sorted))
}
