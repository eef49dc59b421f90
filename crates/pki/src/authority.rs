//! A certificate authority: a self-signed certificate and its key, kept in `<name>.crt` and `<name>.key`.
//!
//! It is made once and never replaced. The key is written before the certificate, so a start that was
//! interrupted in between finds the key alone and makes the certificate for it.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;

use crate::files::{self, Access};
use crate::{Error, Result};

/// The name of the cluster's first CA.
pub(crate) const CLUSTER: &str = "kubernetes";
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Certificates are valid from a little before they are made, for clients whose clock is behind.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_secs(300);
const RESTORE: &str = "restore it from a backup, or delete the whole pki directory to start with a new \
                       authority (every kubeconfig and node must then be set up again)";

const PROVIDE: &str = "give the files of an authority that can sign";

/// A certificate authority that can sign.
pub struct Authority {
    pub(crate) issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
    pub(crate) not_after: OffsetDateTime,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Authority {
    /// The authority in `dir/<file>.crt` and `.key`, made for `common_name` if it is not there yet.
    pub fn load_or_create(dir: &Path, file: &str, common_name: &str, now: SystemTime) -> Result<Authority> {
        let (cert_path, key_path) = (dir.join(format!("{file}.crt")), dir.join(format!("{file}.key")));
        let cert_pem = files::read(&cert_path, RESTORE)?;
        let key_pem = files::read_private(&key_path, RESTORE)?;
        let key = match (&key_pem, &cert_pem) {
            (Some(pem), _) => parse_key(&key_path, pem, RESTORE)?,
            (None, Some(_)) => {
                return Err(Error::broken(
                    &key_path,
                    "is missing although its certificate is there",
                    RESTORE,
                ));
            }
            (None, None) => {
                let key = generate_key()?;
                files::write(&key_path, &key.serialize_pem(), Access::Owner)?;
                key
            }
        };
        let cert_pem = match cert_pem {
            Some(pem) => pem,
            None => {
                let pem = self_sign(common_name, &key, now)?;
                files::write(&cert_path, &pem, Access::Everyone)?;
                pem
            }
        };
        let authority = Authority::from_parts(&cert_path, cert_pem, key)?;
        if authority.not_after <= date(now)? {
            let expired = format!("expired on {}", authority.not_after.date());
            return Err(Error::broken(&cert_path, expired, RESTORE));
        }
        Ok(authority)
    }

    /// Loads an authority that an operator provides. Signing fails if it has expired.
    pub fn load(cert_path: &Path, key_path: &Path) -> Result<Authority> {
        let missing = |path: &Path| Error::broken(path, "is missing", PROVIDE);
        let cert_pem = files::read(cert_path, PROVIDE)?.ok_or_else(|| missing(cert_path))?;
        let key_pem = files::read(key_path, PROVIDE)?.ok_or_else(|| missing(key_path))?;
        Authority::from_parts(cert_path, cert_pem, parse_key(key_path, &key_pem, PROVIDE)?)
    }

    fn from_parts(path: &Path, pem: String, key: KeyPair) -> Result<Authority> {
        let der = parse_certificate(path, &pem, RESTORE)?;
        let broken = |problem: &str| Error::broken(path, problem, RESTORE);
        let (_, x509) =
            x509_parser::parse_x509_certificate(&der).map_err(|_| broken("is not an X.509 certificate"))?;
        if !x509.is_ca() {
            return Err(broken("is not the certificate of an authority"));
        }
        if x509.public_key().raw != key.subject_public_key_info() {
            return Err(broken("does not belong to the key beside it"));
        }
        let not_after = x509.validity().not_after.to_datetime();
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(Error::crypto("use the authority"))?;
        Ok(Authority { issuer, der, pem, not_after })
    }

    /// The certificate in PEM, as put into kubeconfigs.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The certificate in DER, as a root for verifying what this authority signed.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// True if this authority signed `leaf`.
    pub(crate) fn signed(&self, leaf: &X509Certificate<'_>) -> bool {
        match x509_parser::parse_x509_certificate(&self.der) {
            Ok((_, own)) => {
                own.subject().as_raw() == leaf.issuer().as_raw()
                    && leaf.verify_signature(Some(own.public_key())).is_ok()
            }
            Err(_) => false,
        }
    }
}

pub(crate) fn self_sign(common_name: &str, key: &KeyPair, now: SystemTime) -> Result<String> {
    let signed = parameters(common_name, now)?.self_signed(key);
    Ok(signed.map_err(Error::crypto("sign the authority's certificate"))?.pem())
}

/// The certificate of another authority's key, signed by this one.
pub(crate) fn cross_sign(
    common_name: &str,
    key: &KeyPair,
    by: &Authority,
    now: SystemTime,
) -> Result<String> {
    let mut params = parameters(common_name, now)?;
    params.not_after = params.not_after.min(by.not_after);
    let signed = params.signed_by(key, &by.issuer);
    Ok(signed.map_err(Error::crypto("sign the authority's certificate"))?.pem())
}

fn parameters(common_name: &str, now: SystemTime) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    params.not_before = date(now - CLOCK_SKEW)?;
    params.not_after = date(now + LIFETIME)?;
    Ok(params)
}

pub(crate) fn generate_key() -> Result<KeyPair> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(Error::crypto("generate a key"))
}

pub(crate) fn parse_key(path: &Path, pem: &str, remedy: &'static str) -> Result<KeyPair> {
    KeyPair::from_pem(pem).map_err(|_| Error::broken(path, "is not a PEM private key", remedy))
}

/// The first certificate of a PEM file.
pub(crate) fn parse_certificate(
    path: &Path,
    pem: &str,
    remedy: &'static str,
) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| Error::broken(path, "is not a PEM certificate", remedy))
}

/// A certificate's date: whole seconds.
pub(crate) fn date(time: SystemTime) -> Result<OffsetDateTime> {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| Error::Clock)?.as_secs();
    let seconds = i64::try_from(seconds).map_err(|_| Error::Clock)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| Error::Clock)
}
