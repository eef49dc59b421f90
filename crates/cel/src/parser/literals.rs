//! Literals: numbers, texts, bytes and constants.

use super::tokens::Kind;
use super::unescape::unescape;
use super::{Failure, Node, Parser};
use crate::ast::{ExprKind, Literal};

impl Parser<'_> {
    pub(super) fn literal(&mut self) -> Result<Node, Failure> {
        let first = self.at;
        let negative = self.peek(0) == Kind::Minus;
        if negative && !matches!(self.peek(1), Kind::Int | Kind::Float) {
            return Err(self.no_viable(first, first + 1));
        }
        if negative {
            self.take();
        }
        let kind = self.peek(0);
        let at = self.take();
        let offset = self.offset(first);
        let literal = parse(kind, self.text(at), negative);
        let expr = match literal {
            Ok(literal) => self.expr_at(offset, ExprKind::Literal(literal)),
            Err(message) => self.error_at(offset, message),
        };
        Ok(Node { expr, height: 0 })
    }
}

fn parse(kind: Kind, text: &str, negative: bool) -> Result<Literal, &'static str> {
    Ok(match kind {
        Kind::Int => Literal::Int(integer(text, negative).ok_or("invalid int literal")?),
        Kind::Uint => Literal::Uint(magnitude(&text[..text.len() - 1]).ok_or("invalid uint literal")?),
        Kind::Float => {
            let value: f64 = text.parse().map_err(|_| "invalid double literal")?;
            if value.is_infinite() {
                return Err("invalid double literal");
            }
            Literal::Double(if negative { -value } else { value })
        }
        Kind::String => {
            let contents = unescape(text, false)?;
            Literal::String(String::from_utf8(contents).map_err(|_| "unable to unescape string")?.into())
        }
        Kind::Bytes => Literal::Bytes(unescape(&text[1..], true)?.into()),
        Kind::True => Literal::Bool(true),
        Kind::False => Literal::Bool(false),
        _ => Literal::Null,
    })
}

fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn integer(text: &str, negative: bool) -> Option<i64> {
    let magnitude = magnitude(text)?;
    match negative {
        true if magnitude <= 1 << 63 => Some((magnitude as i64).wrapping_neg()),
        true => None,
        false => i64::try_from(magnitude).ok(),
    }
}
