//! Primary expressions: names, calls, aggregates and literals.

use std::sync::Arc;

use super::tokens::{Kind, START, Set};
use super::{Failure, Node, Parser, Rule};
use crate::ast::{Element, Entry, Expr, ExprKind, FieldInit, StructExpr};
use crate::schema::is_reserved;

const ELEMENT: Set = START.or(Set::of(&[Kind::Question]));
const FIELD: Set = Set::of(&[Kind::Question, Kind::Identifier, Kind::EscapedIdentifier]);

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Node {
        self.within(Rule::Primary, |p| {
            p.sync(START)?;
            match p.peek(0) {
                Kind::Dot | Kind::Identifier => p.name(),
                Kind::LeftParen => p.nested(),
                Kind::LeftBracket => p.list(),
                Kind::LeftBrace => p.map(),
                _ => p.literal(),
            }
        })
    }

    fn nested(&mut self) -> Result<Node, Failure> {
        self.take();
        let node = self.inside(&[Kind::RightParen], Self::expression);
        self.expect(Kind::RightParen, self.after_operand())?;
        Ok(node)
    }

    /// A variable, a call, or the name of a message that is created.
    fn name(&mut self) -> Result<Node, Failure> {
        let first = self.at;
        let dotted = self.peek(0) == Kind::Dot;
        let ident = usize::from(dotted);
        if self.peek(ident) != Kind::Identifier {
            return Err(self.no_viable(first, first + ident));
        }
        let mut end = ident + 1;
        while self.peek(end) == Kind::Dot && self.peek(end + 1) == Kind::Identifier {
            end += 2;
        }
        if self.peek(end) == Kind::LeftBrace {
            return self.message(end);
        }
        if dotted {
            self.take();
        }
        let at = self.take();
        let word = self.text(at).to_owned();
        let call = self.peek(0) == Kind::LeftParen;
        let name: Arc<str> = if dotted { format!(".{word}").into() } else { word.as_str().into() };
        let open = self.at;
        let (arguments, height) = match call {
            true => {
                self.take();
                self.arguments()?
            }
            false => (Vec::new(), 0),
        };
        if is_reserved(&word) {
            let offset = self.offset(first);
            return Ok(Node { expr: self.error_at(offset, format!("reserved identifier: {word}")), height });
        }
        let expr = match call {
            true => self.call(self.offset(open), &name, None, arguments),
            false => self.expr_at(self.offset(at), ExprKind::Ident(name)),
        };
        Ok(Node { expr, height })
    }

    /// Arguments of a call after its `(`, with the greatest height among them.
    pub(super) fn arguments(&mut self) -> Result<(Vec<Expr>, u16), Failure> {
        self.sync(START.or(Set::of(&[Kind::RightParen])))?;
        let (mut arguments, mut height) = (Vec::new(), 0);
        if self.peek(0) != Kind::RightParen {
            self.inside(&[Kind::Comma, Kind::RightParen], |p| {
                loop {
                    let argument = p.expression();
                    height = height.max(argument.height);
                    arguments.push(argument.expr);
                    if p.peek(0) != Kind::Comma || p.recovery.halted {
                        break;
                    }
                    p.take();
                }
            });
        }
        self.expect(Kind::RightParen, self.after_operand())?;
        Ok((arguments, height))
    }

    /// True at a comma that an element follows, rather than the end of the aggregate.
    fn continues(&self, element: Set) -> bool {
        self.peek(0) == Kind::Comma && element.has(self.peek(1)) && !self.recovery.halted
    }

    /// The end of an aggregate, after an optional comma.
    fn close(&mut self, kind: Kind) -> Result<(), Failure> {
        self.sync(Set::of(&[Kind::Comma, kind]))?;
        if self.peek(0) == Kind::Comma {
            self.take();
        }
        self.expect(kind, self.after_operand())
    }

    fn question(&mut self) -> Option<u32> {
        (self.peek(0) == Kind::Question).then(|| {
            let at = self.take();
            self.offset(at)
        })
    }

    /// Reports a `?` where the language has no optional values.
    fn check_optional(&mut self, question: Option<u32>) -> bool {
        if let Some(offset) = question
            && !self.options.optional_syntax
        {
            self.error_at(offset, "unsupported syntax '?'");
            return false;
        }
        question.is_some()
    }

    fn list(&mut self) -> Result<Node, Failure> {
        let open = self.take();
        self.sync(ELEMENT.or(Set::of(&[Kind::RightBracket, Kind::Comma])))?;
        let (mut elements, mut height) = (Vec::new(), 0);
        if ELEMENT.has(self.peek(0)) {
            self.inside(&[Kind::Comma, Kind::RightBracket], |p| {
                loop {
                    let question = p.question();
                    let value = p.expression();
                    height = height.max(value.height);
                    let optional = p.check_optional(question);
                    elements.push(Element { value: value.expr, optional });
                    if !p.continues(ELEMENT) {
                        break;
                    }
                    p.take();
                }
            });
        }
        self.close(Kind::RightBracket)?;
        let offset = self.offset(open);
        Ok(Node { expr: self.expr_at(offset, ExprKind::List(elements)), height })
    }

    fn map(&mut self) -> Result<Node, Failure> {
        let open = self.take();
        self.sync(ELEMENT.or(Set::of(&[Kind::RightBrace, Kind::Comma])))?;
        let (mut entries, mut height) = (Vec::new(), 0);
        if ELEMENT.has(self.peek(0)) {
            let outcome = self.inside(&[Kind::Comma, Kind::RightBrace], |p| {
                loop {
                    let question = p.question();
                    let key = p.inside(&[Kind::Colon], Self::expression);
                    let colon = p.at;
                    p.expect(Kind::Colon, START)?;
                    let value = p.expression();
                    height = height.max(key.height).max(value.height);
                    let optional = p.check_optional(question);
                    let id = p.expr_at(p.offset(colon), ExprKind::Invalid).id;
                    entries.push(Entry { id, key: key.expr, value: value.expr, optional });
                    if !p.continues(ELEMENT) {
                        return Ok(());
                    }
                    p.take();
                }
            });
            if let Err(failure) = outcome {
                self.inside(&[Kind::Comma, Kind::RightBrace], |p| p.fail(&failure, Rule::Calc));
            }
        }
        self.close(Kind::RightBrace)?;
        let offset = self.offset(open);
        Ok(Node { expr: self.expr_at(offset, ExprKind::Map(entries)), height })
    }

    /// The creation of a message, whose name has `length` tokens.
    fn message(&mut self, length: usize) -> Result<Node, Failure> {
        let mut name = String::new();
        for _ in 0..length {
            let at = self.take();
            name.push_str(self.text(at));
        }
        let open = self.take();
        self.sync(FIELD.or(Set::of(&[Kind::RightBrace, Kind::Comma])))?;
        let (mut fields, mut height) = (Vec::new(), 0);
        if FIELD.has(self.peek(0)) {
            let outcome = self.inside(&[Kind::Comma, Kind::RightBrace], |p| {
                loop {
                    let question = p.question();
                    p.sync(Set::of(&[Kind::Identifier, Kind::EscapedIdentifier]))?;
                    let field = p.take();
                    let field: Arc<str> = p.text(field).trim_matches('`').into();
                    let colon = p.at;
                    p.expect(Kind::Colon, START)?;
                    let value = p.expression();
                    height = height.max(value.height);
                    let optional = p.check_optional(question);
                    let id = p.expr_at(p.offset(colon), ExprKind::Invalid).id;
                    fields.push(FieldInit { id, name: field, value: value.expr, optional });
                    if !p.continues(FIELD) {
                        return Ok(());
                    }
                    p.take();
                }
            });
            if let Err(failure) = outcome {
                self.inside(&[Kind::Comma, Kind::RightBrace], |p| p.fail(&failure, Rule::Calc));
            }
        }
        self.close(Kind::RightBrace)?;
        let offset = self.offset(open);
        let object = StructExpr { name: name.into(), fields };
        Ok(Node { expr: self.expr_at(offset, ExprKind::Struct(Box::new(object))), height })
    }
}
