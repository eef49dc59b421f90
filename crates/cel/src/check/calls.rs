//! Calls: resolution of functions and overloads.

use std::sync::Arc;

use super::{Checker, Reference, qualified_name};
use crate::ast::{CallExpr, Expr};
use crate::declare::Overload;
use crate::types::Type;

/// Overloads that compare numbers of different types, which older versions do not have.
fn compares_types(id: &str) -> bool {
    ["less_", "less_equals_", "greater_", "greater_equals_"].iter().any(|prefix| {
        id.strip_prefix(prefix).is_some_and(|types| {
            matches!(
                types,
                "int64_double"
                    | "int64_uint64"
                    | "uint64_double"
                    | "uint64_int64"
                    | "double_int64"
                    | "double_uint64"
            )
        })
    })
}

impl Checker<'_> {
    pub(super) fn check_call(&mut self, expr: &Expr, call: &mut CallExpr) {
        if &*call.function == "_?._" {
            return self.check_optional_select(expr, call);
        }
        for argument in &mut call.arguments {
            self.check(argument);
        }
        let Some(target) = &mut call.target else {
            return match self.lookup(&call.function) {
                Some((name, overloads)) => {
                    call.function = name.into();
                    self.resolve(expr, name, &overloads, None, &call.arguments);
                }
                None => self.undeclared(expr.id, &call.function),
            };
        };
        // The target may be the namespace of a function.
        if let Some(prefix) = qualified_name(target)
            && let Some((name, overloads)) = self.lookup(&format!("{prefix}.{}", call.function))
        {
            call.function = name.into();
            call.target = None;
            return self.resolve(expr, name, &overloads, None, &call.arguments);
        }
        self.check(target);
        match self.lookup(&call.function) {
            Some((name, overloads)) => {
                self.resolve(expr, name, &overloads, call.target.as_ref(), &call.arguments);
            }
            None => self.undeclared(expr.id, &call.function),
        }
    }

    fn lookup(&self, name: &str) -> Option<(&'static str, Arc<Vec<Arc<Overload>>>)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        self.environment.functions().get(name).map(|(name, overloads)| (name, overloads.clone()))
    }

    fn check_optional_select(&mut self, expr: &Expr, call: &mut CallExpr) {
        let [operand, field] = call.arguments.as_mut_slice() else {
            let count = call.arguments.len();
            let message =
                format!("unsupported optional field selection: incorrect signature. argument count: {count}");
            return self.error(expr.id, message);
        };
        let Some(crate::ast::Literal::String(name)) = field.literal() else {
            return self.error(field.id, "unsupported optional field selection".to_owned());
        };
        let name = name.clone();
        let result = self.check_field(expr.id, operand, &name, true);
        let result = self.bindings.substitute(&result, false);
        self.set(expr, result);
        self.references[expr.id] = Reference::OptionalSelect;
    }

    fn resolve(
        &mut self,
        expr: &Expr,
        name: &'static str,
        overloads: &[Arc<Overload>],
        target: Option<&Expr>,
        arguments: &[Expr],
    ) {
        let types: Vec<Type> =
            target.into_iter().chain(arguments).map(|argument| self.ty(argument)).collect();
        if matches!(name, "_&&_" | "_||_") {
            return self.resolve_logic(expr, name, overloads, arguments, &types);
        }
        let mut matching: Vec<Arc<Overload>> = Vec::new();
        let mut result: Option<Type> = None;
        for overload in overloads {
            if overload.member != target.is_some() || (!self.all_overloads && compares_types(overload.id)) {
                continue;
            }
            let Some(overload_result) = self.match_overload(overload, &types) else { continue };
            result = Some(match result {
                Some(known) if !known.is_dyn() && known != overload_result => Type::Dyn,
                Some(known) => known,
                None => overload_result,
            });
            matching.push(overload.clone());
        }
        match result {
            Some(result) => {
                self.set(expr, result);
                self.references[expr.id] = Reference::Function(name, matching);
            }
            None => self.no_overload(expr, name, &types, target.is_some()),
        }
    }

    /// The result type of an overload, if the arguments match; its type variables are then bound.
    fn match_overload(&mut self, overload: &Overload, types: &[Type]) -> Option<Type> {
        if overload.parameters.is_empty() {
            return self
                .bindings
                .assign_all(types, &overload.arguments)
                .then(|| self.bindings.substitute(&overload.result, false));
        }
        let fresh: Vec<(Arc<str>, Type)> =
            overload.parameters.iter().map(|name| (name.clone(), self.new_variable())).collect();
        let instantiate = |ty: &Type| super::assign::replace(ty, &fresh);
        let arguments: Vec<Type> = overload.arguments.iter().map(instantiate).collect();
        let result = instantiate(&overload.result);
        self.bindings.assign_all(types, &arguments).then(|| self.bindings.substitute(&result, false))
    }

    fn resolve_logic(
        &mut self,
        expr: &Expr,
        name: &'static str,
        overloads: &[Arc<Overload>],
        arguments: &[Expr],
        types: &[Type],
    ) {
        let mut valid = true;
        for (argument, ty) in arguments.iter().zip(types) {
            if !self.bindings.assign(ty, &Type::Bool) {
                self.mismatch(argument.id, &Type::Bool, ty);
                valid = false;
            }
        }
        if valid {
            self.set(expr, Type::Bool);
            self.references[expr.id] = Reference::Function(name, overloads.to_vec());
        }
    }

    fn no_overload(&mut self, expr: &Expr, name: &str, types: &[Type], member: bool) {
        let texts: Vec<String> =
            types.iter().map(|ty| self.bindings.substitute(ty, true).to_string()).collect();
        let signature = match texts.split_first() {
            Some((target, rest)) if member => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", texts.join(", ")),
        };
        self.error(expr.id, format!("found no matching overload for '{name}' applied to '{signature}'"));
    }
}
