//! Compiled patterns, and the memory of their searches.
//!
//! A search needs a cache: the states of automata that are built while a text is read, or the positions that were visited.
//! It grows far beyond the size of the program, which is all that a budget counts. So a pattern has no caches of its own:
//! each thread keeps those that it used last, within fixed bounds, whatever the number of patterns.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use regex_automata::Input;
use regex_automata::meta::{self, Cache};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::iter::Searcher;
use regex_automata::util::syntax::Config as SyntaxConfig;

use super::budget::{Budget, TOO_LARGE};
use super::{NEST_LIMIT, syntax};

/// Bytes of a compiled program. The estimate of its size keeps patterns far below it.
const SIZE_LIMIT: usize = 8 << 20;
/// Bytes of the states that a search may cache.
const CACHE_LIMIT: usize = 1 << 20;

/// The caches that a thread keeps: each at most this large, and all together.
const KEPT_CACHE_BYTES: usize = 64 << 10;
const KEPT_BYTES: usize = 512 << 10;
const KEPT_CACHES: usize = 64;

/// A pattern that finds matches in texts of any length.
#[derive(Debug)]
pub struct Pattern {
    regex: meta::Regex,
    /// Differs from that of every other pattern.
    id: u64,
}

/// A pattern for many short texts, of which there are thousands in memory. It has none of the automata that make a
/// [`Pattern`] fast for long texts; it takes linear time nevertheless.
#[derive(Debug)]
pub struct CompactPattern(Pattern);

impl Pattern {
    /// Compiles a pattern that was translated to the syntax of the `regex` crate.
    pub(super) fn build(pattern: &str, translated: &str) -> Result<Pattern, String> {
        let config =
            meta::Config::new().which_captures(WhichCaptures::Implicit).hybrid_cache_capacity(CACHE_LIMIT);
        Pattern::with_config(pattern, translated, config)
    }

    fn with_config(pattern: &str, translated: &str, config: meta::Config) -> Result<Pattern, String> {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let regex = meta::Regex::builder()
            // Complete automata may take many times as much as the program.
            .configure(
                config.nfa_size_limit(Some(SIZE_LIMIT)).dfa(false).which_captures(WhichCaptures::Implicit),
            )
            .syntax(SyntaxConfig::new().nest_limit(NEST_LIMIT))
            .build(translated)
            .map_err(|_| syntax::error(TOO_LARGE, pattern))?;
        Ok(Pattern { regex, id: LAST_ID.fetch_add(1, Ordering::Relaxed) })
    }

    pub fn is_match(&self, text: &str) -> bool {
        let input = Input::new(text).earliest(true);
        self.with_cache(|cache| self.regex.search_half_with(cache, &input).is_some())
    }

    /// The first match.
    pub(crate) fn find(&self, text: &str) -> Option<Range<usize>> {
        let input = Input::new(text);
        self.with_cache(|cache| self.regex.search_with(cache, &input).map(|found| found.range()))
    }

    /// Calls `visit` with each match, until that returns an error or false.
    pub(crate) fn find_each<E>(
        &self,
        text: &str,
        mut visit: impl FnMut(Range<usize>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut searcher = Searcher::new(Input::new(text));
        self.with_cache(|cache| {
            while let Some(found) = searcher.advance(|input| Ok(self.regex.search_with(cache, input))) {
                if !visit(found.range())? {
                    break;
                }
            }
            Ok(())
        })
    }

    fn with_cache<T>(&self, search: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = CACHES
            .with_borrow_mut(|kept| kept.take(self.id))
            .unwrap_or_else(|| Box::new(self.regex.create_cache()));
        let outcome = search(&mut cache);
        CACHES.with_borrow_mut(|kept| kept.put(self.id, cache));
        outcome
    }
}

impl CompactPattern {
    /// Compiles a pattern within a budget, or shares the compiled one of another schema: most schemas have the same few
    /// patterns, of names and quantities. The error is that of Go's parser.
    pub fn compile(pattern: &str, budget: &Budget) -> Result<Arc<CompactPattern>, String> {
        let translated = budget.translate(pattern).map_err(|refused| refused.why)?;
        if let Some(shared) = SHARED.lock().ok().and_then(|shared| shared.get(pattern)?.upgrade()) {
            return Ok(shared);
        }
        let config = meta::Config::new().hybrid(false);
        let compiled = Arc::new(CompactPattern(Pattern::with_config(pattern, &translated, config)?));
        if let Ok(mut shared) = SHARED.lock() {
            if shared.len() == shared.capacity() {
                shared.retain(|_, compiled| compiled.strong_count() > 0);
                shared.shrink_to(64);
                let more = shared.len();
                shared.reserve(more.max(64));
            }
            shared.insert(pattern.into(), Arc::downgrade(&compiled));
        }
        Ok(compiled)
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The compact patterns in use, by their text.
static SHARED: LazyLock<Mutex<HashMap<Box<str>, Weak<CompactPattern>>>> = LazyLock::new(Mutex::default);

thread_local! {
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches { kept: Vec::new(), bytes: 0 }) };
}

/// The caches of the patterns that a thread used last.
struct Caches {
    /// The last used is the last.
    kept: Vec<Kept>,
    bytes: usize,
}

struct Kept {
    id: u64,
    cache: Box<Cache>,
    bytes: usize,
}

impl Caches {
    fn take(&mut self, id: u64) -> Option<Box<Cache>> {
        let at = self.kept.iter().rposition(|kept| kept.id == id)?;
        let kept = self.kept.remove(at);
        self.bytes -= kept.bytes;
        Some(kept.cache)
    }

    fn put(&mut self, id: u64, cache: Box<Cache>) {
        let bytes = cache.memory_usage() + size_of::<Cache>();
        if bytes > KEPT_CACHE_BYTES {
            return;
        }
        self.kept.push(Kept { id, cache, bytes });
        self.bytes += bytes;
        while self.bytes > KEPT_BYTES || self.kept.len() > KEPT_CACHES {
            self.bytes -= self.kept.remove(0).bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_searches_are_bounded_whatever_the_number_of_patterns() {
        // Each has more than a thousand states, so that its caches grow with the text.
        let text = "abcdefghij".repeat(200);
        for i in 0..20 {
            let pattern = format!("(a|b|[c-j]){{200}}(x{i}|y)");
            let compiled = Pattern::build(&pattern, &pattern).unwrap();
            assert!(!compiled.is_match(&text));
            let budget = Budget::new(Budget::SCHEMA);
            assert!(!CompactPattern::compile(&pattern, &budget).unwrap().is_match(&text));
        }
        for i in 0..200 {
            let pattern = format!("^[a-j]*{i}$");
            assert!(!Pattern::build(&pattern, &pattern).unwrap().is_match(&text));
        }
        CACHES.with_borrow(|caches| {
            let bytes: usize = caches.kept.iter().map(|kept| kept.bytes).sum();
            assert_eq!(caches.bytes, bytes);
            assert!(bytes <= KEPT_BYTES && caches.kept.len() <= KEPT_CACHES && !caches.kept.is_empty());
            assert!(caches.kept.iter().all(|kept| kept.bytes <= KEPT_CACHE_BYTES));
        });
    }

    #[test]
    fn equal_patterns_are_compiled_once_and_count_in_each_budget() {
        let (first, second) = (Budget::new(Budget::SCHEMA), Budget::new(Budget::SCHEMA));
        let compile = |budget: &Budget| CompactPattern::compile("^shared[0-9]+$", budget).unwrap();
        let (a, b) = (compile(&first), compile(&second));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(first.left(), second.left());
        drop((a, b));
        for i in 0..1_000 {
            CompactPattern::compile(&format!("^dropped{i}$"), &Budget::new(Budget::SCHEMA)).unwrap();
        }
        let held = SHARED.lock().unwrap().len();
        assert!(held < 600, "patterns that are no longer in use leave nothing behind: {held}");
    }

    #[test]
    fn a_pattern_finds_the_same_with_and_without_a_kept_cache() {
        let pattern = Pattern::build("a*", "a*").unwrap();
        for _ in 0..2 {
            let mut found = Vec::new();
            let visit = |range: Range<usize>| -> Result<bool, ()> {
                found.push(range);
                Ok(true)
            };
            pattern.find_each("baaé", visit).unwrap();
            assert_eq!(found, [0..0, 1..3, 5..5]);
            assert_eq!(pattern.find("baa"), Some(0..0));
        }
    }
}
