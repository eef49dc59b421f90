//! Service account tokens of pods: requested, cached, and renewed in time.

use std::collections::HashMap;

use corten_api::{Value, json, value};
use corten_base::Clock;
use corten_client::{Key, kinds};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::api_server::ApiServer;
use crate::pod::Pod;

/// The fraction of a token's lifetime after which it is renewed.
const FRESH: f64 = 0.8;
/// The longest time that a token is used.
const OLDEST_SECONDS: i64 = 24 * 3600;

/// A token could not be requested.
#[derive(Debug, thiserror::Error)]
#[error("failed to fetch token: {0}")]
pub(crate) struct TokenError(corten_client::Error);

/// The tokens of pods' service accounts.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<HashMap<String, Token>>);

#[derive(Clone)]
struct Token {
    text: String,
    renew_at: Timestamp,
}

impl Tokens {
    /// A token of a pod's service account, from the cache if it need not be renewed.
    pub(crate) async fn get(
        &self,
        api: &ApiServer,
        clock: &Clock,
        pod: &Pod,
        account: &Key,
        audiences: &[Value],
        seconds: i64,
    ) -> Result<String, TokenError> {
        let audience = json::write_to_string(&Value::Array(audiences.to_vec()));
        let name = format!("{}/{account}/{audience}/{seconds}", pod.uid());
        let now = clock.now();
        if let Some(token) = self.0.lock().get(&name).filter(|token| token.renew_at > now) {
            return Ok(token.text.clone());
        }
        let request = token_request(pod, audiences, seconds);
        let response =
            api.client.create_subresource(&kinds::SERVICE_ACCOUNTS, account, "token", &request).await;
        let response = response.map_err(TokenError)?;
        let text = response.str_at(&["status", "token"]).unwrap_or_default().to_owned();
        let expires: Option<Timestamp> =
            response.str_at(&["status", "expirationTimestamp"]).and_then(|text| text.parse().ok());
        let life = expires.map_or(seconds, |at| at.as_second() - now.as_second()).min(OLDEST_SECONDS);
        let renew_at = now + std::time::Duration::from_secs((life.max(0) as f64 * FRESH) as u64);
        self.0.lock().insert(name, Token { text: text.clone(), renew_at });
        Ok(text)
    }

    /// Forgets a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().retain(|name, _| !name.starts_with(uid));
    }
}

/// The request for a token that is bound to a pod.
fn token_request(pod: &Pod, audiences: &[Value], seconds: i64) -> Value {
    value!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": (audiences.to_vec()), "expirationSeconds": (seconds),
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": (pod.name()), "uid": (pod.uid())},
        },
    })
}
