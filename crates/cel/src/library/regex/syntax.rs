//! Go's regular expression syntax, translated into that of the `regex` crate.
//!
//! The translation accepts exactly what Go's parser accepts and reports its errors. Flags are resolved here:
//! every atom of the result carries its own (`(?i:a)`), so the result has no flag directives, no captures and
//! only escaped literals. *Invariant:* the last atom of `out` is the one that a repetition applies to.
//!
//! Not reproduced: Go accepts groups nested up to 1000 deep, this parser `MAX_DEPTH`; the sizes that Go
//! allows, those that `budget` allows are smaller.

use super::classes;

/// Nested groups; the compiler behind this one is recursive.
const MAX_DEPTH: usize = 250;
/// The largest repeat count, and the largest product of nested ones.
const MAX_REPEAT: u32 = 1000;
/// The weight of a Unicode group, without and with its characters of the other case.
const GROUP: usize = 1 << 10;
const FOLDED_GROUP: usize = 8 << 10;
/// Characters in a class whose other case is found in the time that a byte takes.
const CHARACTERS_PER_BYTE: usize = 4;
/// Matches no character.
pub(super) const NEVER: &str = r"[^\x{0}-\x{10FFFF}]";

/// Flags of an expression at one position.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    non_greedy: bool,
}

/// An open group; the first one is the whole expression.
struct Group {
    /// Restored when the group ends.
    flags: Flags,
    /// True if a repetition has an argument.
    has_atom: bool,
    /// The largest product of nested repeat counts in this group before the last atom, and in the last atom.
    weight_before: u32,
    weight: u32,
}

struct Translator<'p> {
    whole: &'p str,
    flags: Flags,
    groups: Vec<Group>,
    out: String,
    weight: usize,
}

/// A translated pattern.
pub(super) struct Translated {
    pub(super) text: String,
    /// The least cost of parsing the classes of the result, in bytes of a compiled program that takes as long.
    pub(super) weight: usize,
}

/// Translates a pattern. The error is Go's.
pub(super) fn translate(pattern: &str) -> Result<Translated, String> {
    let mut translator = Translator {
        whole: pattern,
        flags: Flags::default(),
        groups: vec![Group::new(Flags::default())],
        out: String::with_capacity(pattern.len() + 16),
        weight: 0,
    };
    let mut rest = pattern;
    // The text from the previous repetition operator on, if that is what was just parsed.
    let mut last_repeat = None;
    while !rest.is_empty() {
        let before = rest;
        let repeats;
        (rest, repeats) = translator.step(rest, last_repeat)?;
        last_repeat = repeats.then_some(before);
    }
    if translator.groups.len() > 1 {
        return Err(error("missing closing )", pattern));
    }
    Ok(Translated { text: translator.out, weight: translator.weight })
}

/// An error in Go's words.
pub(super) fn error(code: &str, expression: &str) -> String {
    format!("error parsing regexp: {code}: `{expression}`")
}

/// The part of `text` before its suffix `rest`.
pub(super) fn consumed<'t>(text: &'t str, rest: &str) -> &'t str {
    &text[..text.len() - rest.len()]
}

/// Appends a character that stands for itself.
pub(super) fn push_literal(out: &mut String, code: u32) {
    match char::from_u32(code) {
        Some(c) if c.is_ascii_alphanumeric() || !c.is_ascii() => out.push(c),
        Some(_) => out.push_str(&format!(r"\x{{{code:X}}}")),
        None => out.push_str(NEVER),
    }
}

impl Group {
    fn new(flags: Flags) -> Group {
        Group { flags, has_atom: false, weight_before: 1, weight: 1 }
    }

    fn push_atom(&mut self, weight: u32) {
        self.has_atom = true;
        self.weight_before = self.weight_before.max(self.weight);
        self.weight = weight;
    }
}

impl<'p> Translator<'p> {
    /// Translates what `text` begins with. Returns the rest, and whether it was a repetition operator.
    fn step(&mut self, text: &'p str, last_repeat: Option<&'p str>) -> Result<(&'p str, bool), String> {
        let Some(first) = text.chars().next() else { return Ok((text, false)) };
        let rest = &text[first.len_utf8()..];
        match first {
            '(' if rest.starts_with('?') => return Ok((self.group_with_flags(text)?, false)),
            '(' => self.open(self.flags)?,
            '|' => self.alternative(),
            ')' => self.close()?,
            '^' => self.atom(if self.flags.multi_line { "(?m:^)" } else { r"\A" }),
            '$' => self.atom(if self.flags.multi_line { "(?m:$)" } else { r"\z" }),
            '.' => self.atom(if self.flags.dot_newline { "(?s:.)" } else { "." }),
            '[' => {
                let (class, width, rest) = classes::parse(text)?;
                if self.flags.fold_case {
                    self.weight = self.weight.saturating_add(width / CHARACTERS_PER_BYTE);
                }
                self.folded(&class);
                return Ok((rest, false));
            }
            '*' | '+' | '?' => return Ok((self.repeat(text, rest, None, last_repeat)?, true)),
            '{' => {
                if let Some((min, max, rest)) = counts(text) {
                    return Ok((self.repeat(text, rest, Some((min, max)), last_repeat)?, true));
                }
                self.literal('{'.into());
            }
            '\\' => return Ok((self.escape(text)?, false)),
            c => self.literal(c.into()),
        }
        Ok((rest, false))
    }

    fn group(&mut self) -> Option<&mut Group> {
        self.groups.last_mut()
    }

    fn atom(&mut self, text: &str) {
        self.out.push_str(text);
        if let Some(group) = self.group() {
            group.push_atom(1);
        }
    }

    /// An atom that the case flag concerns.
    fn folded(&mut self, text: &str) {
        let groups = text.matches(r"\p").count() + text.matches(r"\P").count();
        let each = if self.flags.fold_case { FOLDED_GROUP } else { GROUP };
        self.weight = self.weight.saturating_add(groups * each);
        if self.flags.fold_case {
            self.atom(&format!("(?i:{text})"));
        } else {
            self.atom(text);
        }
    }

    fn literal(&mut self, code: u32) {
        let mut text = String::new();
        push_literal(&mut text, code);
        let has_case = char::from_u32(code).is_some_and(char::is_alphabetic);
        if has_case { self.folded(&text) } else { self.atom(&text) }
    }

    fn open(&mut self, flags: Flags) -> Result<(), String> {
        if self.groups.len() > MAX_DEPTH {
            return Err(error("expression nests too deeply", self.whole));
        }
        self.out.push_str("(?:");
        self.groups.push(Group::new(self.flags));
        self.flags = flags;
        Ok(())
    }

    fn alternative(&mut self) {
        self.out.push('|');
        if let Some(group) = self.group() {
            group.push_atom(1);
            group.has_atom = false;
        }
    }

    fn close(&mut self) -> Result<(), String> {
        if self.groups.len() < 2 {
            return Err(error("unexpected )", self.whole));
        }
        let Some(closed) = self.groups.pop() else { return Ok(()) };
        self.flags = closed.flags;
        self.out.push(')');
        if let Some(group) = self.group() {
            group.push_atom(closed.weight.max(closed.weight_before));
        }
        Ok(())
    }

    /// A repetition operator at the start of `before`; `after` follows it.
    fn repeat(
        &mut self,
        before: &'p str,
        after: &'p str,
        counts: Option<(Option<u32>, Option<u32>)>,
        last_repeat: Option<&'p str>,
    ) -> Result<&'p str, String> {
        if let Some((min, max)) = counts {
            let valid = min.is_some_and(|min| {
                min <= MAX_REPEAT && max.is_none_or(|max| min <= max && max <= MAX_REPEAT)
            });
            if !valid {
                return Err(error("invalid repeat count", consumed(before, after)));
            }
        }
        let (lazy, rest) = match after.strip_prefix('?') {
            Some(rest) => (!self.flags.non_greedy, rest),
            None => (self.flags.non_greedy, after),
        };
        if let Some(last) = last_repeat {
            return Err(error("invalid nested repetition operator", consumed(last, rest)));
        }
        let operator = consumed(before, after);
        let whole_operator = consumed(before, rest);
        let Some(group) = self.groups.last_mut().filter(|group| group.has_atom) else {
            return Err(error("missing argument to repetition operator", whole_operator));
        };
        if let Some((min, max)) = counts {
            let (min, times) = (min.unwrap_or(0), max.unwrap_or(min.unwrap_or(0)));
            group.weight = match max {
                Some(0) => 1,
                _ => group.weight.saturating_mul(times.max(1)),
            };
            if (min >= 2 || max.is_some_and(|max| max >= 2)) && group.weight > MAX_REPEAT {
                return Err(error("invalid repeat count", whole_operator));
            }
        }
        self.out.push_str(operator);
        if lazy {
            self.out.push('?');
        }
        Ok(rest)
    }

    /// `(?…`: a named group, a group with flags, or flags alone.
    fn group_with_flags(&mut self, text: &'p str) -> Result<&'p str, String> {
        let name_at = match text {
            _ if text.len() > 4 && text.starts_with("(?P<") => Some(4),
            _ if text.len() > 3 && text.starts_with("(?<") => Some(3),
            _ => None,
        };
        if let Some(name_at) = name_at {
            let end = text.find('>').ok_or_else(|| error("invalid named capture", text))?;
            let name = text.get(name_at..end).unwrap_or_default();
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(error("invalid named capture", &text[..=end]));
            }
            self.open(self.flags)?;
            return Ok(&text[end + 1..]);
        }
        let (flags, opens, rest) = parse_flags(text, self.flags)?;
        if opens {
            self.open(flags)?;
        } else {
            self.flags = flags;
        }
        Ok(rest)
    }

    /// A backslash and what it escapes.
    fn escape(&mut self, text: &'p str) -> Result<&'p str, String> {
        let assertion = match text.as_bytes().get(1) {
            Some(b'A') => Some(r"\A"),
            Some(b'b') => Some(r"(?-u:\b)"),
            Some(b'B') => Some(r"(?-u:\B)"),
            Some(b'z') => Some(r"\z"),
            Some(b'C') => return Err(error("invalid escape sequence", r"\C")),
            Some(b'Q') => {
                let (quoted, rest) = text[2..].split_once(r"\E").unwrap_or((&text[2..], ""));
                quoted.chars().for_each(|c| self.literal(c.into()));
                return Ok(rest);
            }
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.atom(assertion);
            return Ok(&text[2..]);
        }
        if let Some((class, rest)) = classes::escaped(text)? {
            self.folded(&format!("[{class}]"));
            return Ok(rest);
        }
        let (code, rest) = classes::escaped_character(text)?;
        self.literal(code);
        Ok(rest)
    }
}

/// The flags of `(?flags)` or `(?flags:`, whether a group opens, and the rest.
fn parse_flags(text: &str, before: Flags) -> Result<(Flags, bool, &str), String> {
    let (mut flags, mut negated, mut saw_flag) = (before, false, false);
    let mut chars = text[2..].chars();
    for c in chars.by_ref() {
        let flag = match c {
            'i' => &mut flags.fold_case,
            'm' => &mut flags.multi_line,
            's' => &mut flags.dot_newline,
            'U' => &mut flags.non_greedy,
            '-' if !negated => {
                (negated, saw_flag) = (true, false);
                continue;
            }
            ':' | ')' if !negated || saw_flag => return Ok((flags, c == ':', chars.as_str())),
            _ => break,
        };
        *flag = !negated;
        saw_flag = true;
    }
    Err(error("invalid or unsupported Perl syntax", consumed(text, chars.as_str())))
}

/// `{min}`, `{min,}` or `{min,max}` and the rest; nothing if `{` stands for itself. A minimum that is absent is too
/// large a number, a maximum that is absent is no limit.
fn counts(text: &str) -> Option<(Option<u32>, Option<u32>, &str)> {
    let (min, rest) = number(&text[1..])?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, min, rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, None, rest));
    }
    let (max, rest) = number(rest)?;
    Some((max.and(min), max, rest.strip_prefix('}')?))
}

/// A decimal number without leading zeros, nothing in its place if it is too large.
fn number(text: &str) -> Option<(Option<u32>, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = consumed(text, rest);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok(), rest))
}
