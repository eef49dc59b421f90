//! Credentials in tokens, headers and files, and their verification.
//!
//! One file per kind of credential. An invalid credential of a kind is a [`Refusal`]; one of another kind is `None`, so that
//! the next kind can be tried. No claim is used before its signature has been verified.

pub mod bootstrap_token;
mod configuration;
pub mod discovery;
mod front_proxy;
mod jwt;
mod keys;
pub mod legacy_token;
mod refusal;
pub mod service_account_token;
mod token_file;
pub mod token_request;

pub use configuration::{Anonymous, ConfigurationError, configuration};
pub use front_proxy::FrontProxy;
pub use jwt::Token;
pub use keys::{KeyError, PublicKey, PublicKeys, SigningKey};
pub use refusal::Refusal;
pub use token_file::{TokenFile, TokenFileError};

/// The key of a user's `extra` with the id of the credential.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The key of a node's `extra` with the remote address of its connection to the API server.
pub const REMOTE_ADDRESS: &str = "corten.dev/remote-address";

/// A digest that is kept instead of a secret.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    out
}

/// True if two secrets are equal, compared in constant time.
fn same_secret(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}
