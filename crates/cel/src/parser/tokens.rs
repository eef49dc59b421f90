//! Kinds of tokens, and sets of them for messages.
//!
//! Invariant: the kinds are in the order in which messages list them.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
    End,
}

/// Texts of the kinds in messages.
const NAMES: [&str; 36] = [
    "'=='",
    "'!='",
    "'in'",
    "'<'",
    "'<='",
    "'>='",
    "'>'",
    "'&&'",
    "'||'",
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'+'",
    "'*'",
    "'/'",
    "'%'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
    "<EOF>",
];

impl Kind {
    const SYMBOLS: [(&'static [u8], Kind); 24] = [
        (b"==", Kind::Equals),
        (b"!=", Kind::NotEquals),
        (b"<=", Kind::LessEquals),
        (b">=", Kind::GreaterEquals),
        (b"&&", Kind::And),
        (b"||", Kind::Or),
        (b"<", Kind::Less),
        (b">", Kind::Greater),
        (b"[", Kind::LeftBracket),
        (b"]", Kind::RightBracket),
        (b"{", Kind::LeftBrace),
        (b"}", Kind::RightBrace),
        (b"(", Kind::LeftParen),
        (b")", Kind::RightParen),
        (b".", Kind::Dot),
        (b",", Kind::Comma),
        (b"-", Kind::Minus),
        (b"!", Kind::Not),
        (b"?", Kind::Question),
        (b":", Kind::Colon),
        (b"+", Kind::Plus),
        (b"*", Kind::Star),
        (b"/", Kind::Slash),
        (b"%", Kind::Percent),
    ];

    /// The symbol at the start of a text, and its length.
    pub(super) fn of_symbol(text: &[u8]) -> Option<(Kind, usize)> {
        let found = Kind::SYMBOLS.iter().find(|(symbol, _)| text.starts_with(symbol));
        found.map(|(symbol, kind)| (*kind, symbol.len()))
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set(u64);

impl Set {
    pub(super) const fn of(kinds: &[Kind]) -> Set {
        let (mut bits, mut at) = (0, 0);
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Set(bits)
    }

    pub(super) const fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    pub(super) const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            || NAMES.iter().enumerate().filter(|(at, _)| self.0 & (1 << at) != 0).map(|(_, name)| *name);
        // The end comes first in a set of several.
        let end = self.has(Kind::End).then_some("<EOF>");
        let all: Vec<&str> = end.into_iter().chain(names().filter(|name| *name != "<EOF>")).collect();
        match all.as_slice() {
            [one] => f.write_str(one),
            several => write!(f, "{{{}}}", several.join(", ")),
        }
    }
}

/// Tokens that begin an expression.
pub(super) const START: Set = Set::of(&[
    Kind::LeftBracket,
    Kind::LeftBrace,
    Kind::LeftParen,
    Kind::Dot,
    Kind::Minus,
    Kind::Not,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
    Kind::Identifier,
]);

/// Tokens that begin an operand of a sign: all but the signs.
pub(super) const MEMBER_START: Set = Set(START.0 & !Set::of(&[Kind::Not]).0);

/// Binary operators.
pub(super) const CALC: Set = Set::of(&[Kind::Star, Kind::Slash, Kind::Percent, Kind::Plus, Kind::Minus]);
pub(super) const RELATION: Set = Set::of(&[
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
]);
/// Tokens that continue an expression after an operand.
pub(super) const OPERATORS: Set = CALC.or(RELATION).or(Set::of(&[Kind::And, Kind::Or, Kind::Question]));
/// Tokens that continue a primary expression.
pub(super) const SUFFIXES: Set = Set::of(&[Kind::Dot, Kind::LeftBracket]);
