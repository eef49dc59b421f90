//! Errors of the parser and the recovery from them.
//!
//! As in upstream's generated parser: a missing or superfluous token is reported and the rule continues; other errors
//! end the rule, which skips to a token that can follow it. After a report, errors are not reported until a token
//! matches again.

use super::tokens::{Kind, OPERATORS, START, SUFFIXES, Set};
use super::{Failure, Parser, Rule};
use crate::source::Location;

/// The most recoveries, and the most tokens that one of them skips.
const MAX_ATTEMPTS: usize = 30;
const MAX_SKIPPED: usize = 256;

#[derive(Default)]
pub(super) struct Recovery {
    /// True from a report until a token matches.
    active: bool,
    /// The token and the rule of the last failure without a match since.
    last: Option<(usize, u8)>,
    attempts: usize,
    /// A limit was exceeded: nothing more is parsed.
    pub(super) halted: bool,
}

impl Recovery {
    pub(super) fn matched(&mut self) {
        self.active = false;
        self.last = None;
    }
}

/// A text in quotes, with white space escaped.
pub(super) fn display(text: &str) -> String {
    let text = text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r");
    format!("'{text}'")
}

impl Parser<'_> {
    /// The token in messages.
    fn shown(&self, at: usize) -> String {
        match self.tokens.get(at).map(|token| token.kind) {
            None | Some(Kind::End) => "'<EOF>'".to_owned(),
            Some(_) => display(self.text(at)),
        }
    }

    /// The place of a token; upstream places the end of an empty text before its first column.
    fn place(&self, at: usize) -> Location {
        let location = self.source.location(self.offset(at));
        match self.source.text().is_empty() {
            true => Location { column: -1, ..location },
            false => location,
        }
    }

    fn report(&mut self, at: usize, message: &str) {
        if !self.recovery.active && !self.recovery.halted {
            self.recovery.active = true;
            self.issues.report(self.place(at), format!("Syntax error: {message}"));
        }
    }

    /// Stops parsing with an error of a limit.
    pub(super) fn halt(&mut self, message: String) {
        if !self.recovery.halted {
            self.recovery.halted = true;
            self.issues.report(Location::NONE, message);
        }
    }

    /// Counts a recovery; returns false if there were too many.
    fn attempt(&mut self) -> bool {
        if self.recovery.halted {
            return false;
        }
        if self.recovery.attempts == MAX_ATTEMPTS {
            let place = self.place(self.at);
            self.issues.report(
                place,
                format!("Syntax error: error recovery attempt limit exceeded: {MAX_ATTEMPTS}"),
            );
            self.recovery.halted = true;
            return false;
        }
        self.recovery.attempts += 1;
        true
    }

    /// Before a decision: the next token must be one of these, after at most one superfluous token.
    pub(super) fn sync(&mut self, expected: Set) -> Result<(), Failure> {
        if expected.has(self.peek(0)) {
            return Ok(());
        }
        if !self.recovery.active && expected.has(self.peek(1)) && self.peek(0) != Kind::End {
            self.report(self.at, &format!("extraneous input {} expecting {expected}", self.shown(self.at)));
            self.take();
            return Ok(());
        }
        Err(self.mismatch(expected))
    }

    fn mismatch(&self, expected: Set) -> Failure {
        Failure {
            message: format!("mismatched input {} expecting {expected}", self.shown(self.at)),
            at: self.at,
        }
    }

    /// No alternative begins with the tokens from `first` to `last`.
    pub(super) fn no_viable(&self, first: usize, last: usize) -> Failure {
        let start = self.tokens.get(first).map_or(0, |token| token.range.start);
        let end = self.tokens.get(last).map_or(start, |token| token.range.end);
        let text = &self.source.text()[start..end];
        // Upstream words a reserved word after one character differently.
        let mut characters = text.chars();
        characters.next();
        let message = match characters.as_str() {
            word @ ("true" | "false" | "null") => format!("mismatched input '{word}' expecting IDENTIFIER"),
            _ => format!("no viable alternative at input {}", display(text)),
        };
        Failure { message, at: last }
    }

    /// Takes a token of a kind. A superfluous token before it is skipped; a missing one is assumed if the next token can
    /// follow it.
    pub(super) fn expect(&mut self, kind: Kind, follow: Set) -> Result<(), Failure> {
        if self.peek(0) == kind {
            self.take();
            return Ok(());
        }
        if !self.attempt() {
            return Ok(());
        }
        let expected = Set::of(&[kind]);
        if self.peek(1) == kind && self.peek(0) != Kind::End {
            self.report(self.at, &format!("extraneous input {} expecting {expected}", self.shown(self.at)));
            self.take();
            self.take();
            return Ok(());
        }
        if follow.has(self.peek(0)) {
            self.report(self.at, &format!("missing {expected} at {}", self.shown(self.at)));
            return Ok(());
        }
        Err(self.mismatch(expected))
    }

    /// After a `!`: an operand must follow.
    pub(super) fn expect_operand(&mut self) -> Result<(), Failure> {
        if START.has(self.peek(0)) {
            return Ok(());
        }
        self.report(self.at, &format!("extraneous input {} expecting {START}", self.shown(self.at)));
        self.skip_to(START.or(self.recovery_set(Rule::Unary)));
        match START.has(self.peek(0)) {
            true => Ok(()),
            false => Err(self.mismatch(START)),
        }
    }

    /// Reports the failure of a rule and skips to a token that can follow it.
    pub(super) fn fail(&mut self, failure: &Failure, rule: Rule) {
        self.report(failure.at, &failure.message);
        if !self.attempt() {
            return;
        }
        let place = (self.at, rule as u8);
        // The rule failed here before: skipping a token keeps the parser from doing so forever.
        if self.recovery.last == Some(place) && self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        self.recovery.last = Some((self.at, rule as u8));
        self.skip_to(self.recovery_set(rule));
    }

    fn recovery_set(&self, rule: Rule) -> Set {
        let closers = self.closers.iter().fold(Set::of(&[]), |all, closers| all.or(*closers));
        match rule {
            Rule::Primary => closers.or(OPERATORS).or(SUFFIXES),
            Rule::Expr if self.closers.len() == 1 => closers,
            _ => closers.or(OPERATORS),
        }
    }

    fn skip_to(&mut self, set: Set) {
        let mut skipped = 0;
        while !set.has(self.peek(0)) && self.at + 1 < self.tokens.len() {
            if skipped == MAX_SKIPPED {
                return self.halt(format!("error recovery token lookahead limit exceeded: {MAX_SKIPPED}"));
            }
            skipped += 1;
            self.at += 1;
        }
    }
}
