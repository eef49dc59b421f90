//! The check of `format` calls whose format string and arguments are literals: upstream rejects an expression with
//! clauses that do not match the types of the arguments.

use super::format::{Clause, interpolate};
use crate::ast::{Expr, ExprKind, Literal};
use crate::types::{Kind, Type};

/// An error and the node it is about; the call's if there is none.
struct Mismatch {
    node: Option<usize>,
    message: String,
}

impl From<String> for Mismatch {
    fn from(message: String) -> Mismatch {
        Mismatch { node: None, message }
    }
}

/// Reports the errors of all `format` calls in a checked expression: node and message.
pub(crate) fn check<'t>(
    root: &Expr,
    type_of: impl Fn(usize) -> Option<&'t Type>,
    mut report: impl FnMut(usize, String),
) {
    let mut nodes = vec![root];
    let mut at = 0;
    while let Some(node) = nodes.get(at) {
        nodes.extend(node.children());
        at += 1;
    }
    // Inner calls first: upstream reports them first where the place is the same.
    for expression in nodes.into_iter().rev() {
        let Some((format, arguments)) = literal_call(expression) else { continue };
        let outcome = interpolate(
            format,
            arguments.len(),
            |_| Ok(()),
            |index, clause| match arguments
                .get(index)
                .and_then(|argument| mismatch(clause, argument, &type_of))
            {
                None => Ok(String::new()),
                Some((node, name)) => Err(Mismatch {
                    node: Some(node),
                    message: format!("error during formatting: {}", clause.mismatch(name)),
                }),
            },
        );
        match outcome {
            Err(Mismatch { node, message }) => report(node.unwrap_or(expression.id), message),
            Ok((_, used)) if arguments.len() > used => {
                let given = arguments.len();
                let message =
                    format!("too many arguments supplied to string.format (expected {used}, got {given})");
                report(expression.id, message);
            }
            Ok(_) => {}
        }
    }
}

/// Format string and arguments of a call in which both are literals.
fn literal_call(expression: &Expr) -> Option<(&str, Vec<&Expr>)> {
    let ExprKind::Call(call) = &expression.kind else { return None };
    let Literal::String(format) = call.target.as_ref()?.literal()? else { return None };
    match call.arguments.as_slice() {
        [Expr { kind: ExprKind::List(elements), .. }] if &*call.function == "format" => {
            Some((format, elements.iter().map(|element| &element.value).collect()))
        }
        _ => None,
    }
}

/// The first node whose type a clause does not accept, and the name of that type.
fn mismatch<'t>(
    clause: Clause,
    argument: &Expr,
    type_of: &impl Fn(usize) -> Option<&'t Type>,
) -> Option<(usize, &'t str)> {
    let accepted: &[Kind] = match clause {
        Clause::String => &[
            Kind::List,
            Kind::Map,
            Kind::Int,
            Kind::Uint,
            Kind::Double,
            Kind::Bool,
            Kind::String,
            Kind::Timestamp,
            Kind::Bytes,
            Kind::Duration,
            Kind::Type,
            Kind::Null,
        ],
        Clause::Decimal | Clause::Octal => &[Kind::Int, Kind::Uint],
        Clause::Fixed(_) | Clause::Scientific(_) => &[Kind::Double, Kind::String],
        Clause::Binary => &[Kind::Int, Kind::Uint, Kind::Bool],
        Clause::Hex { .. } => &[Kind::Int, Kind::Uint, Kind::String, Kind::Bytes],
    };
    let mut pending = vec![argument];
    while let Some(expression) = pending.pop() {
        let ty = type_of(expression.id)?;
        if !matches!(ty, Type::Dyn) && !accepted.contains(&ty.kind()) {
            return Some((expression.id, ty.name()));
        }
        // Only texts of aggregates print their parts.
        if clause == Clause::String && matches!(expression.kind, ExprKind::List(_) | ExprKind::Map(_)) {
            pending.extend(expression.children().into_iter().rev());
        }
    }
    None
}
