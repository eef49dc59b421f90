//! The syntax tree of an expression. Macros are already expanded in it.
//!
//! Every node has an id; side tables by id hold positions, types and resolved functions. Ids are dense and start at 0.

use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Expr {
    pub id: usize,
    pub kind: ExprKind,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// The place of a syntax error.
    Invalid,
    Literal(Literal),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<CallExpr>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct(Box<StructExpr>),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Debug)]
pub struct Select {
    pub operand: Expr,
    pub field: Arc<str>,
    /// `has(operand.field)`.
    pub test: bool,
}

#[derive(Clone, Debug)]
pub struct CallExpr {
    pub function: Arc<str>,
    pub target: Option<Expr>,
    pub arguments: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub struct Element {
    pub value: Expr,
    pub optional: bool,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: usize,
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

#[derive(Clone, Debug)]
pub struct StructExpr {
    pub name: Arc<str>,
    pub fields: Vec<FieldInit>,
}

#[derive(Clone, Debug)]
pub struct FieldInit {
    pub id: usize,
    pub name: Arc<str>,
    pub value: Expr,
    pub optional: bool,
}

/// A loop over a list or map: `accumulator` starts as `init` and becomes `step` for each item while `condition` holds.
#[derive(Clone, Debug)]
pub struct Comprehension {
    pub range: Expr,
    pub variable: Arc<str>,
    pub variable2: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Expr {
    /// The nodes directly below this one, in the order of evaluation.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Invalid | ExprKind::Literal(_) | ExprKind::Ident(_) => Vec::new(),
            ExprKind::Select(select) => vec![&select.operand],
            ExprKind::Call(call) => call.target.iter().chain(&call.arguments).collect(),
            ExprKind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            ExprKind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            ExprKind::Struct(object) => object.fields.iter().map(|field| &field.value).collect(),
            ExprKind::Comprehension(c) => vec![&c.range, &c.init, &c.condition, &c.step, &c.result],
        }
    }

    pub fn literal(&self) -> Option<&Literal> {
        match &self.kind {
            ExprKind::Literal(literal) => Some(literal),
            _ => None,
        }
    }
}
