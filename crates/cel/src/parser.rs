//! The parser: text to syntax tree, with macros expanded.
//!
//! A recursive descent that follows upstream's generated parser rule by rule, so that it reports the same errors and
//! recovers from them at the same places. A rule that fails reports once, skips tokens up to one that can follow it
//! (`recover`), and gives an invalid node to its caller.
//!
//! Limits: the size of the text, the depth of each rule, the height of the tree, and the number of recoveries.

mod lexer;
mod literals;
mod macros;
mod primary;
mod recover;
mod tokens;
mod unescape;

use std::sync::Arc;

pub use macros::{BINDINGS, Macro, MacroArguments, OPTIONAL, SORT_BY, STANDARD, TWO_VARIABLES};

use crate::ast::{CallExpr, Expr, ExprKind, Select};
use crate::source::{Issues, Location, Source};
use lexer::{Token, tokenize};
use tokens::{CALC, Kind, OPERATORS, RELATION, START, SUFFIXES, Set};

/// The largest text, in code points.
const MAX_SIZE: usize = 100_000;
/// The deepest nesting of a rule, and of nodes.
const MAX_DEPTH: u16 = 250;

/// Settings of the language.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub optional_syntax: bool,
    pub macros: Vec<Macro>,
}

/// A syntax tree and the position of each of its nodes.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub expr: Expr,
    /// Code points before each node, by id.
    pub positions: Vec<u32>,
}

/// Parses an expression.
pub fn parse(source: &Source<'_>, options: &Options) -> Result<Parsed, Issues> {
    let size = source.text().chars().count();
    let mut issues = Issues::default();
    if size > MAX_SIZE {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_SIZE}");
        issues.report(Location::NONE, message);
        return Err(issues);
    }
    let (tokens, unrecognized) = tokenize(source.text());
    for part in unrecognized {
        let text = recover::display(&source.text()[part.range]);
        issues.report(
            source.location(part.offset),
            format!("Syntax error: token recognition error at: {text}"),
        );
    }
    let mut parser = Parser {
        source,
        options,
        tokens,
        at: 0,
        issues,
        positions: Vec::new(),
        depths: [0; RULES],
        closers: vec![Set::of(&[Kind::End])],
        recovery: recover::Recovery::default(),
    };
    let root = parser.start();
    if root.height > MAX_DEPTH && !parser.recovery.halted {
        parser.issues.report(Location::NONE, "max recursion depth exceeded");
    }
    match parser.issues.is_empty() {
        true => Ok(Parsed { expr: root.expr, positions: parser.positions }),
        false => Err(parser.issues),
    }
}

/// Rules whose depth is limited.
#[derive(Clone, Copy)]
enum Rule {
    Expr,
    Or,
    And,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
}
const RULES: usize = 8;

/// A node and its height: the most nodes that count for the depth on a path below it, itself included.
struct Node {
    expr: Expr,
    height: u16,
}

/// A rule failed with this message at this token.
struct Failure {
    message: String,
    at: usize,
}

struct Parser<'s> {
    source: &'s Source<'s>,
    options: &'s Options,
    tokens: Vec<Token>,
    at: usize,
    issues: Issues,
    positions: Vec<u32>,
    depths: [u16; RULES],
    /// Tokens that can follow the expression inside each construct that is not complete, outermost first.
    closers: Vec<Set>,
    recovery: recover::Recovery,
}

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Kind {
        self.tokens.get(self.at + ahead).map_or(Kind::End, |token| token.kind)
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &self.source.text()[token.range.clone()])
    }

    /// Takes the next token and returns its index. The end is never passed.
    fn take(&mut self) -> usize {
        let taken = self.at;
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        self.recovery.matched();
        taken
    }

    fn offset(&self, at: usize) -> u32 {
        self.tokens.get(at).or(self.tokens.last()).map_or(0, |token| token.offset)
    }

    fn expr_at(&mut self, offset: u32, kind: ExprKind) -> Expr {
        self.positions.push(offset);
        Expr { id: self.positions.len() - 1, kind }
    }

    /// The most nodes that a text of this length can become.
    fn max_nodes(&self) -> usize {
        20_000 + 20 * self.source.text().len()
    }

    /// A node without the tree below it if that is too high: the whole expression will be refused, and walking or dropping
    /// the tree would take stack in proportion to its height.
    fn pruned(&mut self, node: Node) -> Node {
        match node.height > MAX_DEPTH {
            true => Node { height: node.height, ..self.invalid() },
            false => node,
        }
    }

    fn invalid(&mut self) -> Node {
        Node { expr: self.expr_at(0, ExprKind::Invalid), height: 0 }
    }

    /// Reports an error at a node, and gives an invalid one.
    fn error_at(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        let location = self.source.location(offset);
        self.issues.report(location, message);
        self.expr_at(offset, ExprKind::Invalid)
    }

    /// Runs a rule within its depth.
    fn within(&mut self, rule: Rule, body: impl FnOnce(&mut Self) -> Result<Node, Failure>) -> Node {
        if self.recovery.halted {
            return self.invalid();
        }
        let depth = &mut self.depths[rule as usize];
        *depth += 1;
        if *depth > MAX_DEPTH {
            self.halt(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
            return self.invalid();
        }
        let outcome = body(self);
        self.depths[rule as usize] -= 1;
        outcome.unwrap_or_else(|failure| {
            self.fail(&failure, rule);
            self.invalid()
        })
    }

    /// Parses something inside a construct that these tokens continue.
    fn inside<T>(&mut self, closers: &[Kind], body: impl FnOnce(&mut Self) -> T) -> T {
        self.closers.push(Set::of(closers));
        let result = body(self);
        self.closers.pop();
        result
    }

    fn start(&mut self) -> Node {
        let root = self.expression();
        if !self.recovery.halted
            && let Err(failure) = self.expect(Kind::End, Set::of(&[]))
        {
            self.fail(&failure, Rule::Expr);
        }
        root
    }

    fn expression(&mut self) -> Node {
        self.within(Rule::Expr, |p| {
            let condition = p.or()?;
            if p.peek(0) != Kind::Question {
                return Ok(condition);
            }
            let op = p.take();
            let then = p.inside(&[Kind::Colon], Self::or)?;
            p.expect(Kind::Colon, START)?;
            let otherwise = p.expression();
            let height = condition.height.max(then.height).max(otherwise.height).saturating_add(1);
            let arguments = vec![condition.expr, then.expr, otherwise.expr];
            Ok(Node { expr: p.call(p.offset(op), "_?_:_", None, arguments), height })
        })
    }

    fn or(&mut self) -> Result<Node, Failure> {
        Ok(self.within(Rule::Or, |p| p.logic(Kind::Or, "_||_", Self::and)))
    }

    fn and(&mut self) -> Node {
        self.within(Rule::And, |p| p.logic(Kind::And, "_&&_", Self::relation))
    }

    /// Operands joined by one logical operator, as a balanced tree.
    fn logic(&mut self, op: Kind, function: &str, operand: fn(&mut Self) -> Node) -> Result<Node, Failure> {
        let first = operand(self);
        let (mut terms, mut ops, mut height) = (vec![first.expr], Vec::new(), first.height);
        while self.peek(0) == op && !self.recovery.halted {
            let at = self.take();
            ops.push(self.offset(at));
            let term = operand(self);
            height = height.max(term.height);
            terms.push(term.expr);
        }
        let mut terms = terms.into_iter();
        Ok(Node { expr: self.balanced(&mut terms, &ops, function), height })
    }

    /// Joins one more term than there are operators.
    fn balanced(&mut self, terms: &mut std::vec::IntoIter<Expr>, ops: &[u32], function: &str) -> Expr {
        let Some(last) = ops.len().checked_sub(1) else {
            return terms.next().unwrap_or_else(|| self.expr_at(0, ExprKind::Invalid));
        };
        let middle = last.div_ceil(2);
        let left = self.balanced(terms, &ops[..middle], function);
        let right = self.balanced(terms, &ops[middle + 1..], function);
        self.call(ops[middle], function, None, vec![left, right])
    }

    fn relation(&mut self) -> Node {
        self.within(Rule::Relation, |p| p.binary(RELATION, Self::calc_any, Self::relation_operand))
    }

    /// The right side of a relation, which cannot itself be one.
    fn relation_operand(&mut self, _op: Kind) -> Node {
        self.within(Rule::Relation, |p| Ok(p.calc_any()))
    }

    fn calc_any(&mut self) -> Node {
        self.calc(CALC)
    }

    /// Operands joined by these operators.
    fn calc(&mut self, ops: Set) -> Node {
        self.within(Rule::Calc, |p| p.binary(ops, Self::unary, Self::calc_operand))
    }

    /// The right side of an arithmetic operator: a sum's can be a product, a product's cannot.
    fn calc_operand(&mut self, op: Kind) -> Node {
        match op {
            Kind::Plus | Kind::Minus => self.calc(Set::of(&[Kind::Star, Kind::Slash, Kind::Percent])),
            _ => self.calc(Set::of(&[])),
        }
    }

    fn binary(
        &mut self,
        ops: Set,
        operand: fn(&mut Self) -> Node,
        right: fn(&mut Self, Kind) -> Node,
    ) -> Result<Node, Failure> {
        let mut left = operand(self);
        while ops.has(self.peek(0)) && !self.recovery.halted {
            let op = self.peek(0);
            let at = self.take();
            let right = right(self, op);
            let height = left.height.max(right.height).saturating_add(1);
            let offset = self.offset(at);
            let expr = self.call(offset, operator(op), None, vec![left.expr, right.expr]);
            left = self.pruned(Node { expr, height });
        }
        Ok(left)
    }

    fn unary(&mut self) -> Node {
        self.within(Rule::Unary, |p| {
            p.sync(START)?;
            match p.peek(0) {
                Kind::Not => p.negations(),
                Kind::Minus if !matches!(p.peek(1), Kind::Int | Kind::Float) => p.minuses(),
                _ => Ok(p.member()),
            }
        })
    }

    /// One or more `!` before an operand. Two of them cancel.
    fn negations(&mut self) -> Result<Node, Failure> {
        let first = self.offset(self.at);
        let mut count = 0;
        while self.peek(0) == Kind::Not {
            self.take();
            count += 1;
        }
        self.expect_operand()?;
        let operand = self.member();
        match count % 2 {
            0 => Ok(operand),
            _ => Ok(Node { expr: self.call(first, "!_", None, vec![operand.expr]), height: operand.height }),
        }
    }

    /// One or more `-` before an operand that is no number. Two of them cancel.
    fn minuses(&mut self) -> Result<Node, Failure> {
        let first = self.at;
        let mut count = 0;
        while self.peek(count) == Kind::Minus {
            count += 1;
        }
        if !tokens::MEMBER_START.has(self.peek(count)) {
            return Err(self.no_viable(first, first + count));
        }
        for _ in 0..count {
            self.take();
        }
        let operand = self.member();
        let offset = self.offset(first);
        match count % 2 {
            0 => Ok(operand),
            _ => Ok(Node { expr: self.call(offset, "-_", None, vec![operand.expr]), height: operand.height }),
        }
    }

    /// An operand with its selections, calls and indexes.
    fn member(&mut self) -> Node {
        self.within(Rule::Member, |p| {
            let mut node = p.primary();
            while SUFFIXES.has(p.peek(0)) && !p.recovery.halted {
                let height = node.height.saturating_add(1);
                node = match p.peek(0) {
                    Kind::LeftBracket => p.index(node.expr, height)?,
                    _ => p.selection(node.expr, height)?,
                };
                node = p.pruned(node);
            }
            Ok(node)
        })
    }

    fn index(&mut self, operand: Expr, height: u16) -> Result<Node, Failure> {
        let op = self.take();
        let offset = self.offset(op);
        self.sync(START.or(Set::of(&[Kind::Question])))?;
        let optional = self.peek(0) == Kind::Question;
        if optional {
            self.take();
        }
        let index = self.inside(&[Kind::RightBracket], Self::expression);
        self.expect(Kind::RightBracket, self.after_operand())?;
        let height = height.max(index.height.saturating_add(1));
        if optional && !self.options.optional_syntax {
            return Ok(Node { expr: self.error_at(offset, "unsupported syntax '[?'"), height });
        }
        let function = if optional { "_[?_]" } else { "_[_]" };
        Ok(Node { expr: self.call(offset, function, None, vec![operand, index.expr]), height })
    }

    /// `.field`, `.?field` or `.method(…)`.
    fn selection(&mut self, operand: Expr, height: u16) -> Result<Node, Failure> {
        if !matches!(self.peek(1), Kind::Identifier | Kind::EscapedIdentifier | Kind::Question) {
            return Err(self.no_viable(self.at, self.at + 1));
        }
        let op = self.take();
        let offset = self.offset(op);
        if self.peek(0) == Kind::Identifier && self.peek(1) == Kind::LeftParen {
            let name = self.take();
            let name: Arc<str> = self.text(name).into();
            let open = self.take();
            let (arguments, inner) = self.arguments()?;
            let offset = self.offset(open);
            let expr = self.call(offset, &name, Some(operand), arguments);
            return Ok(Node { expr, height: height.max(inner.saturating_add(1)) });
        }
        let optional = self.peek(0) == Kind::Question;
        if optional {
            self.take();
            self.sync(Set::of(&[Kind::Identifier, Kind::EscapedIdentifier]))?;
        }
        let name = self.take();
        let at = self.offset(name);
        let field: Arc<str> = self.text(name).trim_matches('`').into();
        if !optional {
            let select = Select { operand, field, test: false };
            return Ok(Node { expr: self.expr_at(offset, ExprKind::Select(Box::new(select))), height });
        }
        if !self.options.optional_syntax {
            return Ok(Node { expr: self.error_at(offset, "unsupported syntax '.?'"), height });
        }
        let field = self.expr_at(at, ExprKind::Literal(crate::ast::Literal::String(field)));
        Ok(Node { expr: self.plain_call(offset, "_?._", None, vec![operand, field]), height })
    }

    /// Tokens that can follow an operand here.
    fn after_operand(&self) -> Set {
        let closers = self.closers.last().copied().unwrap_or(Set::of(&[]));
        SUFFIXES.or(OPERATORS).or(closers)
    }

    /// A call, or the expansion of the macro with its name.
    fn call(&mut self, offset: u32, function: &str, target: Option<Expr>, arguments: Vec<Expr>) -> Expr {
        match self.expand(offset, function, target, arguments) {
            Ok(expanded) => expanded,
            Err((target, arguments)) => self.plain_call(offset, function, target, arguments),
        }
    }

    fn plain_call(
        &mut self,
        offset: u32,
        function: &str,
        target: Option<Expr>,
        arguments: Vec<Expr>,
    ) -> Expr {
        let call = CallExpr { function: function.into(), target, arguments };
        self.expr_at(offset, ExprKind::Call(Box::new(call)))
    }
}

/// The function of a binary operator.
fn operator(kind: Kind) -> &'static str {
    match kind {
        Kind::Star => "_*_",
        Kind::Slash => "_/_",
        Kind::Percent => "_%_",
        Kind::Plus => "_+_",
        Kind::Minus => "_-_",
        Kind::Less => "_<_",
        Kind::LessEquals => "_<=_",
        Kind::Greater => "_>_",
        Kind::GreaterEquals => "_>=_",
        Kind::Equals => "_==_",
        Kind::NotEquals => "_!=_",
        _ => "@in",
    }
}
