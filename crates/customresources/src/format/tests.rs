use super::STRINGS;

#[track_caller]
fn check(format: &str, valid: &[&str], invalid: &[&str]) {
    let (_, fits) = STRINGS.iter().find(|(name, _)| *name == format).unwrap();
    for text in valid {
        assert!(fits(text), "{format} {text:?}");
    }
    for text in invalid {
        assert!(!fits(text), "{format} {text:?}");
    }
}

#[test]
fn codes() {
    check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", ""]);
    check("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ", "YQ=", "Y===", "a-bc"]);
    check(
        "uuid",
        &["a8098c1a-f86e-11da-bd1a-00112444be1e", "A8098C1AF86E11DABD1A00112444BE1E"],
        &["a8098c1a"],
    );
    check("uuid3", &["bcd02e22-68f0-3046-a512-327cca9def8f"], &["bcd02e22-68f0-4046-a512-327cca9def8f"]);
    check("uuid4", &["025b0d74-00a2-4048-bf57-227c5111bb34"], &["025b0d74-00a2-4048-7f57-227c5111bb34"]);
    check("isbn", &["0321751043", "978-0321751041", "032 175104-3"], &["0321751042", "978-0321751042", ""]);
    check("creditcard", &["4111-1111-1111-1111", "x4111111111111111"], &["4111-1111-1111-1112", ""]);
    check("ssn", &["111-11-1111", "111 11-1111"], &["111111111", "111-1-11111"]);
    check("hexcolor", &["#FFFFFF", "abc"], &["#FFFF", "ggg", ""]);
    check("rgbcolor", &["rgb(1,2,255)", "rgb( 0 , 10,100 )"], &["rgb(256,0,0)", "rgb(01,0,0)", "rgb(1,2)"]);
    check("password", &["", "x"], &[]);
}

#[test]
fn addresses() {
    check("ipv4", &["192.168.0.1", "010.0.0.1", "::1.2.3.4"], &["1.2.3", "256.1.1.1", "::1", ""]);
    check("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", "::1%eth0", "::01.2.3.4", ":::"]);
    check("cidr", &["10.0.0.0/8", "010.0.0.0/08", "::/0"], &["10.0.0.0", "10.0.0.0/33", "::/129", "x/1"]);
    check(
        "mac",
        &["01:02:03:04:05:06", "0123.4567.89ab", "01-02-03-04-05-06-07-08"],
        &["01:02", "01:02:03:04:05-06"],
    );
    check(
        "hostname",
        &["a", "a-b", "ab", "www.example.com", "xn--bcher-kva.ch", "a.b.co", "1.example.com"],
        &["", "-a", "a-b-c", "a..com", "a.b.c", "www.example.com.", "a_b.com", "a.1com"],
    );
    check("k8sshortname", &["a-b", "1"], &["A", "-a", "", "a.b"]);
    check("k8slongname", &["a-b.c", "1"], &["A", ".a", "", "a..b"]);
    check(
        "uri",
        &[
            "/a",
            "http://a",
            "http://a:80/b?c",
            "a:b",
            "http://[::1]:80/",
            "*",
            "mailto:x@y",
            "http://u:p@h/%20",
        ],
        &["", "a", "a/b", "http://a:b/", "http://[::1/", "/%zz", "http://a b/", ":a", "http://a%20b/"],
    );
    check(
        "email",
        &["a@b", "a.b@c.d", "N M <a@b.c>", "\"q q\"@b", "<a@b>", "a@[1.2.3.4]", "a@b (comment)"],
        &["", "a", "a@", "@b", "a..b@c", "a@b@c", "a b@c", "<a@b", "\"\"@b"],
    );
}

#[test]
fn moments() {
    check("date", &["2024-02-29", "0000-01-01"], &["2023-02-29", "2023-2-1", "2023-13-01", "2023-01-01T"]);
    check(
        "datetime",
        &[
            "2014-12-15T19:30:20.000Z",
            "2014-12-15t19:30:20z",
            "2014-12-15T19:30:20+01:00",
            "2014-12-15T19:30:20x5Z",
        ],
        &[
            "2014-12-15",
            "2014-12-15T24:30:20Z",
            "2014-12-15T19:30:60Z",
            "2014-12-15 19:30:20Z",
            "2014-12-15T19:30:20",
        ],
    );
    check(
        "duration",
        &["1h", "1.5s", "22 ns", "2 days", "1 week and 3 min", "0"],
        &["", "x", "1", "3 x", "h"],
    );
}
