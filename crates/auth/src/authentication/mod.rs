//! Credentials: what a token, a header or a file says, and whether it can be believed.
//!
//! One file per kind of credential. A credential that is of a kind but cannot be believed is a
//! [`Refusal`]; one of another kind is `None`, so that the next kind can be asked. Nothing here trusts a
//! claim before its signature has been verified.

pub mod bootstrap_token;
mod configuration;
pub mod discovery;
mod front_proxy;
mod jwt;
mod keys;
pub mod legacy_token;
mod refusal;
pub mod service_account;
mod token_file;
pub mod token_request;

pub use configuration::{Anonymous, ConfigurationError, configuration};
pub use front_proxy::FrontProxy;
pub use jwt::Token;
pub use keys::{KeyError, PublicKey, PublicKeys, SigningKey};
pub use refusal::Refusal;
pub use token_file::{TokenFile, TokenFileError};

/// Under which key of a user's `extra` the credential is named.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Under which key of a node's `extra` the address is that its connection came from, as the API server saw it.
pub const REMOTE_ADDRESS: &str = "corten.dev/remote-address";

/// A digest that stands for a secret where the secret itself need not be kept.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    out
}

/// Whether two secrets are the same, in a time that does not tell how far they agree.
fn same_secret(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}
