//! The cluster's certificate authorities, the certificates they sign, and kubeconfigs.
//!
//! A server calls [`ServerPki::load_or_create`] at every start: what is missing is made, what is stale is
//! made again, what is good is reused, so that a second start changes nothing.
//!
//! Invariants:
//! - A certificate authority or the service-account key is never replaced once it exists, except by the steps of
//!   [`RolloverStage`]: every client and every token depends on it. If it is unusable, the caller gets an [`Error`] that
//!   names the file.
//! - Leaf certificates are replaced freely; each new one gets a new key.
//! - A file appears whole or not at all, and private keys are readable by their owner only.
//!
//! File names are kubeadm's, so an existing kubeadm `pki` directory can be used as it is. Keys made here are
//! ECDSA P-256; existing RSA keys are accepted.

mod accept_any;
mod api_server;
mod authority;
mod bundle_verifier;
mod der;
mod error;
mod files;
mod identity;
mod kubeconfig;
mod leaf;
mod live;
mod pem;
mod proof;
mod request;
mod rollover;
mod sans;
mod server;
mod shared;
mod sign;
mod signing_request;

pub use accept_any::AcceptAnyCertificate;
pub use api_server::ApiServerVerifier;
pub use authority::Authority;
pub use bundle_verifier::BundleVerifier;
pub use error::{Error, Result};
pub use identity::{CertIdentity, identity_of, public_key_of};
pub use kubeconfig::{
    Credentials, KubeconfigNames, authority_in_kubeconfig, kubeconfig, parse_kubeconfig, write_kubeconfig,
};
pub use leaf::{IssuedCert, LeafRequest, LeafUsage};
pub use live::{LiveAuthorities, LiveCertificate};
pub use pem::{pem_certificates, pem_texts, to_pem};
pub use proof::{KeyKind, Proof, prove};
pub use request::{CertificateRequest, RequestedSubject, requested_subject};
pub use rollover::{RolloverStage, begin_rollover, finish_rollover, switch_authority};
pub use sans::Sans;
pub use server::{LiveCertificates, ServerPki, trusted_authorities};
pub use shared::{install_shared_files, shared_files};
pub use sign::SigningPolicy;
pub use signing_request::{SigningRequest, signing_request};
