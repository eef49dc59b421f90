//! The difference of two texts, line by line, as `diff -u` writes it.
//!
//! Which lines are taken to be the same is decided the way Python's `difflib` does, as upstream's answers are:
//! the longest run of common lines first, then left and right of it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

/// Lines shown around a change.
const CONTEXT: usize = 3;
/// From this many lines on, those that are all over the place are not looked for.
const MANY_LINES: usize = 200;

/// A run of lines that is in both texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    a: usize,
    b: usize,
    length: usize,
}

/// Lines of one text that stand for lines of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    same: bool,
    a: Range<usize>,
    b: Range<usize>,
}

pub(crate) fn unified_diff(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut out = String::new();
    for group in groups(&changes(&a, &b)) {
        let whole = |range: fn(&Change) -> &Range<usize>| {
            let start = group.first().map_or(0, |change| range(change).start);
            start..group.last().map_or(start, |change| range(change).end)
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "@@ -{} +{} @@", numbers(&whole(|c| &c.a)), numbers(&whole(|c| &c.b)));
        for change in &group {
            let (old, new) = (lines(&a, &change.a), lines(&b, &change.b));
            if change.same {
                old.iter().for_each(|line| write_line(&mut out, ' ', line));
            } else {
                old.iter().for_each(|line| write_line(&mut out, '-', line));
                new.iter().for_each(|line| write_line(&mut out, '+', line));
            }
        }
    }
    out
}

fn lines<'t, 'l>(all: &'l [&'t str], range: &Range<usize>) -> &'l [&'t str] {
    all.get(range.clone()).unwrap_or_default()
}

fn write_line(out: &mut String, mark: char, line: &str) {
    out.push(mark);
    out.push_str(line);
    out.push('\n');
}

/// Where a run of lines is, and how many they are.
fn numbers(range: &Range<usize>) -> String {
    match range.len() {
        1 => (range.start + 1).to_string(),
        0 => format!("{},0", range.start),
        length => format!("{},{length}", range.start + 1),
    }
}

struct Matcher<'l> {
    a: &'l [&'l str],
    b: &'l [&'l str],
    /// Where each line is in the second text.
    places: HashMap<&'l str, Vec<usize>>,
}

impl<'l> Matcher<'l> {
    fn new(a: &'l [&'l str], b: &'l [&'l str]) -> Matcher<'l> {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (j, line) in b.iter().enumerate() {
            places.entry(line).or_default().push(j);
        }
        if b.len() >= MANY_LINES {
            places.retain(|_, places| places.len() <= b.len() / 100 + 1);
        }
        Matcher { a, b, places }
    }

    /// The longest run of lines in both parts, the first one of several.
    fn longest(&self, a: &Range<usize>, b: &Range<usize>) -> Block {
        let mut best = Block { a: a.start, b: b.start, length: 0 };
        let mut ending_at: HashMap<usize, usize> = HashMap::new();
        for i in a.clone() {
            let mut now = HashMap::new();
            let places = self.places.get(self.a[i]).map_or(&[][..], Vec::as_slice);
            for &j in places.iter().filter(|j| b.contains(j)) {
                let before = j.checked_sub(1).and_then(|j| ending_at.get(&j)).copied();
                let length = before.unwrap_or(0) + 1;
                now.insert(j, length);
                if length > best.length {
                    best = Block { a: i + 1 - length, b: j + 1 - length, length };
                }
            }
            ending_at = now;
        }
        self.extended(best, a, b)
    }

    /// A run with the lines around it that were not looked for.
    fn extended(&self, mut block: Block, a: &Range<usize>, b: &Range<usize>) -> Block {
        while block.a > a.start && block.b > b.start && self.a[block.a - 1] == self.b[block.b - 1] {
            block = Block { a: block.a - 1, b: block.b - 1, length: block.length + 1 };
        }
        while block.a + block.length < a.end
            && block.b + block.length < b.end
            && self.a[block.a + block.length] == self.b[block.b + block.length]
        {
            block.length += 1;
        }
        block
    }

    /// All runs, in order. There may be as many as lines, so what is left to do is not kept on the stack.
    fn blocks(&self) -> Vec<Block> {
        let (mut found, mut open) = (Vec::new(), vec![(0..self.a.len(), 0..self.b.len())]);
        while let Some((a, b)) = open.pop() {
            let block = self.longest(&a, &b);
            if block.length > 0 {
                open.push((a.start..block.a, b.start..block.b));
                open.push((block.a + block.length..a.end, block.b + block.length..b.end));
                found.push(block);
            }
        }
        found.sort_unstable_by_key(|block| block.a);
        found
    }
}

/// The whole of both texts, in runs that are the same and runs that are not.
fn changes(a: &[&str], b: &[&str]) -> Vec<Change> {
    let mut blocks = Matcher::new(a, b).blocks();
    blocks.push(Block { a: a.len(), b: b.len(), length: 0 });
    let mut changes: Vec<Change> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for block in blocks {
        if i < block.a || j < block.b {
            changes.push(Change { same: false, a: i..block.a, b: j..block.b });
        }
        (i, j) = (block.a + block.length, block.b + block.length);
        match changes.last_mut() {
            _ if block.length == 0 => {}
            Some(last) if last.same => (last.a.end, last.b.end) = (i, j),
            _ => changes.push(Change { same: true, a: block.a..i, b: block.b..j }),
        }
    }
    changes
}

/// Changes that are near each other, with some context.
fn groups(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut groups: Vec<Vec<Change>> = Vec::new();
    let mut group: Vec<Change> = Vec::new();
    let ends = changes.len().saturating_sub(1);
    for (i, change) in changes.iter().enumerate() {
        let (mut change, length) = (change.clone(), change.a.len());
        if change.same && i == 0 {
            skip_to_last(&mut change);
        } else if change.same && i == ends {
            keep_first(&mut change);
        } else if change.same && length > 2 * CONTEXT {
            let mut before = change.clone();
            keep_first(&mut before);
            group.push(before);
            groups.push(std::mem::take(&mut group));
            skip_to_last(&mut change);
        }
        group.push(change);
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|change| !change.same));
    groups
}

fn keep_first(change: &mut Change) {
    change.a.end = change.a.end.min(change.a.start + CONTEXT);
    change.b.end = change.b.end.min(change.b.start + CONTEXT);
}

fn skip_to_last(change: &mut Change) {
    change.a.start = change.a.start.max(change.a.end.saturating_sub(CONTEXT));
    change.b.start = change.b.start.max(change.b.end.saturating_sub(CONTEXT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_differs() {
        assert_eq!(unified_diff("a\nb", "a\nb"), "");
    }

    #[test]
    fn changes_have_some_lines_around_them() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12";
        assert_eq!(
            unified_diff(old, "1\n2\n3\n4\nx\n6\n7\n8\n9\n10\n11\n12"),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"
        );
        assert_eq!(
            unified_diff(old, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11"),
            "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -9,4 +10,3 @@\n 9\n 10\n 11\n-12\n"
        );
        assert_eq!(unified_diff("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
    }
}
