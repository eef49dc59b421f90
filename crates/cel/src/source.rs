//! The text of an expression, positions in it, and the errors of a compilation with their texts.
//!
//! Positions count code points. Texts of errors are upstream's: the message, the line and a mark below it.

use std::fmt;

/// The most errors that are reported.
const MAX_ISSUES: usize = 100;
/// The longest line that an error shows, in bytes.
const MAX_SNIPPET: usize = 16384;

/// The text of an expression by lines.
#[derive(Clone, Debug)]
pub struct Source<'t> {
    text: &'t str,
    /// Code points before each line but the first.
    lines: Vec<u32>,
}

/// A line, from 1, and a column, from 0. Errors without a place have column and line -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub line: i64,
    pub column: i64,
}

impl Location {
    pub const NONE: Location = Location { line: -1, column: -1 };
}

impl<'t> Source<'t> {
    pub fn new(text: &'t str) -> Source<'t> {
        let lines =
            text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at as u32 + 1).collect();
        Source { text, lines }
    }

    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The place of a code point.
    pub fn location(&self, offset: u32) -> Location {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).map_or(0, |before| self.lines[before]);
        Location { line: line as i64 + 1, column: i64::from(offset - start) }
    }

    fn line(&self, line: i64) -> Option<&'t str> {
        let index = usize::try_from(line - 1).ok()?;
        (!self.text.is_empty()).then(|| self.text.split('\n').nth(index)).flatten()
    }
}

/// An error of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub location: Location,
    pub message: String,
}

/// The errors of a compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issues {
    issues: Vec<Issue>,
    total: usize,
    text: String,
}

impl Issues {
    pub fn report(&mut self, location: Location, message: impl Into<String>) {
        self.total += 1;
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(Issue { location, message: message.into() });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter()
    }

    /// Sorts by place and formats the text.
    pub(crate) fn finish(mut self, source: &Source<'_>) -> Issues {
        self.issues.sort_by_key(|issue| issue.location);
        let mut parts: Vec<String> = self.issues.iter().map(|issue| display(issue, source)).collect();
        if self.total > MAX_ISSUES {
            parts.push(format!("{} more errors were truncated", self.total - MAX_ISSUES));
        }
        self.text = parts.join("\n");
        self
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Issues {}

fn display(issue: &Issue, source: &Source<'_>) -> String {
    let Location { line, column } = issue.location;
    let mut text = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
    let Some(snippet) = source.line(line).filter(|snippet| snippet.len() <= MAX_SNIPPET) else { return text };
    let snippet = snippet.replace('\t', " ");
    let mut mark = String::new();
    let mut rest = snippet.chars();
    for _ in 0..column {
        match rest.next() {
            Some(c) => mark.push(if c.is_ascii() { '.' } else { '．' }),
            None => break,
        }
    }
    mark.push(if rest.next().is_none_or(|c| c.is_ascii()) { '^' } else { '＾' });
    text.push_str("\n | ");
    text.push_str(&snippet);
    text.push_str("\n | ");
    text.push_str(&mark);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, offset: u32, expected: &str) {
        let source = Source::new(text);
        let mut issues = Issues::default();
        issues.report(source.location(offset), "wrong");
        assert_eq!(issues.finish(&source).to_string(), expected, "{text:?}");
    }

    #[test]
    fn errors_show_the_line() {
        check("a + b", 4, "ERROR: <input>:1:5: wrong\n | a + b\n | ....^");
        check("a\n\t+ b\nc", 3, "ERROR: <input>:2:2: wrong\n |  + b\n | .^");
        check("'é' + b", 6, "ERROR: <input>:1:7: wrong\n | 'é' + b\n | .．....^");
        check("é", 0, "ERROR: <input>:1:1: wrong\n | é\n | ＾");
        check("a", 1, "ERROR: <input>:1:2: wrong\n | a\n | .^");
    }
}
