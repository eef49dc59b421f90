//! Certificates and certificate signing requests, in PEM and in DER.

use corten_pki::{
    CertificateRequest, identity_of, pem_certificates, public_key_of, requested_subject, to_pem,
};

pub(crate) fn check(data: &[u8]) {
    let _ = (identity_of(data), public_key_of(data));
    let subject = requested_subject(data).ok();
    assert_eq!(CertificateRequest::read(data).ok().map(|request| request.subject), subject);
    let request = format!("-----BEGIN CERTIFICATE REQUEST-----\n{}", body(&to_pem(data)));
    let _ =
        CertificateRequest::read(request.replace("END CERTIFICATE-", "END CERTIFICATE REQUEST-").as_bytes());
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(certificates) = pem_certificates(text)
    {
        for certificate in certificates {
            let _ = identity_of(&certificate);
            assert_eq!(
                pem_certificates(&to_pem(&certificate)).expect("PEM that was written is read"),
                [certificate]
            );
        }
    }
}

/// PEM without its first line.
fn body(pem: &str) -> &str {
    pem.split_once('\n').map_or("", |(_, body)| body)
}
