//! Patterns that Go accepts, the errors of those it does not, and matches.

use super::{compile_checked, find, find_all};
use crate::value::Value;

/// Patterns and Go's errors; no error if Go accepts the pattern.
const PATTERNS: &[(&str, &str)] = &[
    (r"\p{Old_Italic}", r"invalid character class range: `\p{Old_Italic}`"),
    (r"\p{OldItalic}", r"invalid character class range: `\p{OldItalic}`"),
    (r"\p{SignWriting}", r"invalid character class range: `\p{SignWriting}`"),
    (r"\p{greek}", ""),
    (r"\p{letter}", ""),
    (r"\p{LC}", ""),
    (r"\p{Any}", ""),
    (r"\p{assigned}", ""),
    (r"\p{ascii}", ""),
    (r"\p{Uppercase_Letter}", ""),
    (r"\pL", ""),
    (r"\pX", r"invalid character class range: `\pX`"),
    (r"\p{^L}", ""),
    (r"\p", r"invalid character class range: `\p`"),
    (r"\p{", r"invalid character class range: `\p{`"),
    (r"(?P<n>a)(?P<n>b)", ""),
    (r"(?<n>a)", ""),
    (r"(?P<>a)", r"invalid named capture: `(?P<>`"),
    (r"(?P<n", r"invalid named capture: `(?P<n`"),
    (r"(?P=n)", r"invalid or unsupported Perl syntax: `(?P`"),
    (r"(?=a)", r"invalid or unsupported Perl syntax: `(?=`"),
    (r"(?<!a)", r"invalid named capture: `(?<!a)`"),
    (r"(?<=a)", r"invalid named capture: `(?<=a)`"),
    (r"(?i)", ""),
    (r"(?)", ""),
    (r"(?-)", r"invalid or unsupported Perl syntax: `(?-)`"),
    (r"(?i-)", r"invalid or unsupported Perl syntax: `(?i-)`"),
    (r"(?i-s:a)", ""),
    (r"(?x)", r"invalid or unsupported Perl syntax: `(?x`"),
    (r"(?i", r"invalid or unsupported Perl syntax: `(?i`"),
    (r"(?", r"invalid or unsupported Perl syntax: `(?`"),
    (r"(", r"missing closing ): `(`"),
    (r"a)", r"unexpected ): `a)`"),
    (r"(a", r"missing closing ): `(a`"),
    (r"*a", r"missing argument to repetition operator: `*`"),
    (r"a**", r"invalid nested repetition operator: `**`"),
    (r"a*+", r"invalid nested repetition operator: `*+`"),
    (r"a*?", ""),
    (r"a*??", r"invalid nested repetition operator: `*??`"),
    (r"a{2}{3}", r"invalid nested repetition operator: `{2}{3}`"),
    (r"a{1001}", r"invalid repeat count: `{1001}`"),
    (r"(a{100}){11}", r"invalid repeat count: `{11}`"),
    (r"a{,2}", ""),
    (r"a{2", ""),
    (r"a{2,1}", r"invalid repeat count: `{2,1}`"),
    (r"a{99999999999}", r"invalid repeat count: `{99999999999}`"),
    (r"[a", r"missing closing ]: `[a`"),
    (r"[]", r"missing closing ]: `[]`"),
    (r"[]a]", ""),
    (r"[z-a]", r"invalid character class range: `z-a`"),
    (r"[a-\d]", r"invalid escape sequence: `\d`"),
    (r"[\d-z]", ""),
    (r"[[:alpha:]]", ""),
    (r"[[:foo:]]", r"invalid character class range: `[:foo:]`"),
    (r"[[:alpha]", ""),
    (r"\C", r"invalid escape sequence: `\C`"),
    (r"\8", r"invalid escape sequence: `\8`"),
    (r"\1", r"invalid escape sequence: `\1`"),
    (r"\12", ""),
    (r"\x", r"invalid escape sequence: `\x`"),
    (r"\x1", r"invalid escape sequence: `\x1`"),
    (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
    (r"\x{}", r"invalid escape sequence: `\x{}`"),
    (r"\x{41}", ""),
    (r"\q", r"invalid escape sequence: `\q`"),
    (r"\", r"trailing backslash at end of expression: ``"),
    (r"[\", r"trailing backslash at end of expression: ``"),
    (r"\Qa.b\Ec", ""),
    (r"\Qa", ""),
    (r"\E", r"invalid escape sequence: `\E`"),
    (r"\z", ""),
    (r"\Z", r"invalid escape sequence: `\Z`"),
    (r"\G", r"invalid escape sequence: `\G`"),
    (r"|*", r"missing argument to repetition operator: `*`"),
    (r"a|*", r"missing argument to repetition operator: `*`"),
    (r"(*)", r"missing argument to repetition operator: `*`"),
    (r"(?i)*", r"missing argument to repetition operator: `*`"),
    (r"^*", ""),
    (r"$+", ""),
    (r"\b+", ""),
    (r"a{0}", ""),
    (r"x{2}{3,5}", r"invalid nested repetition operator: `{2}{3,5}`"),
    (r"((((((((((x{2}){2}){2}){2}){2}){2}){2}){2}){2}){2})", r"invalid repeat count: `{2}`"),
    (r"((((((((((x{1}){2}){2}){2}){2}){2}){2}){2}){2}){2})", ""),
    (r"(?i:a", r"missing closing ): `(?i:a`"),
    (r"(?s.)", r"invalid or unsupported Perl syntax: `(?s.`"),
    (r"(?i)(?s)a", ""),
    (r"\pN{3}", ""),
    (r"[a&&b]", ""),
    (r"[^]", r"missing closing ]: `[^]`"),
    (r"[^]]", ""),
    (r"[a-]", ""),
    (r"[-a]", ""),
    (r"[a-b-c]", ""),
    (r"\xzz", r"invalid escape sequence: `\xzz`"),
    (r"\x4", r"invalid escape sequence: `\x4`"),
    (r"(?m-i-s)a", r"invalid or unsupported Perl syntax: `(?m-i-`"),
    (r"\p{^Greek}", ""),
    (r"\P{^greek}", ""),
];

#[test]
fn patterns_are_accepted_as_by_go() {
    for (pattern, error) in PATTERNS {
        let found = compile_checked(pattern).err().unwrap_or_default();
        let expected =
            if error.is_empty() { String::new() } else { format!("error parsing regexp: {error}") };
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn every_named_group_exists() {
    for name in super::classes::names() {
        compile_checked(&format!(r"\p{{{name}}}")).unwrap();
    }
}

#[track_caller]
fn check(pattern: &str, text: &str, expected: &[&str]) {
    let regex = compile_checked(pattern).unwrap();
    let arguments = [Value::from(text), Value::from(pattern)];
    let all = find_all(&regex, &arguments).unwrap();
    let all: Vec<_> =
        all.as_list().unwrap().iter().map(|found| found.unwrap().as_str().unwrap().to_owned()).collect();
    assert_eq!(all, expected, "{pattern} in {text:?}");
    let first = find(&regex, &arguments).unwrap();
    assert_eq!(first.as_str().unwrap(), expected.first().copied().unwrap_or_default());
}

#[test]
fn matches_are_those_of_go() {
    check("[0-9]*", "123 abc 456", &["123", "", "", "", "", "456"]);
    check(r"\d+", "１2", &["2"]);
    check(r"\s", "\u{b}\u{a0} ", &[" "]);
    check(r"\bé", "é aé", &["é"]);
    check(r"(?i)k\w", "\u{212A}ſ", &["\u{212A}ſ"]);
    check(r"a(?i)b|c", "aB C", &["aB", "C"]);
    check(r"(?U)a+|b+?", "aabb", &["a", "a", "bb"]);
    check(r"(?m)^a$", "a\nb\na", &["a", "a"]);
    check(r"a$", "a\n", &[]);
    check(r"[^a]", "\na", &["\n"]);
    check(".", "\n\r", &["\r"]);
    check(r"[a&&b~~d\]-]", "a&~-]e", &["a", "&", "~", "-", "]"]);
    check(r"[[:^alpha:]\D]", "a1", &["a", "1"]);
    check(r"\x{D800}|[\x{D7FF}-\x{E000}]", "\u{e000}", &["\u{e000}"]);
    check(r"\Qa.b\E+", "a.bbaxb", &["a.bb"]);
    check("a(?i)*", "aaA", &["aa", ""]);
    check("(|a)*", "aa", &["", "", ""]);
    check("(|a)+", "aa", &["", "", ""]);
    check("(a|)+?", "aa", &["a", "a"]);
    check("(a*)*", "b", &["", ""]);
    check(r"\B", "aé", &[""]);
}
