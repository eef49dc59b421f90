//! Signs certificate signing requests: for the requested subject and names, with the usages and the lifetime of the signing
//! policy. Everything else in a request is ignored.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{SignatureAlgorithm, SigningKey};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

use crate::authority::CLOCK_SKEW;
use crate::{Authority, CertificateRequest, Error, Result, der, to_pem};

/// A shorter lifetime counts from now, a longer one from when the certificate begins to be valid.
const SHORT: Duration = Duration::from_secs(8 * 3600);

/// Key usages: the API's name, and the number of the bit.
const KEY_USAGES: [(&str, u8); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Extended key usages: the API's name, and the object identifier; in the order they are encoded.
const EXTENDED_KEY_USAGES: [(&str, &[u8]); 13] = [
    ("any", b"\x55\x1d\x25\x00"),
    ("server auth", b"\x2b\x06\x01\x05\x05\x07\x03\x01"),
    ("client auth", b"\x2b\x06\x01\x05\x05\x07\x03\x02"),
    ("code signing", b"\x2b\x06\x01\x05\x05\x07\x03\x03"),
    ("email protection", b"\x2b\x06\x01\x05\x05\x07\x03\x04"),
    ("s/mime", b"\x2b\x06\x01\x05\x05\x07\x03\x04"),
    ("ipsec end system", b"\x2b\x06\x01\x05\x05\x07\x03\x05"),
    ("ipsec tunnel", b"\x2b\x06\x01\x05\x05\x07\x03\x06"),
    ("ipsec user", b"\x2b\x06\x01\x05\x05\x07\x03\x07"),
    ("timestamping", b"\x2b\x06\x01\x05\x05\x07\x03\x08"),
    ("ocsp signing", b"\x2b\x06\x01\x05\x05\x07\x03\x09"),
    ("microsoft sgc", b"\x2b\x06\x01\x04\x01\x82\x37\x0a\x03\x03"),
    ("netscape sgc", b"\x60\x86\x48\x01\x86\xf8\x42\x04\x01"),
];

const KEY_USAGE: &[u8] = b"\x55\x1d\x0f";
const SUBJECT_ALTERNATIVE_NAME: &[u8] = b"\x55\x1d\x11";
const BASIC_CONSTRAINTS: &[u8] = b"\x55\x1d\x13";
const AUTHORITY_KEY_IDENTIFIER: &[u8] = b"\x55\x1d\x23";
const EXTENDED_KEY_USAGE: &[u8] = b"\x55\x1d\x25";

/// The usages and the lifetime of certificates.
#[derive(Debug, Clone, Copy)]
pub struct SigningPolicy<'a> {
    pub lifetime: Duration,
    /// Usages, by their names in the certificates API.
    pub usages: &'a [&'a str],
}

impl Authority {
    /// Signs a request; the certificate in PEM.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        policy: &SigningPolicy<'_>,
        now: SystemTime,
    ) -> Result<String> {
        let bad = |why: String| Error::NotARequest(why);
        let (_, parsed) =
            X509CertificationRequest::from_der(&request.der).map_err(|error| bad(error.to_string()))?;
        parsed.verify_signature().map_err(|_| bad("it is not signed with its own key".to_owned()))?;
        let asked = &parsed.certification_request_info;
        let (_, own) = x509_parser::parse_x509_certificate(self.der())
            .map_err(|error| Error::NotACertificate(error.to_string()))?;
        let key_id = own.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
            _ => None,
        });
        let extensions = extensions(request, policy, key_id)?;
        let algorithm = algorithm(self.issuer.key().algorithm())?;
        let body = der::sequence(&[
            // Version 3.
            &der::wrapped(0, &der::integer(&[2])),
            &der::integer(&serial_number()?),
            algorithm,
            own.subject().as_raw(),
            &self.validity(policy.lifetime, now)?,
            asked.subject.as_raw(),
            asked.subject_pki.raw,
            &der::wrapped(3, &der::sequence(&[&extensions])),
        ]);
        let signature = self.issuer.key().sign(&body).map_err(Error::crypto("sign a certificate"))?;
        Ok(to_pem(&der::sequence(&[&body, algorithm, &der::bit_string(&signature)])))
    }

    /// The validity of a certificate: never beyond the authority's own.
    fn validity(&self, lifetime: Duration, now: SystemTime) -> Result<Vec<u8>> {
        let end = SystemTime::from(self.not_after);
        if end <= now {
            return Err(Error::SignerExpired(self.not_after.to_string()));
        }
        let begin = now - CLOCK_SKEW;
        let until = if lifetime < SHORT { now + lifetime } else { begin + lifetime };
        Ok(der::sequence(&[&der::time(begin)?, &der::time(until.min(end))?]))
    }
}

/// The DER of the AlgorithmIdentifier.
fn algorithm(algorithm: &SignatureAlgorithm) -> Result<&'static [u8]> {
    let known: [(&SignatureAlgorithm, &[u8]); 7] = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"),
        (&rcgen::PKCS_ECDSA_P384_SHA384, b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x03"),
        (&rcgen::PKCS_ECDSA_P521_SHA512, b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x04"),
        (&rcgen::PKCS_RSA_SHA256, b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00"),
        (&rcgen::PKCS_RSA_SHA384, b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c\x05\x00"),
        (&rcgen::PKCS_RSA_SHA512, b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d\x05\x00"),
        (&rcgen::PKCS_ED25519, b"\x30\x05\x06\x03\x2b\x65\x70"),
    ];
    let unusable =
        || Error::crypto("sign with a key of this kind")(rcgen::Error::UnsupportedSignatureAlgorithm);
    known.into_iter().find(|(known, _)| *known == algorithm).map(|(_, written)| written).ok_or_else(unusable)
}

fn serial_number() -> Result<[u8; 16]> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).map_err(|_| Error::Random)?;
    // Numbers are positive.
    serial[0] &= 0x7f;
    serial[15] |= 1;
    Ok(serial)
}

fn extensions(
    request: &CertificateRequest,
    policy: &SigningPolicy<'_>,
    issuer: Option<&[u8]>,
) -> Result<Vec<u8>> {
    let known = |usage: &str| {
        KEY_USAGES.iter().any(|(name, _)| *name == usage)
            || EXTENDED_KEY_USAGES.iter().any(|(name, _)| *name == usage)
    };
    let unknown: Vec<_> = policy.usages.iter().filter(|usage| !known(usage)).collect();
    if !unknown.is_empty() {
        return Err(Error::NotARequest(format!("unrecognized usage values: {unknown:?}")));
    }
    let wanted = |name: &str| policy.usages.contains(&name);
    let bits: Vec<u8> = KEY_USAGES.iter().filter(|(name, _)| wanted(name)).map(|(_, bit)| *bit).collect();
    let mut extended: Vec<&[u8]> =
        EXTENDED_KEY_USAGES.iter().filter(|(name, _)| wanted(name)).map(|(_, id)| *id).collect();
    extended.dedup();
    let mut all = Vec::new();
    if !bits.is_empty() {
        all.extend(extension(KEY_USAGE, true, &der::bits(&bits)));
    }
    if !extended.is_empty() {
        let ids: Vec<u8> = extended.iter().flat_map(|id| der::tagged(der::OBJECT_IDENTIFIER, id)).collect();
        all.extend(extension(EXTENDED_KEY_USAGE, false, &der::sequence(&[&ids])));
    }
    all.extend(extension(BASIC_CONSTRAINTS, true, &der::sequence(&[])));
    if let Some(id) = issuer {
        all.extend(extension(AUTHORITY_KEY_IDENTIFIER, false, &der::sequence(&[&der::numbered(0, id)])));
    }
    let names = alternative_names(request);
    if !names.is_empty() {
        let only = request.subject == crate::RequestedSubject::default();
        all.extend(extension(SUBJECT_ALTERNATIVE_NAME, only, &der::sequence(&[&names])));
    }
    Ok(all)
}

fn extension(id: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let critical = if critical { der::tagged(der::BOOLEAN, &[0xff]) } else { Vec::new() };
    let id = der::tagged(der::OBJECT_IDENTIFIER, id);
    der::sequence(&[&id, &critical, &der::tagged(der::OCTET_STRING, content)])
}

fn alternative_names(request: &CertificateRequest) -> Vec<u8> {
    let texts = |number: u8, names: &[String]| -> Vec<u8> {
        names.iter().flat_map(|name| der::numbered(number, name.as_bytes())).collect()
    };
    let addresses: Vec<u8> =
        request.ip_addresses.iter().flat_map(|address| der::numbered(7, &octets(*address))).collect();
    [texts(2, &request.dns_names), texts(1, &request.email_addresses), addresses, texts(6, &request.uris)]
        .concat()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests;
