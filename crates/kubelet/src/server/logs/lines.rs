//! The lines of a CRI log, and the selection of those to show. Pure.
//!
//! ```text
//! 2016-10-06T00:17:09.669794202Z stdout P the beginning of a long line
//! 2016-10-06T00:17:09.669794203Z stdout F and its end
//! ```

use jiff::Timestamp;

use super::options::LogOptions;

/// A parsed line of a log file.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    time: Timestamp,
    /// The container's output, with a newline unless the line is partial.
    said: &'a [u8],
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    if !matches!(parts.next()?, b"stdout" | b"stderr") {
        return None;
    }
    let partial = parts.next()?.split(|byte| *byte == b':').next() == Some(b"P");
    let said = parts.next()?;
    let said = if partial { said.strip_suffix(b"\n").unwrap_or(said) } else { said };
    Some(Line { time, said })
}

/// Selects what is shown of lines.
pub(super) struct LineSelection {
    since: Option<Timestamp>,
    timestamps: bool,
    /// The number of bytes that may still be shown.
    left: u64,
    /// The number of lines that may still be shown.
    lines: u64,
    /// True if the next piece begins a line.
    begins: bool,
}

impl LineSelection {
    pub(super) fn new(options: &LogOptions) -> LineSelection {
        LineSelection {
            since: options.since,
            timestamps: options.timestamps,
            left: options.limit_bytes.unwrap_or(u64::MAX),
            // A client that follows also gets later lines.
            lines: options.tail_lines.filter(|_| !options.follow).unwrap_or(u64::MAX),
            begins: true,
        }
    }

    /// Returns true if nothing more is shown.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0 || self.lines == 0
    }

    /// Adds what is shown of a line. A line that is not in CRI format is not shown.
    pub(super) fn add(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(Line { time, said }) = parse(line) else { return };
        self.lines -= 1;
        let begins = std::mem::replace(&mut self.begins, said.last().is_none_or(|last| *last == b'\n'));
        if self.since.is_some_and(|since| time < since) {
            return;
        }
        if self.timestamps && begins {
            self.push(format!("{time:.9} ").as_bytes(), out);
        }
        self.push(said, out);
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        out.extend_from_slice(&bytes[..taken]);
        self.left -= taken as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "1970-01-01T00:00:01.5Z stdout F one\n\
                       1970-01-01T00:00:02.000000001Z stderr P two, \n\
                       1970-01-01T00:00:03Z stderr F three\n\
                       not a line\n\
                       1970-01-01T00:00:04Z stdout F \n";

    fn shown(options: &LogOptions) -> String {
        let mut shown = LineSelection::new(options);
        let mut out = Vec::new();
        for line in LOG.split_inclusive('\n') {
            if !shown.is_over() {
                shown.add(line.as_bytes(), &mut out);
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn options_select_lines() {
        let all = LogOptions::default();
        assert_eq!(shown(&all), "one\ntwo, three\n\n");
        let since = Some(Timestamp::from_second(3).unwrap());
        assert_eq!(shown(&LogOptions { since, ..all.clone() }), "three\n\n");
        assert_eq!(shown(&LogOptions { limit_bytes: Some(6), ..all.clone() }), "one\ntw");
        assert_eq!(shown(&LogOptions { tail_lines: Some(1), ..all.clone() }), "one\n");
        let followed = LogOptions { tail_lines: Some(1), follow: true, ..all.clone() };
        assert_eq!(shown(&followed), "one\ntwo, three\n\n");
        assert_eq!(
            shown(&LogOptions { timestamps: true, ..all }),
            "1970-01-01T00:00:01.500000000Z one\n1970-01-01T00:00:02.000000001Z two, three\n\
             1970-01-01T00:00:04.000000000Z \n"
        );
    }
}
