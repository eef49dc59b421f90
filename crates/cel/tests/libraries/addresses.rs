//! URLs, IP addresses and networks.

use crate::{Case, check};

#[rustfmt::skip]
const URL: &[Case] = &[
    (r#"url("https://example.com:80/").getHost()"#, r#""example.com:80""#, 4),
    (r#"url("https://[::1]:80/").getHostname()"#, r#""::1""#, 3),
    (r#"url("https://[::1]:80/").getPort()"#, r#""80""#, 3),
    (r#"url("HTTPS://user:p%40ss@example.com/a%2Fb?x=1#f").getScheme()"#, r#""https""#, 6),
    (r#"url("https://example.com/path with spaces/").getEscapedPath()"#, r#""/path%20with%20spaces/""#, 5),
    (r#"url("https://example.com/a%2Fb").getEscapedPath()"#, r#""/a%2Fb""#, 4),
    (r#"url("https://example.com/p?k1=a&k2=b&k2=c").getQuery()"#, r#"{"k1":["a"],"k2":["b","c"]}"#, 5),
    (r#"url("https://example.com/p?a;b=1&c=2&d=%zz").getQuery()"#, r#"{"c":["2"]}"#, 5),
    (r#"url("/path").getHost()"#, r#""""#, 2),
    (r#"url("path")"#, r#"error: URL parse error during conversion from string: parse "path": invalid URI for request"#, 1),
    (r#"url("")"#, r#"error: URL parse error during conversion from string: parse "": empty url"#, 0),
    (r#"url("https://a b/")"#, r#"error: URL parse error during conversion from string: parse "https://a b/": invalid character " " in host name"#, 2),
    (r#"url("https://[::1/")"#, r#"error: URL parse error during conversion from string: parse "https://[::1/": missing ']' in host"#, 2),
    (r#"url("https://[1.2.3.4]/")"#, r#"error: URL parse error during conversion from string: parse "https://[1.2.3.4]/": invalid IP-literal"#, 2),
    (r#"url("https://h:80a/")"#, r#"error: URL parse error during conversion from string: parse "https://h:80a/": invalid port ":80a" after host"#, 2),
    (r#"url("http://a:b:80/")"#, r#"error: URL parse error during conversion from string: parse "http://a:b:80/": invalid port ":b:80" after host"#, 2),
    (r#"url("http://h/%zz")"#, r#"error: URL parse error during conversion from string: parse "http://h/%zz": invalid URL escape "%zz""#, 2),
    (r#"url("http://h%41/")"#, r#"error: URL parse error during conversion from string: parse "http://h%41/": invalid URL escape "%41""#, 2),
    (r#"url("http://a\tb")"#, r#"error: URL parse error during conversion from string: parse "http://a\tb": net/url: invalid control character in URL"#, 1),
    (r#"url(":foo")"#, r#"error: URL parse error during conversion from string: parse ":foo": missing protocol scheme"#, 1),
    (r#"isURL("http://h/#%zz")"#, "false", 1),
    (r#"url("http://h/#%zz")"#, r#"error: URL parse error during conversion from string: parse "http://h/#%zz": invalid URL escape "%zz""#, 2),
    (r#"url("http://u@v@h/")"#, "url(http://u%40v@h/)", 2),
    (r#"url("http://us er@h/")"#, r#"error: URL parse error during conversion from string: parse "http://us er@h/": net/url: invalid userinfo"#, 2),
    (r#"isURL("mailto:x@y")"#, "true", 1),
    (r#"isURL("*")"#, "true", 1),
    (r#"url("http://A/b") == url("http://a/b")"#, "false", 3),
    (r#"url("HTTP://a/b?") == url("http://a/b?")"#, "true", 5),
];

#[rustfmt::skip]
const IP: &[Case] = &[
    (r#"ip("127.0.0.1")"#, "ip(127.0.0.1)", 1),
    (r#"ip("::ffff:1.2.3.4")"#, r#"error: IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed"#, 2),
    (r#"ip("fe80::1%eth0")"#, r#"error: IP address "fe80::1%eth0" with zone value is not allowed"#, 2),
    (r#"ip("1.2.3")"#, r#"error: IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): IPv4 address too short"#, 1),
    (r#"ip("1.2.3.04")"#, r#"error: IP Address "1.2.3.04" parse error during conversion from string: ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero"#, 1),
    (r#"ip("1.2.3.256")"#, r#"error: IP Address "1.2.3.256" parse error during conversion from string: ParseAddr("1.2.3.256"): IPv4 field has value >255"#, 1),
    (r#"ip("1.2..3")"#, r#"error: IP Address "1.2..3" parse error during conversion from string: ParseAddr("1.2..3"): IPv4 field must have at least one digit (at ".3")"#, 1),
    (r#"ip("1:2")"#, r#"error: IP Address "1:2" parse error during conversion from string: ParseAddr("1:2"): address string too short"#, 1),
    (r#"ip("1::2::3")"#, r#"error: IP Address "1::2::3" parse error during conversion from string: ParseAddr("1::2::3"): multiple :: in address (at ":3")"#, 1),
    (r#"ip("12345::")"#, r#"error: IP Address "12345::" parse error during conversion from string: ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")"#, 1),
    (r#"ip("1:2:3:4:5:6:7:8:9")"#, r#"error: IP Address "1:2:3:4:5:6:7:8:9" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")"#, 2),
    (r#"ip("1:2:3:4:5:6:7::8")"#, r#"error: IP Address "1:2:3:4:5:6:7::8" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7::8"): the :: must expand to at least one field of zeros"#, 2),
    (r#"ip("1:2:3:4:5:1.2.3.4")"#, r#"error: IP Address "1:2:3:4:5:1.2.3.4" parse error during conversion from string: ParseAddr("1:2:3:4:5:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")"#, 2),
    (r#"ip("%eth0")"#, r#"error: IP Address "%eth0" parse error during conversion from string: ParseAddr("%eth0"): missing IPv6 address"#, 1),
    (r#"ip("")"#, r#"error: IP Address "" parse error during conversion from string: ParseAddr(""): unable to parse IP"#, 0),
    (r#"ip.isCanonical("2001:DB8::1")"#, "false", 3),
    (r#"ip.isCanonical("x")"#, r#"error: IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP"#, 1),
    (r#"isIP(":::1")"#, "false", 1),
    (r#"string(ip("1:0:0:2:0:0:0:3"))"#, r#""1:0:0:2::3""#, 3),
    (r#"ip("::1").family()"#, "6", 2),
    (r#"ip("0.0.0.0").isUnspecified()"#, "true", 2),
    (r#"ip("127.255.0.1").isLoopback()"#, "true", 3),
    (r#"ip("ff12::1").isLinkLocalMulticast()"#, "true", 2),
    (r#"ip("febf::1").isLinkLocalUnicast()"#, "true", 2),
    (r#"ip("255.255.255.255").isGlobalUnicast()"#, "false", 3),
    (r#"ip("FE80::0:1") == ip("fe80::1")"#, "true", 3),
    (r#"dyn(ip("::1")) == dyn(1)"#, "error: no such overload", 3),
    (r#"dyn(1) == dyn(ip("::1"))"#, "false", 3),
];

#[rustfmt::skip]
const CIDR: &[Case] = &[
    (r#"cidr("10.0.0.0/8").containsIP("10.1.2.3")"#, "true", 3),
    (r#"cidr("10.0.0.0/8").containsIP(ip("::1"))"#, "false", 3),
    (r#"cidr("10.0.0.0/8").containsIP("abc")"#, "error: no such overload", 3),
    (r#"cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")"#, "true", 6),
    (r#"cidr("10.1.0.0/16").containsCIDR("10.0.0.0/8")"#, "false", 6),
    (r#"cidr("10.0.0.0/8").containsCIDR("abc")"#, r#"error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("abc"): no '/'"#, 5),
    (r#"cidr("10.0.0.1/8").ip()"#, "ip(10.0.0.1)", 2),
    (r#"cidr("10.0.0.1/8").masked()"#, "cidr(10.0.0.0/8)", 2),
    (r#"cidr("::/0").prefixLength()"#, "0", 2),
    (r#"cidr("10.0.0.0/08")"#, r#"error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/08"): bad bits after slash: "08""#, 2),
    (r#"cidr("10.0.0.0/33")"#, r#"error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/33"): prefix length out of range"#, 2),
    (r#"cidr("fe80::1%eth0/64")"#, r#"error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("fe80::1%eth0/64"): IPv6 zones cannot be present in a prefix"#, 2),
    (r#"cidr("::ffff:1.2.3.4/100")"#, r#"error: network address parse error during conversion from string: IPv4-mapped IPv6 address "::ffff:1.2.3.4/100" is not allowed"#, 2),
    (r#"isCIDR("10.0.0.0/8")"#, "true", 1),
    (r#"string(cidr("1.2.0.1/16"))"#, r#""1.2.0.1/16""#, 2),
    (r#"cidr("10.0.0.0/8") == cidr("10.0.0.1/8")"#, "false", 3),
];

#[test]
fn urls() {
    check(URL);
}

#[test]
fn ip_addresses() {
    check(IP);
}

#[test]
fn networks() {
    check(CIDR);
}
