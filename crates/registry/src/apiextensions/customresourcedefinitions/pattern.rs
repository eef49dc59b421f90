//! Whether a regular expression can be one, in the words of the library that upstream compiles it with.
//!
//! Only the form is looked at. There are no look-arounds and no back-references; classes by Unicode name are
//! taken as they come.

/// Why an expression cannot be compiled, if so.
pub(super) fn complaint(expression: &str) -> Option<String> {
    Parser { whole: expression, rest: expression, depth: 0, can_repeat: false }.run().err()
}

type Checked = Result<(), String>;

struct Parser<'t> {
    whole: &'t str,
    rest: &'t str,
    depth: usize,
    /// Whether there is something to repeat.
    can_repeat: bool,
}

fn refuse<T>(what: &str, part: &str) -> Result<T, String> {
    Err(format!("{what}: `{part}`"))
}

impl<'t> Parser<'t> {
    fn run(&mut self) -> Checked {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => self.skip(1, false),
                '[' => self.class()?,
                '\\' => self.escape()?,
                '*' | '+' | '?' => self.repeat(1)?,
                '{' => match counts(self.rest) {
                    Some((length, fits)) => {
                        if !fits {
                            return refuse("invalid repeat count", &self.rest[..length]);
                        }
                        self.repeat(length)?;
                    }
                    None => self.skip(1, true),
                },
                c => self.skip(c.len_utf8(), true),
            }
        }
        if self.depth > 0 { refuse("missing closing )", self.whole) } else { Ok(()) }
    }

    fn skip(&mut self, bytes: usize, can_repeat: bool) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.can_repeat = can_repeat;
    }

    fn close(&mut self) -> Checked {
        if self.depth == 0 {
            return refuse("unexpected )", self.whole);
        }
        self.depth -= 1;
        self.skip(1, true);
        Ok(())
    }

    fn open(&mut self) -> Checked {
        let Some(after) = self.rest.strip_prefix("(?") else {
            self.depth += 1;
            self.skip(1, false);
            return Ok(());
        };
        if let Some(named) = after.strip_prefix("P<").or_else(|| after.strip_prefix('<')) {
            let what = "invalid named capture";
            let Some(end) = named.find('>') else { return refuse(what, self.rest) };
            let length = self.rest.len() - named.len() + end + 1;
            let name = &named[..end];
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return refuse(what, &self.rest[..length]);
            }
            self.depth += 1;
            self.skip(length, false);
            return Ok(());
        }
        self.flags(after)
    }

    /// `(?i)`, `(?i-s:`.
    fn flags(&mut self, after: &str) -> Checked {
        let (mut said, mut negated) = (false, false);
        for (i, c) in after.char_indices() {
            let length = 2 + i + c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' => said = true,
                '-' if !negated => (negated, said) = (true, false),
                ':' | ')' if said || !negated => {
                    // A lone `(?)` is refused as well.
                    if c == ')' && !said {
                        return refuse("missing argument to repetition operator", "?");
                    }
                    self.depth += usize::from(c == ':');
                    self.skip(length, false);
                    return Ok(());
                }
                _ => return refuse("invalid or unsupported Perl syntax", &self.rest[..length]),
            }
        }
        refuse("missing closing )", self.whole)
    }

    fn repeat(&mut self, length: usize) -> Checked {
        let operator = self.rest;
        if !self.can_repeat {
            return refuse("missing argument to repetition operator", &operator[..length]);
        }
        self.skip(length, false);
        if self.rest.starts_with('?') {
            self.skip(1, false);
        }
        let second = match self.rest.bytes().next() {
            Some(b'*' | b'+' | b'?') => Some(1),
            Some(b'{') => counts(self.rest).map(|(length, _)| length),
            _ => None,
        };
        if let Some(second) = second {
            let end = operator.len() - self.rest.len() + second;
            return refuse("invalid nested repetition operator", &operator[..end]);
        }
        Ok(())
    }

    fn escape(&mut self) -> Checked {
        if let Some(quoted) = self.rest.strip_prefix("\\Q") {
            let end = quoted.find("\\E").map_or(quoted.len(), |end| end + 2);
            self.skip(2 + end, true);
            return Ok(());
        }
        let length = escape_length(self.rest)?;
        self.skip(length, true);
        Ok(())
    }

    fn class(&mut self) -> Checked {
        let whole = self.rest;
        let mut rest = whole.strip_prefix("[^").unwrap_or(&whole[1..]);
        let mut first = true;
        while first || !rest.starts_with(']') {
            first = false;
            if let Some(end) = rest.strip_prefix("[:").and_then(|name| name.find(":]")) {
                rest = &rest[end + 4..];
                continue;
            }
            let range = rest;
            let low = member(&mut rest, whole)?;
            let Some(after) =
                rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'))
            else {
                continue;
            };
            rest = after;
            let high = member(&mut rest, whole)?;
            if !matches!((low, high), (Some(low), Some(high)) if low <= high) {
                let part = &range[..range.len() - rest.len()];
                return refuse("invalid character class range", part);
            }
        }
        self.skip(whole.len() - rest.len() + 1, true);
        Ok(())
    }
}

/// One member of a class: its character, unless it is a class itself.
fn member(rest: &mut &str, class: &str) -> Result<Option<char>, String> {
    let Some(c) = rest.chars().next() else { return refuse("missing closing ]", class) };
    let (length, found) = match c {
        '\\' => {
            let length = escape_length(rest)?;
            let named = rest[1..length].chars().next().filter(|c| !c.is_ascii_alphanumeric());
            (length, named)
        }
        c => (c.len_utf8(), Some(c)),
    };
    *rest = &rest[length..];
    Ok(found)
}

/// How long the escape at the beginning is.
fn escape_length(text: &str) -> Result<usize, String> {
    let Some(c) = text.chars().nth(1) else {
        return refuse("trailing backslash at end of expression", "");
    };
    let length = 1 + c.len_utf8();
    let refused = || refuse("invalid escape sequence", &text[..length]);
    let hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    match c {
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'b' | 'B' | 'A' | 'z' | 'a' | 'f' | 'n' | 'r' | 't' | 'v'
        | 'C' => Ok(length),
        '0'..='7' => {
            let more = text[length..].bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            if c != '0' && more == 0 { refused() } else { Ok(length + more) }
        }
        'p' | 'P' => match text[length..].strip_prefix('{').map(|name| name.find('}')) {
            Some(Some(end)) => Ok(length + end + 2),
            Some(None) => refuse("invalid character class range", text),
            None => Ok(length + text[length..].chars().next().map_or(0, char::len_utf8)),
        },
        'x' => match text[length..].strip_prefix('{') {
            Some(digits) => match digits.find('}') {
                Some(end) if end > 0 && hex(&digits[..end]) => Ok(length + end + 2),
                _ => refused(),
            },
            None => match text.get(length..length + 2).filter(|digits| hex(digits)) {
                Some(_) => Ok(length + 2),
                None => refused(),
            },
        },
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(length),
        _ => refused(),
    }
}

/// `{2}`, `{2,}`, `{2,5}`: how long it is and whether it can be counted so often. Anything else in braces is
/// text.
fn counts(text: &str) -> Option<(usize, bool)> {
    const MOST: u32 = 1000;
    let end = text.find('}')?;
    let (low, high) = match text.get(1..end)?.split_once(',') {
        Some((low, high)) => (low, high),
        None => (&text[1..end], &text[1..end]),
    };
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let low = number(low)?;
    let high = if high.is_empty() { low } else { number(high)? };
    Some((end + 1, low <= high && high <= MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_compiled() {
        let fine = [
            "",
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            "^(?:a|b)+?$",
            "(?i)a{2,5}|b{3}|c{1,}|{x}",
            "[]a-]|[^\\d\\-x]|[[:alpha:]_]|\\p{Greek}\\pL\\x41\\x{10FFFF}",
            "(?P<name>x)(?<other>y)",
            "\\Qa(b\\E\\.",
            "^*a",
            "[+-]?[0-9]+(\\.[0-9]{1,3})?",
        ];
        for expression in fine {
            assert_eq!(complaint(expression), None, "{expression}");
        }
        let table = [
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a|+", "missing argument to repetition operator: `+`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("\\y", "invalid escape sequence: `\\y`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ];
        for (expression, why) in table {
            assert_eq!(complaint(expression).as_deref(), Some(why), "{expression}");
        }
    }
}
