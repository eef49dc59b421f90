//! Certificates in PEM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::{Error, Result};

/// Every certificate in a PEM text.
pub fn pem_certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|certificate| certificate.map_err(|error| Error::NotACertificate(error.to_string())))
        .collect()
}

/// Every certificate of a PEM text, as its own text.
pub fn pem_texts(pem: &str) -> impl Iterator<Item = &str> {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_inclusive(END).filter_map(move |part| {
        let start = part.find("-----BEGIN CERTIFICATE-----")?;
        // The line break after the end belongs to the text that was joined.
        let from = part.as_ptr() as usize - pem.as_ptr() as usize;
        let rest = &pem[from + part.len()..];
        let breaks = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
        part.ends_with(END).then(|| &pem[from + start..from + part.len() + breaks])
    })
}

/// A certificate in PEM.
pub fn to_pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so every byte index is a character boundary.
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let (one, two) = (vec![7; 100], vec![9; 48]);
        let text = to_pem(&one) + &to_pem(&two);
        assert!(text.lines().all(|line| line.len() <= 64));
        let read = pem_certificates(&text).unwrap();
        assert_eq!(read, [CertificateDer::from(one), CertificateDer::from(two)]);
        assert!(pem_certificates("-----BEGIN CERTIFICATE-----\n").is_err());
        assert!(pem_certificates("").unwrap().is_empty());
        assert_eq!(pem_texts(&text).collect::<Vec<_>>(), [to_pem(&[7; 100]), to_pem(&[9; 48])]);
        let others = format!("# one\n{}", text.replace('\n', "\r\n"));
        assert_eq!(pem_texts(&others).collect::<String>(), text.replace('\n', "\r\n"));
        assert_eq!(pem_texts("-----BEGIN CERTIFICATE-----\n").count(), 0);
    }
}
