//! Credentials: whatever a client or a file says, it is read or refused, and nothing unsigned is believed.

use corten_api::json;
use corten_auth::authentication::bootstrap_token::BootstrapToken;
use corten_auth::authentication::service_account_token::{Claims, Registered};
use corten_auth::authentication::{PublicKeys, SigningKey, Token, TokenFile, configuration, legacy_token};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(token) = Token::parse(text) {
        assert!(token.verify(&PublicKeys::default()).is_err(), "{text:?} was believed");
    }
    if let Some(token) = BootstrapToken::parse(text) {
        assert_eq!(token.secret_name().len(), "bootstrap-token-".len() + 6);
    }
    if let Ok(claims) = json::parse(data) {
        let _ = Claims::read(&claims);
        if let Ok(registered) = Registered::read(&claims) {
            let _ = registered.check_time(jiff::Timestamp::UNIX_EPOCH);
            let _ = legacy_token::Claims::read(&claims, &registered);
        }
    }
    let _ = TokenFile::parse(text);
    let _ = PublicKeys::from_pem(text);
    let _ = SigningKey::from_pem(text);
    let _ = configuration(text);
}
