//! The sizes that compiled patterns may have: each alone, and all patterns of an expression, a schema or an evaluation.
//!
//! Repetitions are expanded and Unicode classes become automata of bytes, so a pattern of ten bytes may take megabytes,
//! and compiling it takes as long as its result is large. The size is estimated from the parsed pattern, in which
//! repetitions are still counts, so that a pattern that is too large is never compiled.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

use super::syntax::{self, Translated};
use super::{NEST_LIMIT, Pattern, compile};

/// Bytes of one compiled pattern.
const PATTERN_LIMIT: usize = 1 << 20;
/// Bytes of a pattern that matches nothing but the empty text.
const BASE: usize = 1 << 10;
/// Bytes of a state, and of a transition.
const STATE: usize = 24;
const TRANSITION: usize = 8;

/// Bytes of all but the last byte of a character in a class: classes share the states of equal ones.
const SHARED: usize = STATE / 2;

/// Go's words for a pattern that takes too much.
pub(super) const TOO_LARGE: &str = "expression too large";

/// A pattern that is not compiled.
pub(crate) struct Refused {
    /// The error of Go's parser.
    pub(crate) why: String,
    /// The pattern is valid.
    pub(crate) too_large: bool,
}

/// The bytes that compiled patterns may take together.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
    /// Constant patterns beyond the budget are not refused: they are compiled by each evaluation, within its budget.
    pub(crate) lenient: bool,
}

impl Budget {
    /// Of the constant patterns of an expression, and of those that an evaluation compiles.
    pub const EXPRESSION: usize = 4 << 20;
    /// Of the patterns of a schema, and of the constant patterns of its rules.
    pub const SCHEMA: usize = 8 << 20;

    /// A budget for new expressions: those beyond it are refused.
    pub fn new(bytes: usize) -> Budget {
        Budget { left: AtomicUsize::new(bytes), lenient: false }
    }

    /// A budget for stored expressions.
    pub fn lenient(bytes: usize) -> Budget {
        Budget { lenient: true, ..Budget::new(bytes) }
    }

    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// The share of one expression.
    pub(crate) fn share(&self) -> Budget {
        Budget { left: AtomicUsize::new(self.left().min(Budget::EXPRESSION)), lenient: self.lenient }
    }

    /// Takes bytes. If there are too few, none are left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let took = |left: usize| Some(left.saturating_sub(bytes));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, took).is_ok_and(|left| left >= bytes)
    }

    /// The error of a pattern that is invalid or too large, if it is. The pattern is not compiled.
    pub fn complaint(&self, pattern: &str) -> Option<String> {
        self.translate(pattern).err().map(|refused| refused.why)
    }

    /// Takes the size of a pattern. Returns the pattern in the syntax of the `regex` crate.
    pub(crate) fn translate(&self, pattern: &str) -> Result<String, Refused> {
        let translated = syntax::translate(pattern).map_err(|why| Refused { why, too_large: false })?;
        // Parsing takes time, too, so a pattern that is too large is not free.
        let size = if self.left() > 0 { estimate(&translated) } else { None };
        if !self.take(size.unwrap_or(PATTERN_LIMIT)) || size.is_none() {
            return Err(Refused { why: syntax::error(TOO_LARGE, pattern), too_large: true });
        }
        Ok(translated.text)
    }
}

/// The patterns that evaluations compile: each once, all within a budget.
pub struct Patterns {
    budget: Budget,
    compiled: RefCell<HashMap<Box<str>, Rc<Pattern>>>,
}

impl Default for Patterns {
    fn default() -> Patterns {
        Patterns { budget: Budget::new(Budget::EXPRESSION), compiled: RefCell::default() }
    }
}

impl Patterns {
    pub(crate) fn get(&self, pattern: &str) -> Result<Rc<Pattern>, String> {
        if let Some(known) = self.compiled.borrow().get(pattern) {
            return Ok(known.clone());
        }
        let regex = Rc::new(compile(pattern, &self.budget)?);
        self.compiled.borrow_mut().insert(pattern.into(), regex.clone());
        Ok(regex)
    }
}

/// The bytes that a pattern takes, unless that is too much.
fn estimate(translated: &Translated) -> Option<usize> {
    let parse = || ParserBuilder::new().nest_limit(NEST_LIMIT).build().parse(&translated.text).ok();
    let hir =
        Some(translated).filter(|translated| translated.weight <= PATTERN_LIMIT).and_then(|_| parse())?;
    let size = size(&hir).max(translated.weight).saturating_add(BASE);
    (size <= PATTERN_LIMIT).then_some(size)
}

fn size(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => STATE,
        HirKind::Literal(literal) => literal.0.len().saturating_mul(STATE),
        HirKind::Class(Class::Bytes(class)) => STATE + class.ranges().len() * TRANSITION,
        HirKind::Class(Class::Unicode(class)) => {
            let sequences =
                class.ranges().iter().flat_map(|range| Utf8Sequences::new(range.start(), range.end()));
            2 * STATE + sequences.map(|sequence| TRANSITION + (sequence.len() - 1) * SHARED).sum::<usize>()
        }
        HirKind::Repetition(repetition) => {
            let copies = repetition.max.unwrap_or(repetition.min).max(1) as usize;
            size(&repetition.sub).saturating_add(2 * STATE).saturating_mul(copies).saturating_add(STATE)
        }
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(STATE, |sum, part| sum.saturating_add(size(part)).saturating_add(TRANSITION))
        }
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::nfa::thompson::{NFA, WhichCaptures};

    use super::*;

    /// Patterns as they occur in definitions, and those that are as large as possible.
    const PATTERNS: [&str; 24] = [
        "",
        "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
        "^([0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4}$",
        "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\\.){0,10}[a-z]{1,63}$",
        "^.{1,1000}$",
        "^(?i)[a-z_][a-z0-9_]{0,253}$",
        "(?i)selectfromwhere",
        "a|b|cd|efg|(h|i)*",
        "\\pL",
        "\\PL",
        "\\pL+",
        "\\pL{2,}",
        "(?i)\\pL",
        "\\pL{20}",
        "(\\pL?){20}",
        "\\pL{0,20}",
        "\\p{Greek}{100}",
        "[\\pL\\pN]{5}",
        "[^a]{100}",
        "\\W{100}",
        "é{100}",
        "(?s).{500}",
        "[α-ωa-z0-9]{1,100}",
    ];

    #[test]
    fn estimates_are_near_sizes() {
        for pattern in PATTERNS {
            let translated = syntax::translate(pattern).unwrap();
            let estimate = estimate(&translated).unwrap_or(usize::MAX);
            let config = NFA::config().which_captures(WhichCaptures::None);
            let size = NFA::compiler().configure(config).build(&translated.text).unwrap().memory_usage();
            assert!((size..=3 * size).contains(&estimate), "{pattern}: {size} bytes, estimated {estimate}");
        }
    }
}
