//! The grammar of label selectors in query parameters.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = "!" KEY | KEY | KEY ("=" | "==" | "!=" | ">" | "<") [ VALUE ]
//!             | KEY ("in" | "notin") "(" [ VALUE ] { "," [ VALUE ] } ")"
//! ```
//! `in` and `notin` are keywords only in the position of an operator.

use super::labels::key_complaint;
use super::{Operator, Requirement, SelectorError};
use crate::status::quoted;
use crate::value::Str;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    ClosedParenthesis,
    OpenParenthesis,
    Comma,
    Not,
    Operator(Operator),
    Identifier,
}

/// The requirements of a selector, in their order.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { rest: text };
    let mut requirements = Vec::new();
    loop {
        match parser.peek_value() {
            (Token::Identifier | Token::Not, _) => {
                let requirement = parser.requirement().map_err(|SelectorError(inner)| {
                    SelectorError(format!("unable to parse requirement: {inner}"))
                })?;
                requirements.push(requirement);
                match parser.value() {
                    (Token::End, _) => return Ok(requirements),
                    (Token::Comma, _) => match parser.peek_value() {
                        (Token::Identifier | Token::Not, _) => {}
                        (_, found) => return Err(unexpected(found, ", expected: identifier after ','")),
                    },
                    (_, found) => return Err(unexpected(found, ", expected: ',' or 'end of string'")),
                }
            }
            (Token::End, _) => return Ok(requirements),
            (_, found) => return Err(unexpected(found, ", expected: !, identifier, or 'end of string'")),
        }
    }
}

fn unexpected(found: &str, expected: &str) -> SelectorError {
    SelectorError(format!("found '{found}'{expected}"))
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    /// The next token, including operators that are words.
    fn next(&mut self) -> (Token, &'t str) {
        let rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let (token, length) = match rest.as_bytes() {
            [] => (Token::End, 0),
            [b')', ..] => (Token::ClosedParenthesis, 1),
            [b'(', ..] => (Token::OpenParenthesis, 1),
            [b',', ..] => (Token::Comma, 1),
            [b'!', b'=', ..] => (Token::Operator(Operator::NotEquals), 2),
            [b'!', ..] => (Token::Not, 1),
            [b'=', b'=', ..] => (Token::Operator(Operator::DoubleEquals), 2),
            [b'=', ..] => (Token::Operator(Operator::Equals), 1),
            [b'>', ..] => (Token::Operator(Operator::GreaterThan), 1),
            [b'<', ..] => (Token::Operator(Operator::LessThan), 1),
            _ => {
                let special = ['=', '!', '(', ')', ',', '>', '<', ' ', '\t', '\r', '\n'];
                let length = rest.find(special).unwrap_or(rest.len());
                match &rest[..length] {
                    "in" => (Token::Operator(Operator::In), length),
                    "notin" => (Token::Operator(Operator::NotIn), length),
                    _ => (Token::Identifier, length),
                }
            }
        };
        let (literal, rest) = rest.split_at(length);
        self.rest = rest;
        (token, literal)
    }

    /// The next token in the position of keys and values.
    fn value(&mut self) -> (Token, &'t str) {
        match self.next() {
            (Token::Operator(Operator::In | Operator::NotIn), literal) => (Token::Identifier, literal),
            other => other,
        }
    }

    fn peek_value(&self) -> (Token, &'t str) {
        Parser { rest: self.rest }.value()
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut key) = self.value();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.value();
        }
        if token != Token::Identifier {
            return Err(unexpected(key, ", expected: identifier"));
        }
        if let Some(complaint) = key_complaint(key) {
            // Upstream has no path for the key here, and prints that.
            return Err(SelectorError(format!("<nil>: Invalid value: {}: {complaint}", quoted(key))));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if let (Token::End | Token::Comma, _) = self.peek_value() {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            (Token::Operator(operator), _) => operator,
            (_, found) => return Err(unexpected(found, ", expected: in, notin, =, ==, !=, gt, lt")),
        };
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => vec![self.exact_value()?],
        };
        values.sort_unstable();
        values.dedup();
        Requirement::new(key, operator, values)
    }

    fn exact_value(&mut self) -> Result<Str, SelectorError> {
        match self.peek_value() {
            (Token::End | Token::Comma, _) => Ok(Str::default()),
            (Token::Identifier, _) => Ok(Str::new(self.value().1)),
            (_, found) => Err(unexpected(found, ", expected: identifier")),
        }
    }

    /// `(a,b)`; nothing between two delimiters is the empty value.
    fn set(&mut self) -> Result<Vec<Str>, SelectorError> {
        match self.value() {
            (Token::OpenParenthesis, _) => {}
            (_, found) => return Err(unexpected(found, " expected: '('")),
        }
        match self.peek_value() {
            (Token::Identifier | Token::Comma | Token::ClosedParenthesis, _) => {}
            (_, found) => return Err(unexpected(found, ", expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.value() {
                (Token::Identifier, value) => {
                    values.push(Str::new(value));
                    match self.value() {
                        (Token::Comma, _) if self.peek_value().0 != Token::ClosedParenthesis => {}
                        (Token::Comma, _) => values.push(Str::default()),
                        (Token::ClosedParenthesis, _) => return Ok(values),
                        (_, found) => return Err(unexpected(found, ", expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => values.push(Str::default()),
                (Token::ClosedParenthesis, _) => {
                    values.push(Str::default());
                    return Ok(values);
                }
                (_, found) => return Err(unexpected(found, ", expected: ',', or identifier")),
            }
        }
    }
}
