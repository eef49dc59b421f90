//! Checks of constants in a checked expression: literals of durations, timestamps and regular expressions, and lists
//! and maps of mixed types.

use crate::ast::{CallExpr, Element, Entry, Expr, ExprKind, Literal};
use crate::check::Checked;
use crate::library::regex::is_valid;
use crate::library::strings::format_check;
use crate::source::{Issues, Location, Source};
use crate::types::Type;
use crate::value::Timestamp;
use crate::value::time::parse_duration;

/// The function whose argument is a list of values of any types.
const FORMAT: &str = "format";

/// The checks of an environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators {
    /// Lists and maps of mixed types.
    pub(crate) mixed: bool,
    /// Literals of durations, timestamps and regular expressions.
    pub(crate) literals: bool,
    /// Arguments of `format`.
    pub(crate) formats: bool,
}

pub(crate) fn validate(checked: &Checked, source: &Source<'_>, validators: Validators) -> Issues {
    let mut validator = Validator { checked, source, issues: Issues::default(), validators };
    validator.walk(&checked.expr, false);
    if validators.formats {
        let type_of = |id: usize| checked.types.get(id);
        format_check::check(&checked.expr, type_of, |id, message| validator.report(id, message));
    }
    validator.issues
}

type Valid = fn(&Literal) -> bool;

/// Functions whose first argument, if it is a literal, must be valid.
const LITERALS: [(&str, Valid); 3] = [
    ("duration", |literal| match literal {
        Literal::String(text) => parse_duration(text).is_some(),
        Literal::Null => false,
        _ => true,
    }),
    ("timestamp", |literal| match literal {
        Literal::String(text) => {
            Timestamp::parse(text).is_some_and(|time| Timestamp::new(time.seconds, 0).is_some())
        }
        Literal::Int(seconds) => Timestamp::new(*seconds, 0).is_some(),
        Literal::Null => false,
        _ => true,
    }),
    ("matches", |literal| match literal {
        Literal::String(pattern) => is_valid(pattern),
        _ => true,
    }),
];

struct Validator<'c> {
    checked: &'c Checked,
    source: &'c Source<'c>,
    issues: Issues,
    validators: Validators,
}

impl Validator<'_> {
    /// Visits all nodes. `exempt` is true inside the arguments of `format`.
    fn walk(&mut self, expr: &Expr, exempt: bool) {
        match &expr.kind {
            ExprKind::Call(call) if self.validators.literals => self.literal(call),
            ExprKind::List(elements) if self.validators.mixed && !exempt => self.list(elements),
            ExprKind::Map(entries) if self.validators.mixed && !exempt => self.map(entries),
            _ => {}
        }
        let inner = exempt
            || (self.validators.formats
                && matches!(&expr.kind, ExprKind::Call(call) if &*call.function == FORMAT));
        for child in expr.children() {
            self.walk(child, inner);
        }
    }

    fn report(&mut self, id: usize, message: String) {
        let offset = self.checked.positions.get(id);
        self.issues.report(offset.map_or(Location::NONE, |offset| self.source.location(*offset)), message);
    }

    fn literal(&mut self, call: &CallExpr) {
        for (function, valid) in LITERALS {
            if let Some(argument) = call.arguments.first()
                && &*call.function == function
                && let Some(literal) = argument.literal()
                && !valid(literal)
            {
                self.report(argument.id, format!("invalid {function} argument"));
            }
        }
    }

    fn mismatch(&mut self, expr: &Expr, expected: &Type, found: &Type) {
        self.report(expr.id, format!("expected type '{expected}' but found '{found}'"));
    }

    /// The type of an element, or of the value in an optional one.
    fn element_type(&self, expr: &Expr, optional: bool) -> Type {
        let ty = self.checked.ty(expr);
        match optional {
            true => ty.optional_value().unwrap_or(ty).clone(),
            false => ty.clone(),
        }
    }

    fn list(&mut self, elements: &[Element]) {
        let mut expected = None;
        for element in elements {
            let ty = self.element_type(&element.value, element.optional);
            match &expected {
                None => expected = Some(ty),
                Some(expected) if equivalent(expected, &ty) => {}
                Some(expected) => return self.mismatch(&element.value, expected, &ty),
            }
        }
    }

    fn map(&mut self, entries: &[Entry]) {
        let mut expected: Option<(Type, Type)> = None;
        for entry in entries {
            let key = self.checked.ty(&entry.key).clone();
            let value = self.element_type(&entry.value, entry.optional);
            let Some((expected_key, expected_value)) = &expected else {
                expected = Some((key, value));
                continue;
            };
            if !equivalent(expected_key, &key) {
                self.mismatch(&entry.key, expected_key, &key);
            }
            if !equivalent(expected_value, &value) {
                self.mismatch(&entry.value, expected_value, &value);
            }
        }
    }
}

/// True for the same type; type parameters are all the same.
fn equivalent(a: &Type, b: &Type) -> bool {
    let names = matches!((a, b), (Type::Parameter(_), Type::Parameter(_))) || a.name() == b.name();
    let (p, q) = (a.parameters(), b.parameters());
    a.kind() == b.kind() && names && p.len() == q.len() && p.iter().zip(q).all(|(p, q)| equivalent(p, q))
}
