//! Tokens of service accounts for pods: asked for once, kept while they are fresh, and renewed in time.

use std::collections::HashMap;

use corten_api::{Value, json};
use corten_client::{Key, kinds};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::machine::Machine;
use crate::pod::Pod;
use crate::volumes::token_request;

/// After this part of its life a token is renewed.
const FRESH: f64 = 0.8;
/// No token is used for longer than this.
const OLDEST_SECONDS: i64 = 24 * 3600;

#[derive(Default)]
pub(crate) struct Tokens(Mutex<HashMap<String, Token>>);

#[derive(Clone)]
struct Token {
    text: String,
    renew_at: Timestamp,
}

impl Tokens {
    /// A token for a pod's account, made anew if the last one is no longer fresh.
    pub(crate) async fn get(
        &self,
        machine: &Machine,
        pod: &Pod,
        account: &Key,
        audiences: &[Value],
        seconds: i64,
    ) -> Result<String, String> {
        let audience = json::write_to_string(&Value::Array(audiences.to_vec()));
        let name = format!("{}/{account}/{audience}/{seconds}", pod.uid());
        let now = machine.clock.now();
        if let Some(token) = self.0.lock().get(&name).filter(|token| token.renew_at > now) {
            return Ok(token.text.clone());
        }
        let request = token_request(pod, audiences, seconds);
        let answer =
            machine.client.create_subresource(&kinds::SERVICE_ACCOUNTS, account, "token", &request).await;
        let answer = answer.map_err(|e| format!("failed to fetch token: {e}"))?;
        let text = answer.str_at(&["status", "token"]).unwrap_or_default().to_owned();
        let expires: Option<Timestamp> =
            answer.str_at(&["status", "expirationTimestamp"]).and_then(|text| text.parse().ok());
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
