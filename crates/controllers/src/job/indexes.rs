//! Sets of completion indexes, stored and encoded as intervals: `1,3-5,7`.

use std::fmt;

/// Intervals in order, with a gap between any two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Parses the indexes below a limit. Invalid intervals are left out.
    pub(super) fn parse(text: &str, below: i64) -> Indexes {
        let interval = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first < below).then_some((first, i64::min(last, below - 1)))
        };
        Indexes::joined(text.split(',').filter_map(interval).collect())
    }

    fn joined(mut intervals: Vec<(i64, i64)>) -> Indexes {
        intervals.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(intervals.len());
        for (first, last) in intervals {
            match joined.last_mut() {
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Indexes(joined)
    }

    pub(super) fn union(&self, other: &Indexes) -> Indexes {
        Indexes::joined(self.0.iter().chain(&other.0).copied().collect())
    }

    pub(super) fn contains(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// The number of indexes.
    pub(super) fn count(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of indexes in both sets.
    pub(super) fn shared_with(&self, other: &Indexes) -> i64 {
        let (mut ours, mut theirs, mut count) = (self.0.iter().peekable(), other.0.iter().peekable(), 0);
        while let (Some(&&(a_first, a_last)), Some(&&(b_first, b_last))) = (ours.peek(), theirs.peek()) {
            count += (a_last.min(b_last) - a_first.max(b_first) + 1).max(0);
            if a_last < b_last {
                ours.next();
            } else {
                theirs.next();
            }
        }
        count
    }

    /// The indexes below a limit that are not in the set, lowest first.
    pub(super) fn missing(&self, below: i64) -> impl Iterator<Item = i64> {
        let starts = std::iter::once(0).chain(self.0.iter().map(|(_, last)| last + 1));
        let ends = self.0.iter().map(move |(first, _)| *first.min(&below)).chain(std::iter::once(below));
        starts.zip(ends).flat_map(|(start, end)| start..end)
    }
}

impl FromIterator<i64> for Indexes {
    fn from_iter<I: IntoIterator<Item = i64>>(indexes: I) -> Indexes {
        Indexes::joined(indexes.into_iter().map(|index| (index, index)).collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                // Two neighbours are no shorter as an interval.
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read_and_written() {
        for (text, below, written) in [
            ("", 5, ""),
            ("2", 5, "2"),
            ("2-3,5-9", 20, "2,3,5-9"),
            ("0,1,2", 20, "0-2"),
            ("2-2,4", 20, "2,4"),
            ("2,4-8,10", 6, "2,4,5"),
            ("2,4-8,10", 4, "2"),
            ("0,foo,2,3-bar,5", 9, "0,2,5"),
        ] {
            assert_eq!(Indexes::parse(text, below).to_string(), written, "{text} below {below}");
        }
    }

    #[test]
    fn indexes_are_joined() {
        for (one, other, both) in [
            ("", "3,1", "1,3"),
            ("0-3", "4", "0-4"),
            ("1-3,7", "4-5", "1-5,7"),
            ("0,9-12", "2,5,10,13", "0,2,5,9-13"),
            ("2-4,6-8", "3-7", "2-8"),
        ] {
            let joined = Indexes::parse(one, 99).union(&Indexes::parse(other, 99));
            assert_eq!(joined.to_string(), both, "{one} and {other}");
        }
        assert_eq!([3, 1, 2, 7].into_iter().collect::<Indexes>().to_string(), "1-3,7");
    }

    #[test]
    fn indexes_are_counted_and_found() {
        let indexes = Indexes::parse("1,3-5,7", 9);
        assert_eq!(indexes.count(), 5);
        let found: Vec<i64> = (0..9).filter(|index| indexes.contains(*index)).collect();
        assert_eq!(found, [1, 3, 4, 5, 7]);
        assert_eq!(indexes.missing(9).collect::<Vec<_>>(), [0, 2, 6, 8]);
        assert_eq!(indexes.missing(4).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(Indexes::default().missing(2).collect::<Vec<_>>(), [0, 1]);
        for (other, shared) in [("", 0), ("0,2", 0), ("4-9", 3), ("1-8", 5), ("0,1,5-7", 3)] {
            assert_eq!(indexes.shared_with(&Indexes::parse(other, 99)), shared, "{other}");
        }
    }
}
