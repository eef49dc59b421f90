//! Assignability of types, and the types that type variables are bound to.
//!
//! An assignment that fails leaves the bindings as they were.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::types::{Kind, Type};

#[derive(Default)]
pub(super) struct Bindings {
    bound: HashMap<Arc<str>, Type>,
    /// Previous values of the bindings that the current assignment changed.
    undo: Vec<(Arc<str>, Option<Type>)>,
    /// The types that were looked at so far.
    steps: Cell<usize>,
}

/// The limit of steps: variables that are bound to types with variables can make up types of any size.
const MAX_STEPS: usize = 5_000_000;

impl Bindings {
    /// True if a value of type `b` can be used where `a` is expected, or the other way round.
    pub(super) fn assign(&mut self, a: &Type, b: &Type) -> bool {
        let assigned = self.assignable(a, b);
        self.finish(assigned)
    }

    pub(super) fn assign_all(&mut self, a: &[Type], b: &[Type]) -> bool {
        let assigned = self.all_assignable(a, b);
        self.finish(assigned)
    }

    fn finish(&mut self, assigned: bool) -> bool {
        while let Some((name, previous)) = self.undo.pop() {
            if assigned {
                self.undo.clear();
                break;
            }
            match previous {
                Some(previous) => self.bound.insert(name, previous),
                None => self.bound.remove(&name),
            };
        }
        assigned
    }

    fn bind(&mut self, name: &Arc<str>, ty: Type) {
        let previous = self.bound.insert(name.clone(), ty);
        self.undo.push((name.clone(), previous));
    }

    /// Counts a step. Returns false if there were too many.
    fn step(&self) -> bool {
        self.steps.set(self.steps.get().saturating_add(1));
        !self.are_exhausted()
    }

    /// True if an expression cannot be checked, because its types are too large. What was found out is not true then.
    pub(super) fn are_exhausted(&self) -> bool {
        self.steps.get() > MAX_STEPS
    }

    fn all_assignable(&mut self, a: &[Type], b: &[Type]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.assignable(a, b))
    }

    fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        if !self.step() {
            return false;
        }
        if let Type::Parameter(name) = b {
            let (valid, bound) = self.substitutes(a, b, name);
            if valid || bound {
                return valid;
            }
        }
        if let Type::Parameter(name) = a {
            return self.substitutes(b, a, name).0;
        }
        if a.is_dyn() || a.is_error() || b.is_dyn() || b.is_error() {
            return true;
        }
        match (a.kind(), b.kind()) {
            (Kind::Null, _) => nullable(b),
            (_, Kind::Null) => nullable(a),
            (Kind::Type, Kind::Type) => true,
            (Kind::Opaque | Kind::List | Kind::Map, kind) => {
                a.kind() == kind
                    && a.name() == b.name()
                    && self.all_assignable(a.parameters(), b.parameters())
            }
            _ => accepts(b, a),
        }
    }

    /// True if the variable `variable` can stand for `ty`, and true if it was bound before.
    fn substitutes(&mut self, ty: &Type, variable: &Type, name: &Arc<str>) -> (bool, bool) {
        if ty == variable {
            return (true, true);
        }
        if let Some(bound) = self.bound.get(name).cloned() {
            if *ty == bound {
                return (true, true);
            }
            if !self.assignable(ty, &bound) {
                return (false, true);
            }
            let general = most_general(ty.clone(), bound);
            if self.absent(variable, &general) {
                self.bind(name, general);
            }
            return (true, true);
        }
        let absent = self.absent(variable, ty);
        if absent {
            self.bind(name, ty.clone());
        }
        (absent, false)
    }

    /// True if a variable does not occur in a type, also not through bindings.
    fn absent(&self, variable: &Type, within: &Type) -> bool {
        if !self.step() || variable == within {
            return false;
        }
        match within {
            Type::Parameter(name) => self.bound.get(name).is_none_or(|bound| self.absent(variable, bound)),
            _ => within.parameters().iter().all(|parameter| self.absent(variable, parameter)),
        }
    }

    /// Replaces bound variables, and unbound ones by `dyn` if asked to.
    pub(super) fn substitute(&self, ty: &Type, unbound_to_dyn: bool) -> Type {
        let inner = |ty: &Type| self.substitute(ty, unbound_to_dyn);
        match ty {
            _ if !self.step() => Type::Dyn,
            Type::Parameter(name) => match self.bound.get(name) {
                Some(bound) => inner(bound),
                None if unbound_to_dyn => Type::Dyn,
                None => ty.clone(),
            },
            _ => rebuild(ty, inner),
        }
    }
}

/// A type with its parameters replaced.
fn rebuild(ty: &Type, inner: impl Fn(&Type) -> Type) -> Type {
    match ty {
        Type::List(item) => Type::list(inner(item)),
        Type::Map(pair) => Type::map(inner(&pair[0]), inner(&pair[1])),
        Type::Opaque(name, parameters) => Type::Opaque(name.clone(), parameters.iter().map(inner).collect()),
        Type::Type(Some(named)) => Type::of(inner(named)),
        _ => ty.clone(),
    }
}

/// Replaces type parameters by name.
pub(super) fn replace(ty: &Type, by: &[(Arc<str>, Type)]) -> Type {
    match ty {
        Type::Parameter(name) => {
            by.iter().find(|(known, _)| known == name).map_or_else(|| ty.clone(), |(_, ty)| ty.clone())
        }
        _ => rebuild(ty, |inner| replace(inner, by)),
    }
}

/// True for types that null can be assigned to.
fn nullable(ty: &Type) -> bool {
    matches!(ty, Type::Wrapper(_) | Type::Null)
        || matches!(ty.kind(), Kind::Opaque | Kind::Object | Kind::Any | Kind::Duration | Kind::Timestamp)
}

/// True if values of type `from` are values of type `ty`.
fn accepts(ty: &Type, from: &Type) -> bool {
    match (ty, from) {
        (Type::Wrapper(inner), _) => matches!(from, Type::Null) || accepts(inner, from),
        (_, Type::Wrapper(inner)) => accepts(ty, inner),
        _ => ty.kind() == from.kind() && ty.name() == from.name(),
    }
}

/// The more general of two types that agree.
pub(super) fn most_general(a: Type, b: Type) -> Type {
    if less_specific(&a, &b) { a } else { b }
}

fn less_specific(a: &Type, b: &Type) -> bool {
    if a.is_dyn() || a.kind() == Kind::Parameter {
        return true;
    }
    if b.is_dyn() || b.kind() == Kind::Parameter || a.kind() != b.kind() {
        return false;
    }
    match a.kind() {
        Kind::Opaque | Kind::List | Kind::Map => {
            let (p, q) = (a.parameters(), b.parameters());
            a.name() == b.name() && p.len() == q.len() && p.iter().zip(q).all(|(p, q)| less_specific(p, q))
        }
        Kind::Type => true,
        _ => a == b,
    }
}
