use super::*;
use crate::status::ErrorList;
use crate::value;
use crate::value::Value;

const SUBDOMAIN: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[track_caller]
fn check(rule: fn(&str) -> Vec<String>, fine: &[&str], wrong: &[(&str, &[&str])]) {
    for text in fine {
        assert_eq!(rule(text), Vec::<String>::new(), "{text:?}");
    }
    for (text, complaints) in wrong {
        assert_eq!(rule(text), *complaints, "{text:?}");
    }
}

#[track_caller]
fn check_meta(meta: &Value, namespaced: bool, rule: NameRule, expected: &str) {
    let mut errors = ErrorList::new();
    validate_object_meta(meta, namespaced, rule, "metadata", &mut errors);
    assert_eq!(errors.summary(), expected);
}

#[track_caller]
fn check_update(new: &Value, old: &Value, expected: &str) {
    let mut errors = ErrorList::new();
    validate_object_meta_update(new, old, "metadata", &mut errors);
    assert_eq!(errors.summary(), expected);
}

#[test]
fn dns_names() {
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let long = "a".repeat(64);
    check(
        dns1123_label,
        &["a", "0", "a-b", "a--1", &long[1..]],
        &[
            ("", &[label]),
            ("-a", &[label]),
            ("a-", &[label]),
            ("A", &[label]),
            ("a_b", &[label]),
            ("a.b", &["must not contain dots"]),
            (&long, &["must be no more than 63 characters"]),
        ],
    );
    let long = "a.".repeat(127);
    check(
        dns1123_subdomain,
        &["a", "a.b-c.0", &long[..253]],
        &[
            ("", &[SUBDOMAIN]),
            ("a..b", &[SUBDOMAIN]),
            (".a", &[SUBDOMAIN]),
            ("a.", &[SUBDOMAIN]),
            ("a b", &[SUBDOMAIN]),
            ("ä", &[SUBDOMAIN]),
            (&long, &["must be no more than 253 characters", SUBDOMAIN]),
        ],
    );
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    check(dns1035_label, &["a", "a-1"], &[("1a", &[label]), ("", &[label]), ("a.b", &[label])]);
    let wildcard = r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    check(wildcard_dns1123_subdomain, &["*.a.b"], &[("*", &[wildcard]), ("*.*.a", &[wildcard])]);
}

#[test]
fn label_keys_and_values() {
    let name = format!("name part {LABEL_NAME}");
    let prefix = format!("prefix part {SUBDOMAIN}");
    let many = format!(
        "a valid label key {LABEL_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    );
    let long = "a".repeat(64);
    check(
        qualified_name,
        &["a", "A_b.c-1", "example.com/a", "1/2"],
        &[
            ("", &["name part must be non-empty", &name]),
            ("/a", &["prefix part must be non-empty"]),
            ("a/", &["name part must be non-empty", &name]),
            ("A/a", &[&prefix]),
            ("a/b/c", &[&many]),
            ("a b", &[&name]),
            (&long, &["name part must be no more than 63 bytes"]),
        ],
    );
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    check(
        label_value,
        &["", "a", "A_b.c"],
        &[("-", &[value]), ("a/b", &[value]), (&long, &["must be no more than 63 bytes"])],
    );
}

#[test]
fn other_formats() {
    check(
        path_segment_name,
        &["", "system:node", "A b", "..."],
        &[
            (".", &["may not be '.'"]),
            ("..", &["may not be '..'"]),
            ("a/b%", &["may not contain '/'", "may not contain '%'"]),
        ],
    );
    check(
        config_map_key,
        &["a", ".a", "A_b-c.d"],
        &[("..", &["must not be '..'"]), ("..a", &["must not start with '..'"])],
    );
    check(
        port_name,
        &["http", "a-1"],
        &[
            ("1", &["must contain at least one letter (a-z)"]),
            ("a--b", &["must not contain consecutive hyphens"]),
            ("-a", &["must not begin or end with a hyphen"]),
        ],
    );
}

#[test]
fn a_prefix_may_end_in_a_dash() {
    assert!(NameRule::DnsSubdomain.check_prefix("web-").is_empty());
    assert!(NameRule::DnsLabel.check_prefix("a-").is_empty());
    assert!(!NameRule::DnsLabel.check_prefix("-").is_empty());
    assert!(!NameRule::DnsSubdomain.check("web-").is_empty());
    assert!(NameRule::PathSegment.check_prefix(".").is_empty());
}

#[test]
fn metadata_at_creation() {
    use NameRule::{DnsSubdomain, PathSegment};
    check_meta(&value!({"name": "a", "namespace": "b"}), true, DnsSubdomain, "");
    check_meta(&value!({"name": "a:b"}), false, PathSegment, "");
    check_meta(
        &value!({}),
        true,
        DnsSubdomain,
        "[metadata.name: Required value: name or generateName is required, metadata.namespace: Required value]",
    );
    check_meta(
        &value!({"name": "a", "namespace": "b"}),
        false,
        DnsSubdomain,
        "metadata.namespace: Forbidden: not allowed on this type",
    );
    check_meta(
        &value!({"name": "A"}),
        false,
        DnsSubdomain,
        &format!("metadata.name: Invalid value: \"A\": {SUBDOMAIN}"),
    );
    check_meta(
        &value!({"name": "a", "generation": (-1)}),
        false,
        DnsSubdomain,
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
    );
    check_meta(
        &value!({"name": "a", "labels": {"a b": "c"}, "annotations": {"Example.COM/a": "anything at all"}}),
        false,
        DnsSubdomain,
        &format!("metadata.labels: Invalid value: \"a b\": name part {LABEL_NAME}"),
    );
    let large = "x".repeat(TOTAL_ANNOTATION_SIZE_LIMIT);
    check_meta(
        &value!({"name": "a", "annotations": {"a": large}}),
        false,
        DnsSubdomain,
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    );
    check_meta(
        &value!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
        false,
        DnsSubdomain,
        "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
    );
    check_meta(
        &value!({"name": "a", "managedFields": [{"operation": "Move", "manager": "a\tb"}, {}]}),
        false,
        DnsSubdomain,
        "[metadata.managedFields[0].operation: Unsupported value: \"Move\": supported values: \"Apply\", \"Update\", metadata.managedFields[0].manager: Invalid value: \"a\\tb\": invalid character U+0009 (at position 1), metadata.managedFields[1].operation: Required value: must not be empty]",
    );
}

#[test]
fn owner_references() {
    let owner =
        |kind: &str, version: &str| value!({"apiVersion": version, "kind": kind, "name": "n", "uid": "u"});
    let meta = |references: Value| value!({"name": "a", "ownerReferences": references});
    let check = |references: Value, expected: &str| {
        check_meta(&meta(references), false, NameRule::DnsSubdomain, expected);
    };
    check(value!([(owner("Pod", "v1"))]), "");
    check(value!([(owner("Event", "events.k8s.io/v1"))]), "");
    check(
        value!([(owner("Event", "v1"))]),
        "metadata.ownerReferences[0]: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
    );
    check(
        value!([(owner("A", "a/b/c"))]),
        "metadata.ownerReferences[0].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
    );
    check(
        value!([{"kind": "A", "name": "n"}]),
        "[metadata.ownerReferences[0].apiVersion: Required value: must not be empty, metadata.ownerReferences[0].uid: Required value: must not be empty]",
    );
    let mut first = owner("A", "v1");
    first.set(&["controller"], true);
    let both = value!([(first.clone()), (first)]);
    let shown = r#"[{"apiVersion":"v1","kind":"A","name":"n","uid":"u","controller":true},{"apiVersion":"v1","kind":"A","name":"n","uid":"u","controller":true}]"#;
    check(
        both,
        &format!(
            "metadata.ownerReferences: Invalid value: {shown}: Only one reference can have Controller set to true. Found \"true\" in references for A/n and A/n"
        ),
    );
}

#[test]
fn metadata_on_update() {
    let old = value!({
        "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "1", "generation": 2,
        "creationTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]
    });
    check_update(&old, &old, "");
    let with = |path: &str, new: Value| {
        let mut changed = old.clone();
        changed.set(&[path], new);
        changed
    };
    check_update(&with("name", "c".into()), &old, "metadata.name: Invalid value: \"c\": field is immutable");
    check_update(&with("uid", "v".into()), &old, "metadata.uid: Invalid value: \"v\": field is immutable");
    check_update(
        &with("creationTimestamp", Value::Null),
        &old,
        "metadata.creationTimestamp: Invalid value: null: field is immutable",
    );
    check_update(
        &with("resourceVersion", "".into()),
        &old,
        "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
    );
    check_update(
        &with("generation", 1.into()),
        &old,
        "metadata.generation: Invalid value: 1: must not be decremented",
    );
    check_update(
        &with("deletionGracePeriodSeconds", 5.into()),
        &old,
        "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
    );
    let more = value!(["a/b", "a/d", "a/c"]);
    check_update(&with("finalizers", more.clone()), &old, "");
    let deleting = with("deletionTimestamp", "2024-01-01T00:00:00Z".into());
    let mut new = deleting.clone();
    new.set(&["finalizers"], more);
    check_update(
        &new,
        &deleting,
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a/c\", \"a/d\"}",
    );
}
