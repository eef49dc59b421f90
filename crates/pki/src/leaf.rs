//! Leaf certificates signed by an [`Authority`]: serving and client certificates.
//!
//! A stored leaf is reused while it matches the request exactly, has the key beside it, was signed by the
//! authority in use and has a month left. Otherwise it is issued again, with a new key; the key is written
//! first, so an interrupted write leaves a pair that does not match and is issued again at the next start.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose, PublicKeyData,
    SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use crate::authority::{self, CLOCK_SKEW, date};
use crate::files::{self, Access};
use crate::{Authority, Error, Result, Sans, identity_of};

const LIFETIME: Duration = Duration::from_secs(365 * 86_400);
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);
const REISSUE: &str = "delete it and it will be issued again at the next start";

/// The use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafUsage {
    /// Presented by a server to its clients.
    Server,
    /// Presented by a client: its common name is the user, its organization the group.
    Client,
    /// Presented by servers to each other, as server and as client.
    Peer,
}

/// A certificate to be issued.
#[derive(Clone, Debug)]
pub struct LeafRequest {
    /// The subject's common name; for clients, the user name.
    pub common_name: String,
    /// The subject's organization; for clients, the group.
    pub organization: Option<String>,
    /// The names and addresses of a server; empty for clients.
    pub sans: Sans,
    /// Server, client or both.
    pub usage: LeafUsage,
}

/// A certificate with its key, in PEM.
#[derive(Clone)]
pub struct IssuedCert {
    /// The certificate.
    pub cert_pem: String,
    /// Its private key, PKCS #8.
    pub key_pem: String,
}

impl IssuedCert {
    /// A self-signed certificate for localhost, for servers whose clients do not verify them.
    pub fn self_signed(common_name: &str, now: SystemTime) -> Result<IssuedCert> {
        let own = Sans::default().with_host("localhost")?.with_address(Ipv4Addr::LOCALHOST.into());
        IssuedCert::self_signed_for(common_name, &own, now)
    }

    /// A self-signed certificate for a server with these names.
    pub fn self_signed_for(common_name: &str, sans: &Sans, now: SystemTime) -> Result<IssuedCert> {
        let key = authority::generate_key()?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = alternative_names(sans)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = date(now - CLOCK_SKEW)?;
        params.not_after = date(now + LIFETIME)?;
        let cert = params.self_signed(&key).map_err(Error::crypto("sign a certificate"))?;
        Ok(IssuedCert { cert_pem: cert.pem(), key_pem: key.serialize_pem() })
    }

    /// Writes both; only their owner can read the key.
    pub fn write(&self, cert_path: &Path, key_path: &Path) -> Result<()> {
        files::private_directory(key_path.parent().unwrap_or(Path::new(".")))?;
        files::write(key_path, &self.key_pem, Access::Owner)?;
        files::write(cert_path, &self.cert_pem, Access::Everyone)
    }

    /// The certificates of `cert_pem`, leaf first, for rustls.
    pub fn chain(&self) -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_slice_iter(self.cert_pem.as_bytes())
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::NotACertificate(error.to_string()))
    }

    /// The private key, for rustls.
    pub fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(|_| Error::Crypto {
            operation: "read a key",
            source: rcgen::Error::CouldNotParseKeyPair,
        })
    }
}

impl Authority {
    /// Signs a new certificate with a new key.
    pub fn issue(&self, request: &LeafRequest, now: SystemTime) -> Result<IssuedCert> {
        let key = authority::generate_key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(organization) = &request.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.distinguished_name.push(DnType::CommonName, &request.common_name);
        params.subject_alt_names = alternative_names(&request.sans)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match request.usage {
            LeafUsage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            LeafUsage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            LeafUsage::Peer => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        params.not_before = date(now - CLOCK_SKEW)?;
        params.not_after = date(now + LIFETIME)?.min(self.not_after);
        let cert = params.signed_by(&key, &self.issuer).map_err(Error::crypto("sign a certificate"))?;
        Ok(IssuedCert { cert_pem: cert.pem(), key_pem: key.serialize_pem() })
    }

    /// The certificate in `dir/<file>.crt` and `.key`, issued (again) if it is missing or stale.
    pub fn load_or_issue(
        &self,
        dir: &Path,
        file: &str,
        request: &LeafRequest,
        now: SystemTime,
    ) -> Result<IssuedCert> {
        let (cert_path, key_path) = (dir.join(format!("{file}.crt")), dir.join(format!("{file}.key")));
        let cert_pem = files::read(&cert_path, REISSUE)?;
        let key_pem = files::read_private(&key_path, REISSUE)?;
        if let (Some(cert_pem), Some(key_pem)) = (cert_pem, key_pem) {
            let key = authority::parse_key(&key_path, &key_pem, REISSUE)?;
            let der = authority::parse_certificate(&cert_path, &cert_pem, REISSUE)?;
            let (_, cert) = x509_parser::parse_x509_certificate(&der)
                .map_err(|_| Error::broken(&cert_path, "is not an X.509 certificate", REISSUE))?;
            if cert.public_key().raw == key.subject_public_key_info()
                && self.signed(&cert)
                && matches_request(&der, &cert, request)
                && in_force(&cert, now)?
            {
                return Ok(IssuedCert { cert_pem, key_pem });
            }
        }
        let issued = self.issue(request, now)?;
        files::write(&key_path, &issued.key_pem, Access::Owner)?;
        files::write(&cert_path, &issued.cert_pem, Access::Everyone)?;
        Ok(issued)
    }
}

/// The first time at which one of these certificates is to be renewed.
pub(crate) fn renewal_of<'c>(leaves: impl IntoIterator<Item = &'c IssuedCert>) -> Result<SystemTime> {
    let mut first: Option<SystemTime> = None;
    for leaf in leaves {
        let chain = leaf.chain()?;
        let der = chain.first().ok_or_else(|| Error::NotACertificate("it is empty".to_owned()))?;
        let due = identity_of(der)?.not_after - RENEW_BEFORE;
        first = Some(first.map_or(due, |first| first.min(due)));
    }
    Ok(first.unwrap_or(SystemTime::UNIX_EPOCH))
}

pub(crate) fn alternative_names(sans: &Sans) -> Result<Vec<SanType>> {
    let mut all = Vec::with_capacity(sans.names.len() + sans.addresses.len());
    for name in &sans.names {
        let ascii = name.as_str().try_into().map_err(|_| Error::InvalidName(name.clone()))?;
        all.push(SanType::DnsName(ascii));
    }
    all.extend(sans.addresses.iter().copied().map(SanType::IpAddress));
    Ok(all)
}

/// True if the certificate is valid now and for at least the renewal margin.
fn in_force(cert: &X509Certificate<'_>, now: SystemTime) -> Result<bool> {
    let validity = cert.validity();
    Ok(validity.not_before.to_datetime() <= date(now)?
        && validity.not_after.to_datetime() > date(now + RENEW_BEFORE)?)
}

/// True if the certificate has the requested subject, names and usage.
fn matches_request(der: &[u8], cert: &X509Certificate<'_>, request: &LeafRequest) -> bool {
    let Ok(identity) = identity_of(der) else { return false };
    let usage = match cert.extended_key_usage() {
        Ok(Some(usage)) => usage.value,
        _ => return false,
    };
    let usage_fits = match request.usage {
        LeafUsage::Server => usage.server_auth,
        LeafUsage::Client => usage.client_auth,
        LeafUsage::Peer => usage.server_auth && usage.client_auth,
    };
    usage_fits
        && identity.common_name == request.common_name
        && identity.organizations.iter().eq(request.organization.iter())
        && sans_of(cert).is_some_and(|sans| sans == request.sans)
}

fn sans_of(cert: &X509Certificate<'_>) -> Option<Sans> {
    let mut sans = Sans::default();
    let Some(extension) = cert.subject_alternative_name().ok()? else { return Some(sans) };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => {
                sans.names.insert((*name).to_owned());
            }
            GeneralName::IPAddress(bytes) => {
                sans.addresses.insert(address(bytes)?);
            }
            _ => return None,
        }
    }
    Some(sans)
}

pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}
