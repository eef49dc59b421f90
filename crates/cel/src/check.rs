//! The type checker: gives every node a type and resolves names and overloads.
//!
//! The rules are upstream's. Type parameters of overloads become fresh variables, which assignments bind
//! (`assign::Bindings`); variables that stay unbound are `dyn` in the end. After an error a node has the type `Error`,
//! which agrees with everything, so that one mistake is reported once.

mod assign;
mod calls;

use std::sync::Arc;

use assign::{Bindings, most_general};

use crate::ast::{Comprehension, Element, Entry, Expr, ExprKind, Literal, StructExpr};
use crate::declare::Overload;
use crate::environment::Environment;
use crate::parser::Parsed;
use crate::source::{Issues, Location, Source};
use crate::types::{Kind, Type};

/// A checked expression. Qualified names are resolved in its tree.
#[derive(Clone)]
pub struct Checked {
    pub expr: Expr,
    pub positions: Vec<u32>,
    /// Types of the nodes, by id.
    pub types: Vec<Type>,
    /// Resolved names and calls, by id.
    pub references: Vec<Reference>,
}

/// The meaning of a node.
#[derive(Clone)]
pub enum Reference {
    None,
    /// A variable of the environment.
    Variable(usize),
    /// The name of a type.
    Type(Type),
    /// The overloads that the arguments of a call match, and the function's name.
    Function(&'static str, Vec<Arc<Overload>>),
    /// `operand.?field`.
    OptionalSelect,
}

impl Checked {
    /// The type of the expression.
    pub fn output(&self) -> &Type {
        self.ty(&self.expr)
    }

    pub fn ty(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id).unwrap_or(&Type::Dyn)
    }

    pub fn reference(&self, expr: &Expr) -> &Reference {
        self.references.get(expr.id).unwrap_or(&Reference::None)
    }

    /// True if the expression reads a variable of the environment.
    pub fn uses(&self, variable: usize) -> bool {
        self.references
            .iter()
            .any(|reference| matches!(reference, Reference::Variable(slot) if *slot == variable))
    }
}

/// The limit of the types that a type consists of. Expressions of a few bytes can have types of any size, such as
/// `map(T, T)`, where T is such a type.
const MAX_TYPE: usize = 1000;

const TOO_LARGE: &str = "the type of the expression is too large";

/// Checks a parsed expression.
pub fn check(parsed: Parsed, source: &Source<'_>, environment: &Environment) -> Result<Checked, Issues> {
    let count = parsed.positions.len();
    let mut checker = Checker {
        environment,
        source,
        positions: &parsed.positions,
        issues: Issues::default(),
        types: vec![Type::Error; count],
        references: vec![Reference::None; count],
        bindings: Bindings::default(),
        variables: 0,
        scopes: Vec::new(),
        all_overloads: environment.cross_type_comparisons(),
    };
    let mut expr = parsed.expr;
    checker.check(&mut expr);
    let types = std::mem::take(&mut checker.types);
    let types = types.into_iter().map(|ty| checker.bindings.substitute(&ty, true)).collect();
    if checker.bindings.are_exhausted() {
        checker.error(expr.id, TOO_LARGE.to_owned());
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let references = checker.references;
    Ok(Checked { expr, positions: parsed.positions, types, references })
}

struct Checker<'c> {
    environment: &'c Environment,
    source: &'c Source<'c>,
    positions: &'c [u32],
    issues: Issues,
    types: Vec<Type>,
    references: Vec<Reference>,
    bindings: Bindings,
    /// The number of type variables so far.
    variables: usize,
    /// Variables of the comprehensions around the current node, innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    /// Comparisons of numbers of different types are considered. Upstream forgets to exclude them in comprehensions.
    all_overloads: bool,
}

impl Checker<'_> {
    fn location(&self, id: usize) -> Location {
        self.positions.get(id).map_or(Location::NONE, |offset| self.source.location(*offset))
    }

    fn error(&mut self, id: usize, message: String) {
        let location = self.location(id);
        self.issues.report(location, message);
    }

    fn undeclared(&mut self, id: usize, name: &str) {
        self.error(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn mismatch(&mut self, id: usize, expected: &Type, found: &Type) {
        self.error(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn ty(&self, expr: &Expr) -> Type {
        self.types[expr.id].clone()
    }

    fn set(&mut self, expr: &Expr, ty: Type) {
        self.types[expr.id] = if ty.is_larger_than(MAX_TYPE) {
            self.error(expr.id, TOO_LARGE.to_owned());
            Type::Error
        } else {
            ty
        };
    }

    fn new_variable(&mut self) -> Type {
        self.variables += 1;
        Type::Parameter(format!("_var{}", self.variables - 1).into())
    }

    fn check(&mut self, expr: &mut Expr) {
        let mut kind = std::mem::replace(&mut expr.kind, ExprKind::Invalid);
        match &mut kind {
            ExprKind::Invalid => {}
            ExprKind::Literal(literal) => self.set(expr, literal_type(literal)),
            ExprKind::Ident(name) => {
                let name = name.clone();
                self.check_ident(expr, &name);
            }
            ExprKind::Select(_) => kind = self.check_select(expr, kind),
            ExprKind::Call(call) => self.check_call(expr, call),
            ExprKind::List(elements) => self.check_list(expr, elements),
            ExprKind::Map(entries) => self.check_map(expr, entries),
            ExprKind::Struct(object) => self.check_struct(expr, object),
            ExprKind::Comprehension(c) => self.check_comprehension(expr, c),
        }
        expr.kind = kind;
    }

    fn local(&self, name: &str) -> Option<&Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        self.scopes.iter().rev().find(|(known, _)| **known == *name).map(|(_, ty)| ty)
    }

    /// The meaning of a name outside comprehensions.
    fn global(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((slot, ty)) = self.environment.variable(name) {
            return Some((ty.clone(), Reference::Variable(slot)));
        }
        let named = self.environment.type_named(name)?;
        Some((Type::of(named.clone()), Reference::Type(named)))
    }

    fn check_ident(&mut self, expr: &Expr, name: &str) {
        if !name.starts_with('.')
            && let Some(ty) = self.local(name)
        {
            let ty = ty.clone();
            return self.set(expr, ty);
        }
        match self.global(name) {
            Some((ty, reference)) => {
                self.set(expr, ty);
                self.references[expr.id] = reference;
            }
            None => self.undeclared(expr.id, name),
        }
    }

    fn check_select(&mut self, expr: &Expr, kind: ExprKind) -> ExprKind {
        let ExprKind::Select(mut select) = kind else { return kind };
        // A chain of names may be one qualified name.
        if !select.test
            && let Some(mut name) = qualified_name(&select.operand)
        {
            let root = name.split('.').find(|part| !part.is_empty()).unwrap_or_default();
            if name.starts_with('.') || self.local(root).is_none() {
                name.push('.');
                name.push_str(&select.field);
                if let Some((ty, reference)) = self.global(&name) {
                    self.set(expr, ty);
                    self.references[expr.id] = reference;
                    return ExprKind::Ident(name.trim_start_matches('.').into());
                }
            }
        }
        let result = self.check_field(expr.id, &mut select.operand, &select.field, false);
        let result = if select.test { Type::Bool } else { result };
        let result = self.bindings.substitute(&result, false);
        self.set(expr, result);
        ExprKind::Select(select)
    }

    /// The type of a field of an operand.
    fn check_field(&mut self, id: usize, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.bindings.substitute(&self.types[operand.id], false);
        let target = operand_type.optional_value();
        let optional = optional || target.is_some();
        let target = target.unwrap_or(&operand_type);
        let result = match target {
            Type::Map(pair) => pair[1].clone(),
            Type::Object(object) => match self.environment.field_type(object, field) {
                Ok(ty) => ty,
                Err(message) => {
                    self.error(id, message);
                    Type::Error
                }
            },
            Type::Parameter(_) => {
                self.bindings.assign(&Type::Dyn, target);
                Type::Dyn
            }
            _ => {
                if !target.is_dyn() && !target.is_error() {
                    let message = format!("type '{target}' does not support field selection");
                    self.error(id, message);
                }
                Type::Dyn
            }
        };
        if optional { Type::optional(result) } else { result }
    }

    fn check_list(&mut self, expr: &Expr, elements: &mut [Element]) {
        let mut joined = None;
        for element in elements {
            self.check(&mut element.value);
            let ty = self.unwrap_optional(&element.value, element.optional);
            joined = Some(self.join(joined, ty));
        }
        let item = joined.unwrap_or_else(|| self.new_variable());
        self.set(expr, Type::list(item));
    }

    fn check_map(&mut self, expr: &Expr, entries: &mut [Entry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let ty = self.ty(&entry.key);
            keys = Some(self.join(keys, ty));
            self.check(&mut entry.value);
            let ty = self.unwrap_optional(&entry.value, entry.optional);
            values = Some(self.join(values, ty));
        }
        let key = keys.unwrap_or_else(|| self.new_variable());
        let value = values.unwrap_or_else(|| self.new_variable());
        self.set(expr, Type::map(key, value));
    }

    /// The type of an element, or of the value in an optional one.
    fn unwrap_optional(&mut self, value: &Expr, optional: bool) -> Type {
        let ty = self.ty(value);
        if !optional {
            return ty;
        }
        match ty.optional_value() {
            Some(inner) => inner.clone(),
            None => {
                if !ty.is_dyn() {
                    self.mismatch(value.id, &Type::optional(ty.clone()), &ty);
                }
                ty
            }
        }
    }

    /// The common type of the elements so far and one more.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.bindings.assign(&previous, &current) {
            return most_general(previous, current);
        }
        // Literals of mixed types are reported after the check (`validate`).
        Type::Dyn
    }

    fn check_struct(&mut self, expr: &Expr, object: &mut StructExpr) {
        let Some(ty) = self.environment.struct_type(&object.name) else {
            let name = object.name.clone();
            self.undeclared(expr.id, &name);
            return;
        };
        object.name = ty.name().into();
        let Type::Object(declared) = &ty else {
            self.error(expr.id, format!("'{ty}' is not a message type"));
            return;
        };
        self.set(expr, ty.clone());
        for field in &mut object.fields {
            self.check(&mut field.value);
            let declared = self.environment.field_type(declared, &field.name).unwrap_or_else(|message| {
                self.error(field.id, message);
                Type::Error
            });
            let value = self.unwrap_optional(&field.value, field.optional);
            if !self.bindings.assign(&declared, &value) {
                let name = &field.name;
                let message =
                    format!("expected type of field '{name}' is '{declared}' but provided type is '{value}'");
                self.error(field.id, message);
            }
        }
    }

    fn check_comprehension(&mut self, expr: &Expr, c: &mut Comprehension) {
        self.check(&mut c.range);
        self.check(&mut c.init);
        let range = self.bindings.substitute(&self.types[c.range.id], false);
        let accumulator = self.ty(&c.init);
        let depth = self.scopes.len();
        self.scopes.push((c.accumulator.clone(), accumulator.clone()));
        let (first, second) = match range.kind() {
            Kind::List if c.variable2.is_some() => (Type::Int, range.parameters()[0].clone()),
            Kind::List => (range.parameters()[0].clone(), Type::Dyn),
            Kind::Map => (range.parameters()[0].clone(), range.parameters()[1].clone()),
            Kind::Dyn | Kind::Error | Kind::Parameter => {
                self.bindings.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(c.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let inner = self.scopes.len();
        self.scopes.push((c.variable.clone(), first));
        if let Some(variable) = &c.variable2 {
            self.scopes.push((variable.clone(), second));
        }
        self.all_overloads = true;
        self.check(&mut c.condition);
        self.assert_type(&c.condition, &Type::Bool);
        self.check(&mut c.step);
        self.assert_type(&c.step, &accumulator);
        self.scopes.truncate(inner);
        self.check(&mut c.result);
        self.scopes.truncate(depth);
        let result = self.bindings.substitute(&self.types[c.result.id], false);
        self.set(expr, result);
    }

    fn assert_type(&mut self, expr: &Expr, ty: &Type) {
        let found = self.ty(expr);
        if !self.bindings.assign(ty, &found) {
            self.mismatch(expr.id, ty, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The names of a chain of selections, if it is nothing else.
fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.to_string()),
        ExprKind::Select(select) if !select.test => {
            let mut name = qualified_name(&select.operand)?;
            name.push('.');
            name.push_str(&select.field);
            Some(name)
        }
        _ => None,
    }
}
