//! Certificate requests are read at a cost in proportion to their size, whatever they are made of. The meter is that of
//! `crates/api/tests/bounds`.

#[path = "../../api/tests/bounds/meter.rs"]
mod meter;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_pki::{CertificateRequest, requested_subject};
use meter::{excess, settle};
use rcgen::{CertificateParams, KeyPair};

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let lines = lines.join("\n");
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{lines}\n-----END CERTIFICATE REQUEST-----\n")
}

/// A value of DER with its tag and length.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
    let mut out = vec![tag];
    match content.len() {
        short @ 0..=127 => out.push(short as u8),
        _ => {
            out.push(0x80 | digits.len() as u8);
            out.extend_from_slice(digits);
        }
    }
    out.extend_from_slice(content);
    out
}

/// A request with a subject of so many organizations, and with so many attributes. It is not signed.
fn handmade(organizations: usize, attributes: usize) -> Vec<u8> {
    let oid = |bytes: &[u8]| tagged(0x06, bytes);
    let organization = |i: usize| {
        let pair = [oid(&[0x55, 0x04, 0x0a]), tagged(0x0c, format!("group{i}").as_bytes())].concat();
        tagged(0x31, &tagged(0x30, &pair))
    };
    let subject = tagged(0x30, &(0..organizations).flat_map(organization).collect::<Vec<u8>>());
    // rsaEncryption, and a key that is none.
    let rsa = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]);
    let algorithm = tagged(0x30, &[rsa, vec![0x05, 0x00]].concat());
    let key = tagged(0x30, &[algorithm.clone(), tagged(0x03, &[0x00, 0x30, 0x00])].concat());
    // Further attributes are challenge passwords.
    let challenge = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x07]);
    let attribute = tagged(0x30, &[challenge, tagged(0x31, &tagged(0x0c, b"x"))].concat());
    let attributes = tagged(0xa0, &attribute.repeat(attributes));
    let info = tagged(0x30, &[tagged(0x02, &[0x00]), subject, key, attributes].concat());
    tagged(0x30, &[info, algorithm, tagged(0x03, &[0x00, 0x00])].concat())
}

fn named(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(|i| format!("n{i}.example")).collect();
    let params = CertificateParams::new(names).expect("names are names");
    let key = KeyPair::generate().expect("keys can be made");
    params.serialize_request(&key).expect("can be signed").der().to_vec()
}

/// Constructed values within each other.
fn nested(depth: usize) -> Vec<u8> {
    let mut headers = Vec::with_capacity(depth);
    let mut length = 0_usize;
    for _ in 0..depth {
        let header = [&[0x30, 0x84][..], &length.to_be_bytes()[4..]].concat();
        length += header.len();
        headers.push(header);
    }
    headers.into_iter().rev().flatten().collect()
}

type Make = fn(usize) -> String;

#[test]
fn certificate_requests() {
    let table: [(&str, Make); 8] = [
        ("names", |n| pem(&named(n))),
        ("organizations", |n| pem(&handmade(n, 1))),
        ("attributes", |n| pem(&handmade(1, n))),
        ("depth", |n| pem(&nested(n))),
        ("nothing but lines", |n| "\n".repeat(40 * n)),
        ("a line without an end", |n| "-".repeat(40 * n)),
        ("headers", |n| {
            let headers = "a: b\n".repeat(8 * n);
            format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{headers}\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
            )
        }),
        ("beginnings", |n| "-----BEGIN CERTIFICATE REQUEST-----\n".repeat(n)),
    ];
    let complaints: Vec<String> = table
        .iter()
        .filter_map(|(name, make)| {
            let read = |text: &String| {
                let _ = requested_subject(text.as_bytes());
                CertificateRequest::read(text.as_bytes()).is_ok()
            };
            excess(name, 3_000, make, String::len, read)
        })
        .collect();
    settle(&complaints);
}

#[test]
fn handmade_requests_are_read() {
    let subject = requested_subject(pem(&handmade(3, 2)).as_bytes()).expect("is a request");
    assert_eq!(subject.organizations, ["group0", "group1", "group2"]);
}
