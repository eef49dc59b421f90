//! AWS Signature Version 4, in the `Authorization` header. Pure.
//!
//! Paths and queries here have no character but those that need no encoding, and `/`; the values of queries are encoded.

use std::fmt::Write;

use aws_lc_rs::hmac;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::S3Credentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "s3";

/// A request as it is signed.
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    /// Names and plain values, sorted by name.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// The digest of the body in hexadecimal digits.
    pub(super) body_sha256: &'a str,
    pub(super) at: Timestamp,
}

/// The headers that sign a request, without `Host`.
pub(super) fn headers(
    request: &Unsigned<'_>,
    region: &str,
    credentials: &S3Credentials,
) -> Vec<(&'static str, String)> {
    let at = request.at.to_zoned(TimeZone::UTC);
    let (time, date) = (at.strftime("%Y%m%dT%H%M%SZ").to_string(), at.strftime("%Y%m%d").to_string());
    let mut signed = vec![
        ("host", request.host.to_owned()),
        ("x-amz-content-sha256", request.body_sha256.to_owned()),
        ("x-amz-date", time.clone()),
    ];
    if let Some(token) = &credentials.session_token {
        signed.push(("x-amz-security-token", token.to_string()));
    }
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, query(request.query));
    for (name, value) in &signed {
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let _ = write!(canonical, "\n{names}\n{}", request.body_sha256);
    let scope = format!("{date}/{region}/{SERVICE}/aws4_request");
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = format!("AWS4{}", &*credentials.secret_key).into_bytes();
    for part in [&date, region, SERVICE, "aws4_request"] {
        key = mac(&key, part);
    }
    let signature = hex(&mac(&key, &text));
    let id = &credentials.access_key;
    let authorization =
        format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    signed.remove(0);
    signed.push(("authorization", authorization));
    signed
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// A query with encoded values.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        let _ = write!(text, "{name}=");
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(byte.into()),
                byte => {
                    let _ = write!(text, "%{byte:02X}");
                }
            }
        }
    }
    text
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Amazon's documentation of Signature Version 4 that sign these headers alone.
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let credentials =
            S3Credentials::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let empty = hex(&Sha256::digest(b""));
        for (query, signature) in [
            (&[("lifecycle", "")][..], "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            (
                &[("max-keys", "2"), ("prefix", "J")],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let request = Unsigned {
                method: "GET",
                host: "examplebucket.s3.amazonaws.com",
                path: "/",
                query,
                body_sha256: &empty,
                at: "2013-05-24T00:00:00Z".parse().unwrap(),
            };
            let headers = headers(&request, "us-east-1", &credentials);
            let (_, authorization) = headers.last().unwrap();
            assert!(authorization.ends_with(&format!("Signature={signature}")), "{authorization}");
        }
    }

    #[test]
    fn values_of_queries_are_encoded() {
        assert_eq!(query(&[("a", "x/y +="), ("b", "")]), "a=x%2Fy%20%2B%3D&b=");
    }
}
