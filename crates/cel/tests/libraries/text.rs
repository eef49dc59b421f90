//! Functions of texts: parts, formatting, regular expressions.

use crate::{Case, check};

#[rustfmt::skip]
const STRINGS: &[Case] = &[
    (r#""tacocat".charAt(3)"#, r#""o""#, 1),
    (r#""tacocat".charAt(7)"#, r#""""#, 1),
    (r#""tacocat".charAt(8)"#, "error: index out of range: 8", 1),
    (r#""héllo".charAt(1)"#, r#""é""#, 1),
    (r#""hello mellow".indexOf("ello")"#, "1", 1),
    (r#""hello mellow".indexOf("ello", 2)"#, "7", 1),
    (r#""hello".indexOf("", 9)"#, "5", 0),
    (r#""hello".indexOf("l", -1)"#, "error: index out of range: -1", 0),
    (r#""héllo".indexOf("l")"#, "2", 0),
    (r#""hello mellow".lastIndexOf("ello")"#, "7", 1),
    (r#""hello mellow".lastIndexOf("ello", 6)"#, "1", 1),
    (r#""hello".lastIndexOf("l", 99)"#, "-1", 0),
    (r#""hello".lastIndexOf("")"#, "5", 0),
    (r#""TÄCO".lowerAscii()"#, r#""tÄco""#, 1),
    (r#""täco".upperAscii()"#, r#""TäCO""#, 1),
    (r#""  \u00a0 x \t".trim()"#, r#""x""#, 1),
    (r#""tacocat".substring(4)"#, r#""cat""#, 1),
    (r#""tacocat".substring(0, 4)"#, r#""taco""#, 1),
    (r#""tacocat".substring(4, 3)"#, "error: invalid substring range. start: 4, end: 3", 1),
    (r#""tacocat".substring(9)"#, "error: index out of range: 9", 1),
    (r#""tacocat".substring(1, 9)"#, "error: index out of range: 9", 1),
    (r#""hello hello".replace("he", "we")"#, r#""wello wello""#, 3),
    (r#""hello hello".replace("he", "we", 1)"#, r#""wello hello""#, 3),
    (r#""hello hello".replace("he", "we", 0)"#, r#""hello hello""#, 3),
    (r#""abc".replace("", "-")"#, r#""-a-b-c-""#, 1),
    (r#""héllo".split("l")"#, r#"["hé","","o"]"#, 1),
    (r#""hello".split("")"#, r#"["h","e","l","l","o"]"#, 1),
    (r#""".split("")"#, "[]", 0),
    (r#""".split(",")"#, r#"[""]"#, 0),
    (r#""a,b,c".split(",", 2)"#, r#"["a","b,c"]"#, 1),
    (r#""a,b,c".split(",", 0)"#, "[]", 1),
    (r#""a,b,c".split(",", 1)"#, r#"["a,b,c"]"#, 1),
    (r#""a,b,c".split(",", -1)"#, r#"["a","b","c"]"#, 1),
    (r#"["x", "y"].join()"#, r#""xy""#, 1),
    (r#"["x", "y"].join(", ")"#, r#""x, y""#, 1),
    (r#"[].join("-")"#, r#""""#, 0),
    (r#"[dyn("a"), dyn(1)].join()"#, "error: join: invalid input: 1", 1),
    (r#"[dyn("a"), dyn(null)].join()"#, "error: join: invalid input: 0", 1),
    (r#"strings.quote("a\n\"b\"")"#, r#""\"a\\n\\\"b\\\"\"""#, 1),
    (r#""abc".reverse()"#, "error: found no matching overload for 'reverse' applied to 'string.()'", 0),
];

#[rustfmt::skip]
const FORMAT: &[Case] = &[
    (r#""%s %d %f %e %x %X %o %b %%".format(["a", -5, 1.5, 1234.5, 255, "hi", 8, true])"#, r#""a -5 1.500000 1.234500×10⁰³ ff 6869 10 1 %""#, 3),
    (r#""%.2f|%.0f|%.1f".format([2.675, 2.5, 0.25])"#, r#""2.67|2|0.2""#, 2),
    (r#""%f".format([1234567.891])"#, r#""1,234,567.891000""#, 1),
    (r#""%.256f".format([1.5])"#, r#""1.5""#, 1),
    (r#""%.10000010f".format([1.5])"#, r#""%!(NOVERB)""#, 2),
    (r#""%f %f".format(["NaN", "-Infinity"])"#, r#""NaN -∞""#, 1),
    (r#""%e".format([-1.5e-7])"#, r#""-1.500000×10⁻⁰⁷""#, 1),
    (r#""%.20e".format([12345.0])"#, r#""       1.234500×10⁰⁴""#, 1),
    (r#""%s".format([[1, 2.5, "q\"", b"x", null, true, duration("1.5s"), timestamp("2024-01-01T00:00:00Z"), int]])"#, r#""[1, 2.500000, \"q\\\"\", b\"x\", null, true, duration(\"1.5s\"), timestamp(\"2024-01-01T00:00:00Z\"), int]""#, 1),
    (r#""%s".format([{"b": 1, "a": [1.5]}])"#, r#""{\"a\":[1.500000], \"b\":1}""#, 1),
    (r#""%s".format([1234567.5])"#, r#""1.2345675e+06""#, 1),
    (r#""%s".format([b"\xff"])"#, r#"error: error during formatting: could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string"#, 1),
    (r#""%s".format([duration("1h0.5s")])"#, r#""3600.5s""#, 1),
    (r#""%x".format([-255])"#, r#""-ff""#, 1),
    (r#"dyn("%d").format(["a"])"#, "error: error during formatting: decimal clause can only be used on integers, was given string", 1),
    (r#"dyn("%f").format([1])"#, "error: error during formatting: fixed-point clause can only be used on doubles, was given int", 1),
    (r#"dyn("%s").format([optional.of(1)])"#, "error: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type", 12),
    (r#"dyn("%s").format([[optional.of(1)]])"#, "error: error during formatting: no formatting function for optional_type", 22),
    (r#"dyn("%").format([1])"#, "error: unexpected end of string", 1),
    (r#"dyn("%s").format([])"#, "error: index 0 out of range", 1),
    (r#"dyn("%z").format([1])"#, r#"error: could not parse formatting clause: unrecognized formatting clause "z""#, 1),
    (r#"dyn("%.").format([1])"#, "error: could not parse formatting clause: error while parsing precision: could not find end of precision specifier", 1),
    (r#""%d".format([1.5])"#, "error: error during formatting: decimal clause can only be used on integers, was given double", 0),
    (r#""%s %s".format(["a"])"#, "error: index 1 out of range", 0),
    (r#""%s".format(["a", "b"])"#, "error: too many arguments supplied to string.format (expected 1, got 2)", 0),
    (r#""%é".format([1])"#, r#"error: could not parse formatting clause: unrecognized formatting clause "Ã""#, 0),
    (r#""%s".format([quantity("1")])"#, "error: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Quantity", 0),
];

#[rustfmt::skip]
const REGEX: &[Case] = &[
    (r#""abc 123".find("[0-9]+")"#, r#""123""#, 2),
    (r#""abc".find("xyz")"#, r#""""#, 1),
    (r#""123 abc 456".findAll("[0-9]+")"#, r#"["123","456"]"#, 4),
    (r#""123 abc 456".findAll("[0-9]+", 1)"#, r#"["123"]"#, 4),
    (r#""123".findAll("[0-9]", 0)"#, "[]", 2),
    (r#""123".findAll("[0-9]", -5)"#, r#"["1","2","3"]"#, 2),
    (r#""abc".findAll("x*")"#, r#"["","","",""]"#, 1),
    (r#""ab".matches("(?i)^AB$")"#, "true", 2),
    (r#""ab".matches("(")"#, "error: invalid matches argument", 0),
    (r#""ab".find("(")"#, "error: error parsing regexp: missing closing ): `(`", 0),
    (r#""ab".find(dyn("("))"#, "error: error parsing regexp: missing closing ): `(`", 0),
    (r#""ab".matches(dyn("a**"))"#, "error: error parsing regexp: invalid nested repetition operator: `**`", 0),
    (r#""héé".findAll("é")"#, r#"["é","é"]"#, 1),
];

#[test]
fn parts_of_texts() {
    check(STRINGS);
}

#[test]
fn formatted_texts() {
    check(FORMAT);
}

#[test]
fn regular_expressions() {
    check(REGEX);
}
