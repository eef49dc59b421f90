//! OpenID discovery, with which other servers verify tokens: the provider's configuration and its key set.

use std::collections::BTreeSet;

use corten_api::{Map, Value};

use super::PublicKeys;

pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
pub const KEYS_PATH: &str = "/openid/v1/jwks";

/// True if an issuer supports discovery: it must be an HTTPS URL.
pub fn is_discoverable(issuer: &str) -> bool {
    issuer.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#']))
}

/// The provider's configuration.
pub fn configuration(issuer: &str, keys_uri: &str, keys: &PublicKeys) -> Value {
    let list = |items: Vec<&str>| Value::Array(items.into_iter().map(Value::from).collect());
    let algorithms: BTreeSet<&str> = keys.iter().map(|key| key.algorithm()).collect();
    let mut map = Map::new();
    map.insert("issuer", issuer);
    map.insert("jwks_uri", keys_uri);
    map.insert("response_types_supported", list(vec!["id_token"]));
    map.insert("subject_types_supported", list(vec!["public"]));
    map.insert("id_token_signing_alg_values_supported", list(algorithms.into_iter().collect()));
    Value::Object(map)
}

/// The public keys.
pub fn key_set(keys: &PublicKeys) -> Value {
    let mut map = Map::new();
    map.insert("keys", keys.iter().map(|key| key.to_jwk()).collect::<Vec<Value>>());
    Value::Object(map)
}
