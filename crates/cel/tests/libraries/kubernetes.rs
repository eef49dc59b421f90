//! Quantities, versions, named formats, authorization checks and JSON patches.

use crate::{Case, check};

#[rustfmt::skip]
const QUANTITY: &[Case] = &[
    (r#"quantity("1.5Gi").isInteger()"#, "false", 2),
    (r#"quantity("50").asInteger()"#, "50", 2),
    (r#"quantity("1000m").asInteger()"#, "error: cannot convert value to integer", 2),
    (r#"quantity("1.5Gi").asApproximateFloat()"#, "double(0x41d8000000000000)", 2),
    (r#"quantity("12345678901234567890").asApproximateFloat()"#, "double(0x43e56a95319d63e2)", 3),
    (r#"quantity("0.3").asApproximateFloat()"#, "double(0x3fd3333333333334)", 2),
    (r#"sign(quantity("-1"))"#, "-1", 2),
    (r#"quantity("50k").add(quantity("20")) == quantity("50.02k")"#, "true", 5),
    (r#"quantity("50.02k") == quantity("50k").add(quantity("20"))"#, "error: no such overload", 5),
    (r#"quantity("50k").sub(20) == quantity("49980")"#, "true", 4),
    (r#"quantity("200M").compareTo(quantity("0.2G"))"#, "0", 3),
    (r#"quantity("50Mi").isGreaterThan(quantity("50M"))"#, "true", 3),
    (r#"quantity("50M").isLessThan(quantity("50Mi"))"#, "true", 3),
    (r#"quantity("9223372036854775807").add(1).isInteger()"#, "false", 4),
    (r#"quantity("1e100").add(20).asApproximateFloat()"#, "double(0x54b249ad2594c37d)", 3),
    (r#"quantity("abc")"#, "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", 1),
    (r#"quantity("1ee3")"#, "error: unable to parse quantity's suffix", 1),
    (r#"quantity("1 ")"#, "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", 1),
    (r#"isQuantity("1Ki")"#, "true", 1),
    (r#"isQuantity("1KiB")"#, "false", 1),
];

#[rustfmt::skip]
const SEMVER: &[Case] = &[
    (r#"semver("1.2.3-alpha+build").major()"#, "1", 3),
    (r#"semver("v1.2", true).patch()"#, "0", 2),
    (r#"semver("01.02.03", true).minor()"#, "2", 2),
    (r#"semver("v1.2.3")"#, r#"error: Invalid character(s) found in major number "v1""#, 1),
    (r#"semver("1.2")"#, "error: No Major.Minor.Patch elements found", 1),
    (r#"semver("")"#, "error: Version string empty", 0),
    (r#"semver("01.2.3")"#, r#"error: Major number must not contain leading zeroes "01""#, 1),
    (r#"semver("1.2.x")"#, r#"error: Invalid character(s) found in patch number "x""#, 1),
    (r#"semver("1.2.3-01")"#, r#"error: Numeric PreRelease version must not contain leading zeroes "01""#, 1),
    (r#"semver("1.2.3-a..b")"#, "error: Prerelease is empty", 1),
    (r#"semver("1.2.3+")"#, "error: Build meta data is empty", 1),
    (r#"semver("1.2.3+b_c")"#, r#"error: Invalid character(s) found in build meta data "b_c""#, 1),
    (r#"semver("1-a", true)"#, "error: short version cannot contain PreRelease/Build meta data", 1),
    (r#"semver("18446744073709551616.0.0")"#, r#"error: strconv.ParseUint: parsing "18446744073709551616": value out of range"#, 3),
    (r#"isSemver("v1.0", true)"#, "true", 1),
    (r#"semver("1.2.3-alpha").compareTo(semver("1.2.3"))"#, "-1", 4),
    (r#"semver("1.2.3-2").isLessThan(semver("1.2.3-10"))"#, "true", 3),
    (r#"semver("1.2.3-1").isLessThan(semver("1.2.3-alpha"))"#, "true", 4),
    (r#"semver("1.2.3+a") == semver("1.2.3+b")"#, "true", 3),
];

#[rustfmt::skip]
const NAMED_FORMATS: &[Case] = &[
    (r#"format.dns1123Label().validate("my-name")"#, "none", 9),
    (r#"format.dns1123Label().validate("My")"#, r#"some(["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"])"#, 9),
    (r#"format.dns1035LabelPrefix().validate("a-")"#, "none", 9),
    (r#"format.labelValue().validate("a b")"#, r#"some(["a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"])"#, 11),
    (r#"format.qualifiedName().validate("a/b/c")"#, r#"some(["a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"])"#, 16),
    (r#"format.uri().validate("x")"#, r#"some(["parse \"x\": invalid URI for request"])"#, 277),
    (r#"format.uuid().validate("123e4567e89b12d3a456426614174000")"#, "none", 73),
    (r#"format.uuid().validate("123")"#, r#"some(["does not match the UUID format"])"#, 19),
    (r#"format.byte().validate("aGVsbG8=")"#, "none", 22),
    (r#"format.byte().validate("aGVsbG8")"#, r#"some(["invalid base64"])"#, 22),
    (r#"format.date().validate("2023-02-29")"#, r#"some(["invalid date"])"#, 37),
    (r#"format.datetime().validate("2021-01-01t23:59:59x123+99:99")"#, "none", 55),
    (r#"format.datetime().validate("2021-01-01T24:00:00Z")"#, r#"some(["invalid datetime"])"#, 55),
    (r#"format.named("nope")"#, "none", 1),
    (r#"format.named("uri").value() == format.uri()"#, "true", 4),
];

#[rustfmt::skip]
const AUTHORIZER: &[Case] = &[
    (r#"authorizer.group("").resource("pods").check("get").allowed()"#, "true", 350004),
    (r#"authorizer.path("/healthz").check("get").reason()"#, r#""because""#, 350003),
    (r#"authorizer.path(" ")"#, "error: path must not be empty", 2),
    (r#"authorizer.group("").resource("")"#, "error: resource must not be empty", 3),
    (r#"authorizer.serviceAccount("default", "sa").group("").resource("pods").namespace("n").name("x").subresource("log").check("get").errored()"#, "false", 350008),
    (r#"authorizer.serviceAccount("Default", "sa")"#, "error: Invalid service account namespace", 2),
    (r#"authorizer.serviceAccount("default", "SA")"#, "error: Invalid service account name", 2),
    (r#"authorizer.group("").resource("pods").fieldSelector("a=b").labelSelector("c").check("list").error()"#, r#""""#, 350176),
    ("authorizer == authorizer", "error: no such overload", 3),
    (r#"jsonpatch.escapeKey("a/b~c")"#, r#""a~1b~0c""#, 1),
];

#[test]
fn quantities() {
    check(QUANTITY);
}

#[test]
fn versions() {
    check(SEMVER);
}

#[test]
fn named_formats() {
    check(NAMED_FORMATS);
}

#[test]
fn authorization_checks() {
    check(AUTHORIZER);
}
