//! Differences between two texts, line by line, in the unified format.
//!
//! Upstream chooses the kept lines: the longest run of both texts, then the longest on either
//! side of it. The search takes time that grows with the cube of the texts: after a number of steps, the rest
//! counts as changed. The output is bounded to a readable size.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Maximum number of compared lines, after which the rest counts as changed.
const MAX_STEPS: usize = 1_000_000;
/// Maximum size of the output.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

/// A run of lines of both texts: its start in each, and its length.
type Run = (usize, usize, usize);

/// A range of both texts, and true if they agree there.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    same: bool,
    old: (usize, usize),
    new: (usize, usize),
}

pub(crate) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut out = String::new();
    for hunk in hunks(&stretches(&old, &new)) {
        if out.len() > MAX_SHOWN_BYTES {
            break;
        }
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let _ =
            writeln!(out, "@@ -{} +{} @@", range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        for stretch in &hunk {
            write_lines(&mut out, if stretch.same { ' ' } else { '-' }, &old, stretch.old);
            if !stretch.same {
                write_lines(&mut out, '+', &new, stretch.new);
            }
        }
    }
    out
}

fn write_lines(out: &mut String, mark: char, lines: &[&str], (from, to): (usize, usize)) {
    for line in lines.get(from..to).unwrap_or_default() {
        if out.len() > MAX_SHOWN_BYTES {
            return;
        }
        let _ = writeln!(out, "{mark}{line}");
    }
}

/// Lines are counted from one; an empty range names the line before it.
fn range(from: usize, to: usize) -> String {
    match to - from {
        0 => format!("{from},0"),
        1 => (from + 1).to_string(),
        length => format!("{},{length}", from + 1),
    }
}

/// Kept and changed stretches in turn.
fn stretches(old: &[&str], new: &[&str]) -> Vec<Stretch> {
    let mut runs = Matcher::new(old, new).runs();
    runs.push((old.len(), new.len(), 0));
    let (mut stretches, mut i, mut j) = (Vec::<Stretch>::new(), 0, 0);
    for (a, b, length) in runs {
        if i < a || j < b {
            stretches.push(Stretch { same: false, old: (i, a), new: (j, b) });
        }
        (i, j) = (a + length, b + length);
        // Runs that follow one another in both texts are one.
        match stretches.last_mut() {
            Some(last) if last.same => (last.old.1, last.new.1) = (i, j),
            _ if length > 0 => stretches.push(Stretch { same: true, old: (a, i), new: (b, j) }),
            _ => {}
        }
    }
    stretches
}

struct Matcher<'a> {
    old: &'a [&'a str],
    new: &'a [&'a str],
    /// The positions of a line in the new text, unless it is very frequent.
    positions: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Matcher<'a> {
    fn new(old: &'a [&'a str], new: &'a [&'a str]) -> Matcher<'a> {
        const LONG: usize = 200;
        let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, line) in new.iter().enumerate() {
            positions.entry(line).or_default().push(i);
        }
        if new.len() >= LONG {
            positions.retain(|_, places| places.len() <= new.len() / 100 + 1);
        }
        Matcher { old, new, positions }
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut open = vec![((0, self.old.len()), (0, self.new.len()))];
        let mut left = MAX_STEPS;
        while let Some((in_old, in_new)) = open.pop() {
            let Some((a, b, length)) = self.longest_run(in_old, in_new, &mut left) else { break };
            if length > 0 {
                runs.push((a, b, length));
                open.push(((in_old.0, a), (in_new.0, b)));
                open.push(((a + length, in_old.1), (b + length, in_new.1)));
            }
        }
        runs.sort_unstable();
        runs
    }

    /// Of equally long runs the one that starts first in the old text, then in the new one. `None` if no steps
    /// are left.
    fn longest_run(&self, in_old: (usize, usize), in_new: (usize, usize), left: &mut usize) -> Option<Run> {
        let (mut a, mut b, mut length) = (in_old.0, in_new.0, 0);
        // The length of a run that ends before a line of the new text.
        let mut ends: HashMap<usize, usize> = HashMap::new();
        for (i, line) in self.old.iter().enumerate().take(in_old.1).skip(in_old.0) {
            let mut next = HashMap::new();
            let places = self.positions.get(line).map_or(&[][..], Vec::as_slice);
            *left = left.checked_sub(1 + places.len())?;
            for j in places.iter().copied().filter(|j| (in_new.0..in_new.1).contains(j)) {
                let run = ends.get(&j).copied().unwrap_or(0) + 1;
                next.insert(j + 1, run);
                if run > length {
                    (a, b, length) = (i + 1 - run, j + 1 - run, run);
                }
            }
            ends = next;
        }
        // Frequent lines belong to the run beside them.
        while a > in_old.0 && b > in_new.0 && self.agree(a - 1, b - 1) {
            (a, b, length) = (a - 1, b - 1, length + 1);
        }
        while a + length < in_old.1 && b + length < in_new.1 && self.agree(a + length, b + length) {
            length += 1;
        }
        Some((a, b, length))
    }

    fn agree(&self, i: usize, j: usize) -> bool {
        self.old.get(i) == self.new.get(j)
    }
}

/// Changes that are close together, with the lines around them.
fn hunks(stretches: &[Stretch]) -> Vec<Vec<Stretch>> {
    let (mut hunks, mut hunk): (Vec<Vec<Stretch>>, Vec<Stretch>) = (Vec::new(), Vec::new());
    for (i, stretch) in stretches.iter().enumerate() {
        if !stretch.same {
            hunk.push(*stretch);
            continue;
        }
        let (head, tail) = (first_lines(*stretch), last_lines(*stretch));
        let length = stretch.old.1 - stretch.old.0;
        if i == 0 {
            hunk.push(tail);
        } else if i + 1 == stretches.len() {
            hunk.push(head);
        } else if length > 2 * CONTEXT {
            hunk.push(head);
            hunks.push(std::mem::replace(&mut hunk, vec![tail]));
        } else {
            hunk.push(*stretch);
        }
    }
    if hunk.iter().any(|stretch| !stretch.same) {
        hunks.push(hunk);
    }
    hunks
}

fn first_lines(stretch: Stretch) -> Stretch {
    let end = |(from, to): (usize, usize)| (from, to.min(from + CONTEXT));
    Stretch { old: end(stretch.old), new: end(stretch.new), ..stretch }
}

fn last_lines(stretch: Stretch) -> Stretch {
    let start = |(from, to): (usize, usize)| (from.max(to.saturating_sub(CONTEXT)), to);
    Stretch { old: start(stretch.old), new: start(stretch.new), ..stretch }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_changes_comes_with_its_surroundings() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12";
        assert_eq!(unified(old, old), "");
        assert_eq!(
            unified(old, &old.replace("5\n", "x\n")),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"
        );
        let twice = unified(old, &old.replace("2\n3", "2\ny\n3").replace("\n12", ""));
        assert_eq!(twice, "@@ -1,5 +1,6 @@\n 1\n 2\n+y\n 3\n 4\n 5\n@@ -9,4 +10,3 @@\n 9\n 10\n 11\n-12\n");
    }
}
