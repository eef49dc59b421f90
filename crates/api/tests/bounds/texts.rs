//! Texts that are as expensive to decode as possible for their size. The number is roughly that of the pieces of a
//! text;
//! long ones are as long as that.

pub(crate) type Texts = &'static [(&'static str, fn(usize) -> Vec<u8>)];

fn joined(count: usize, separator: &str, piece: impl Fn(usize) -> String) -> String {
    (0..count).map(piece).collect::<Vec<_>>().join(separator)
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

/// Two unknown fields, and members below a key as long as all of them together.
pub(crate) fn unknown_below_long_key(n: usize) -> Vec<u8> {
    let members = joined(n, ",", |i| format!("\"m{i}\":1"));
    format!("{{\"{}\":{{{members}}},\"unknown\":1,\"spec\":{{\"bogus\":2}}}}", "k".repeat(10 * n))
        .into_bytes()
}

/// A long scalar, and as many aliases of it.
pub(crate) fn aliased_scalar(n: usize) -> Vec<u8> {
    format!("a: &a {}\nb:\n{}", "x".repeat(10 * n), "- *a\n".repeat(n)).into_bytes()
}

pub(crate) const JSON: Texts = &[
    ("unknown fields below a long key", unknown_below_long_key),
    ("labels below a long key", |n| {
        let members = joined(n, ",", |i| format!("\"m{i}\":{{}}"));
        format!("{{\"metadata\":{{\"{}\":{{{members}}}}}}}", "k".repeat(10 * n)).into_bytes()
    }),
    ("duplicates below a long key", |n| {
        let members = joined(n, ",", |_| "\"m\":1".to_owned());
        format!("{{\"{}\":{{{members}}},\"a\":1,\"a\":2}}", "k".repeat(10 * n)).into_bytes()
    }),
    ("unknown fields everywhere", |n| {
        let containers = joined(n, ",", |i| format!("{{\"unknown{i}\":1}}"));
        format!("{{\"spec\":{{\"containers\":[{containers}]}}}}").into_bytes()
    }),
    ("a map of long keys with unknown fields", |n| {
        let key = "k".repeat(10 * n);
        let unknown = joined(n, ",", |i| format!("\"u{i}\":1"));
        format!("{{\"spec\":{{\"nodeSelector\":{{\"{key}\":{{{unknown}}}}}}}}}").into_bytes()
    }),
    ("keys in reverse", |n| {
        let members = joined(n, ",", |i| format!("\"k{:09}\":\"v\"", n - i));
        format!("{{\"metadata\":{{\"labels\":{{{members}}}}}}}").into_bytes()
    }),
    ("keys with a long common prefix", |n| {
        let prefix = "p".repeat(n / 100);
        let members = joined(100, ",", |i| format!("\"{prefix}{}\":1", 100 - i));
        format!("{{{members}}}").into_bytes()
    }),
    ("numbers", |n| format!("[{}]", joined(n, ",", |i| i.to_string())).into_bytes()),
    ("one number", |n| format!("[{}.{}e{}]", "9".repeat(n), "9".repeat(n), "9".repeat(n)).into_bytes()),
    ("empty objects", |n| format!("[{}]", "{},".repeat(n) + "{}").into_bytes()),
    ("empty containers", |n| {
        format!("{{\"spec\":{{\"containers\":[{}]}}}}", "{},".repeat(n / 10) + "{}").into_bytes()
    }),
    ("open brackets", |n| "[".repeat(n).into_bytes()),
    ("open objects", |n| "{\"a\":".repeat(n).into_bytes()),
    ("as deep as can be", |n| nested("[", &joined(n, ",", |_| "0".into()), "]", 250).into_bytes()),
    ("escapes", |n| format!("[\"{}\"]", "\\u0041\\n\\ud83d".repeat(n)).into_bytes()),
    ("invalid UTF-8", |n| [b"[\"".to_vec(), vec![0xff; n], b"\"]".to_vec()].concat()),
    ("spaces", |n| format!("[{}1 ]", " ".repeat(n)).into_bytes()),
    ("field sets in field sets", |n| {
        let inner = joined(n, ",", |i| format!("\"f:k{i}\": {{}}"));
        nested("{\"fieldsV1\": ", &format!("{{{inner}}}"), "}", 200).into_bytes()
    }),
    ("base64", |n| {
        let text = format!("{{\"spec\":{{\"x\":\"{}\"}}}}", "QUJD\\n".repeat(n));
        text.into_bytes()
    }),
];

pub(crate) const YAML: Texts = &[
    ("aliases of a scalar", aliased_scalar),
    ("aliases of a key", |n| {
        format!("a: &a {}\nb:\n{}", "x".repeat(100 * n), "- {*a : 1}\n".repeat(n)).into_bytes()
    }),
    ("duplicate long keys", |n| format!("? {}\n: 1\n", "x".repeat(n)).repeat(20).into_bytes()),
    ("duplicate keys", |n| "a: 1\n".repeat(n).into_bytes()),
    ("aliases of aliases", |n| {
        let levels = joined(n.min(60), "\n", |i| match i {
            0 => "a0: &a0 [x,x,x,x,x,x,x,x,x,x]".to_owned(),
            i => format!("a{i}: &a{i} [{}]", vec![format!("*a{}", i - 1); 10].join(",")),
        });
        levels.into_bytes()
    }),
    ("merges", |n| {
        let base = joined(n / 10, ", ", |i| format!("k{i}: {i}"));
        format!("a: &a {{{base}}}\nb:\n{}", "- {<<: *a}\n".repeat(10)).into_bytes()
    }),
    ("merges of many", |n| {
        format!("a: &a {{x: 1}}\nb: {{<<: [{}]}}\n", vec!["*a"; n].join(", ")).into_bytes()
    }),
    ("anchors", |n| joined(n, "\n", |i| format!("- &a{i} x")).into_bytes()),
    ("anchors and aliases", |n| joined(n, "\n", |i| format!("- &a{i} x\n- *a{i}")).into_bytes()),
    ("open brackets", |n| "[".repeat(n).into_bytes()),
    ("open braces", |n| "{a: ".repeat(n).into_bytes()),
    ("deep blocks", |n| joined(n.min(400), "\n", |i| format!("{}a:", " ".repeat(i))).into_bytes()),
    ("dashes", |n| "- ".repeat(n).into_bytes()),
    ("question marks", |n| "? ".repeat(n).into_bytes()),
    ("a sequence", |n| format!("[{}]", "a,".repeat(n)).into_bytes()),
    ("a mapping", |n| joined(n, "\n", |i| format!("k{i}: v")).into_bytes()),
    ("pairs in a sequence", |n| format!("[{}]", "a: b,".repeat(n)).into_bytes()),
    ("comments", |n| "# comment\n".repeat(n).into_bytes()),
    ("spaces", |n| format!("a:{}b", " ".repeat(n)).into_bytes()),
    ("line breaks", |n| format!("a: |\n{}  b", "\n".repeat(n)).into_bytes()),
    ("a literal", |n| format!("a: |\n{}", "  text text\n".repeat(n)).into_bytes()),
    ("a folded text", |n| format!("a: >\n{}", "  text text\n\n".repeat(n)).into_bytes()),
    ("a plain text of many lines", |n| format!("a: x\n{}", "  text text\n".repeat(n)).into_bytes()),
    ("escapes", |n| format!("a: \"{}\"", "\\u0041\\n\\x41".repeat(n)).into_bytes()),
    ("an open quote", |n| format!("a: \"{}", "text ".repeat(n)).into_bytes()),
    ("tags", |n| joined(n, "\n", |i| format!("- !<tag:example.com,{i}> x")).into_bytes()),
    ("directives", |n| {
        let directives = joined(n, "\n", |i| format!("%TAG !t{i}! tag:example.com,{i}:"));
        format!("{directives}\n---\na: !t1!x y\n").into_bytes()
    }),
    ("documents", |n| "---\na: 1\n".repeat(n).into_bytes()),
    ("numbers", |n| joined(n, "\n", |i| format!("- 0x{i:x}_{}", "1".repeat(20))).into_bytes()),
    ("one number", |n| format!("a: {}.{}e1", "9_".repeat(n), "9".repeat(n)).into_bytes()),
    ("a long simple key", |n| format!("{}: 1", "k".repeat(n)).into_bytes()),
    ("colons", |n| ":".repeat(n).into_bytes()),
    ("binary", |n| format!("a: !!binary |\n{}", "  QUJD\n".repeat(n)).into_bytes()),
];

/// A field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(content);
    out
}

fn wrapped(path: &[u8], content: Vec<u8>) -> Vec<u8> {
    path.iter().rev().fold(content, |content, number| field(*number, &content))
}

pub(crate) const PROTOBUF: Texts = &[
    // Pod.spec is 2, its containers are 2, their ports 6.
    ("empty containers", |n| wrapped(&[2], field(2, b"").repeat(n / 10))),
    ("empty ports", |n| wrapped(&[2, 2], field(6, b"").repeat(n / 10))),
    ("a message in pieces", |n| field(2, &field(2, &field(1, b"name"))).repeat(n / 10)),
    ("labels", |n| {
        let entries = (0..n).flat_map(|i| field(11, &field(1, format!("k{:09}", n - i).as_bytes())));
        wrapped(&[1], entries.collect())
    }),
    ("open groups", |n| vec![0x7b; n]),
    ("groups", |n| [vec![0x7b; n], vec![0x7c; n]].concat()),
    ("unknown fields", |n| field(15, b"x").repeat(n)),
    ("nested in itself", |n| (0..n.min(5_000)).fold(Vec::new(), |inner, _| field(1, &inner))),
    // CustomResourceDefinition.spec.validation.openAPIV3Schema, then `not` in `not`.
    ("schemas in schemas", |n| {
        let schema = (0..n.min(2_000)).fold(Vec::new(), |inner, _| field(30, &inner));
        wrapped(&[2, 6, 1], schema)
    }),
    ("long varints", |n| vec![0xff; n]),
    ("huge lengths", |n| [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f].repeat(n / 10)),
    ("nested envelopes", |n| {
        let magic = [b'k', b'8', b's', 0];
        (0..n.min(2_000)).fold(Vec::new(), |inner, _| [magic.to_vec(), field(2, &inner)].concat())
    }),
];

pub(crate) const SELECTORS: Texts = &[
    ("labels", |n| joined(n, ",", |i| format!("k{i}=v")).into_bytes()),
    ("one label often", |n| vec!["k=v"; n].join(",").into_bytes()),
    ("values", |n| format!("k0 in ({})", joined(n, ",", |i| format!("v{}", n - i))).into_bytes()),
    ("equal values", |n| format!("k0 notin ({})", vec!["v"; n].join(",")).into_bytes()),
    ("invalid values", |n| format!("k in ({})", joined(n, ",", |i| format!("-{i}-"))).into_bytes()),
    ("spaces", |n| format!("k{}in{}(a{})", " ".repeat(n), " ".repeat(n), " ".repeat(n)).into_bytes()),
    ("exclamation marks", |n| "!".repeat(n).into_bytes()),
    ("parentheses", |n| format!("k in {}", "(".repeat(n)).into_bytes()),
    ("commas", |n| format!("k in ({})", ",".repeat(n)).into_bytes()),
    ("a long key", |n| "k".repeat(n).into_bytes()),
    ("fields", |n| joined(n, ",", |i| format!("metadata.name!=x{i}")).into_bytes()),
    ("escapes", |n| format!("metadata.name={}", "\\,".repeat(n)).into_bytes()),
];

pub(crate) const SCALARS: Texts = &[
    ("digits", |n| "9".repeat(n).into_bytes()),
    ("zeros", |n| format!("{}1", "0".repeat(n)).into_bytes()),
    ("decimals", |n| format!("0.{}", "9".repeat(n)).into_bytes()),
    ("binary digits", |n| format!("{}Ei", "9".repeat(n)).into_bytes()),
    ("a large exponent", |n| format!("1e{}", "9".repeat(n)).into_bytes()),
    ("an exponent that fits", |_| b"1e2147483647".to_vec()),
    ("a small exponent", |_| b"1e-2147483648".to_vec()),
    ("a large exponent and digits", |n| format!("{}e2147483647", "9".repeat(n)).into_bytes()),
    ("letters", |n| "a".repeat(n).into_bytes()),
    ("labels of a name", |n| "a.".repeat(n).into_bytes()),
    ("slashes", |n| "a/".repeat(n).into_bytes()),
    ("durations", |n| "1ns".repeat(n).into_bytes()),
    ("decimals of a time", |n| format!("2024-01-01T00:00:00.{}Z", "9".repeat(n)).into_bytes()),
    ("minutes of a schedule", |n| format!("{} * * * *", vec!["0-59"; n].join(",")).into_bytes()),
    ("fields of a schedule", |n| "* ".repeat(n).into_bytes()),
    ("a delay", |n| format!("@every {}", "1h".repeat(n)).into_bytes()),
    ("a time zone", |n| format!("TZ={} * * * * *", "x".repeat(n)).into_bytes()),
];

pub(crate) const FIELD_SETS: Texts = &[
    ("fields", |n| format!("{{{}}}", joined(n, ",", |i| format!("\"f:k{i:09}\":{{}}"))).into_bytes()),
    ("fields in reverse", |n| {
        format!("{{{}}}", joined(n, ",", |i| format!("\"f:k{:09}\":{{}}", n - i))).into_bytes()
    }),
    ("one field often", |n| format!("{{{}}}", vec!["\"f:k\":{\"f:a\":{}}"; n].join(",")).into_bytes()),
    ("one field with different parts", |n| {
        format!("{{{}}}", joined(n, ",", |i| format!("\"f:k\":{{\"f:a{:09}\":{{}}}}", n - i))).into_bytes()
    }),
    ("keys in reverse", |n| {
        let keys = joined(n, ",", |i| format!("\"k:{{\\\"name\\\":\\\"x{:09}\\\"}}\":{{}}", n - i));
        format!("{{\"f:a\":{{{keys}}}}}").into_bytes()
    }),
    ("open braces", |n| "{\"f:a\":".repeat(n).into_bytes()),
    ("deep values", |n| format!("{{\"v:{}\":{{}}}}", "[".repeat(n)).into_bytes()),
    ("what is passed over", |n| format!("{{\".\":{}", "[".repeat(n)).into_bytes()),
    ("a long field above many", |n| {
        let below = joined(n, ",", |i| format!("\"f:k{i:09}\":{{}}"));
        format!("{{\"f:{}\":{{{below}}}}}", "x".repeat(10 * n)).into_bytes()
    }),
];
