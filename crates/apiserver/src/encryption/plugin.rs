//! The client of a KMS plugin: gRPC on a Unix socket, `v2.KeyManagementService`.
//!
//! Invariants: every call ends within the provider's timeout; nothing that a plugin returns is used before it is validated;
//! data keys are in no message of the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use corten_base::Clock;
use corten_encryption::EnvelopeMetrics;
use corten_encryption::kms::protocol::{
    DECRYPT, DecryptRequest, DecryptResponse, ENCRYPT, EncryptRequest, EncryptResponse, STATUS,
    StatusRequest, StatusResponse,
};
use corten_encryption::kms::{DekSource, Kms, Undecrypted, hash, new_seed, validate_key_id, whole_seconds};
use corten_grpc::protobuf::Message;
use corten_grpc::{CallOptions, Channel, ChannelOptions, Endpoint, Status};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::random;

/// Upstream's times: the age at which the outcome of a check is outdated, and the term of a data key.
const HEALTHY_FOR: SignedDuration = SignedDuration::from_secs(20);
const UNHEALTHY_FOR: SignedDuration = SignedDuration::from_secs(3);
const DATA_KEY_TERM: SignedDuration = SignedDuration::from_mins(3);
/// The limit of a response, which holds a data key and annotations.
const MAX_RESPONSE: usize = 64 << 10;
/// The length of a plugin's text in an error.
const MAX_SHOWN: usize = 1024;

/// The plugin of one provider.
pub(super) struct Plugin {
    pub(super) kms: Arc<Kms>,
    channel: Channel,
    metrics: Arc<EnvelopeMetrics>,
    clock: Clock,
    /// Held during a check, so that callers share it.
    probe: Mutex<Probe>,
}

#[derive(Default)]
struct Probe {
    /// The version of the first status, which never changes.
    version: Option<String>,
    last: Option<(Timestamp, Result<(), String>)>,
}

impl Plugin {
    pub(super) fn new(kms: Arc<Kms>, metrics: Arc<EnvelopeMetrics>, clock: Clock) -> Plugin {
        let options = ChannelOptions { connect_timeout: kms.timeout(), ..ChannelOptions::default() };
        let channel = Channel::new(vec![Endpoint::Unix(kms.socket().to_owned())], options);
        Plugin { kms, channel, metrics, clock, probe: Mutex::default() }
    }

    async fn call<A: Message, B: Message>(&self, method: &'static str, request: &A) -> Result<B, Status> {
        let options = CallOptions {
            timeout: Some(self.kms.timeout()),
            max_message: MAX_RESPONSE,
            ..CallOptions::default()
        };
        let started = Instant::now();
        let response = self.channel.unary(method, request, options).await;
        self.metrics.observe_call(self.kms.name(), method, started.elapsed(), response.as_ref().err());
        response.map_err(|status| Status { message: shortened(&status.message), ..status })
    }

    /// Checks the plugin's status, and replaces the data key if the plugin has another key. An outcome is shared for a while.
    pub(super) async fn check(&self) -> Result<(), String> {
        let mut probe = self.probe.lock().await;
        if let Some((at, outcome)) = &probe.last {
            let term = if outcome.is_ok() { HEALTHY_FOR } else { UNHEALTHY_FOR };
            if self.clock.now().duration_since(*at) < term {
                return outcome.clone();
            }
        }
        let outcome = self.probe(&mut probe).await;
        probe.last = Some((self.clock.now(), outcome.clone()));
        outcome
    }

    async fn probe(&self, probe: &mut Probe) -> Result<(), String> {
        let name = self.kms.name();
        let status: StatusResponse = self.call(STATUS, &StatusRequest {}).await.map_err(|error| {
            format!("failed to perform status section of the healthz check for KMS Provider {name}, error: {error}")
        })?;
        let mut problems: Vec<String> = problems_of_status(&status, &mut probe.version);
        match validate_key_id(&status.key_id) {
            Err((code, problem)) => {
                self.metrics.count_invalid_key_id(name, code);
                let hash = hash(&status.key_id);
                problems.push(format!("got invalid KMSv2 KeyID hash \"{hash}\": {problem}"));
            }
            Ok(()) => {
                self.metrics.count_status(name, &status.key_id, self.clock.now());
                problems.extend(self.follow_key(&status.key_id).await.err());
            }
        }
        match problems.as_slice() {
            [] => Ok(()),
            [problem] => Err(format!("kmsv2 Provider {name} is not healthy, error: {problem}")),
            problems => {
                Err(format!("kmsv2 Provider {name} is not healthy, error: [{}]", problems.join(", ")))
            }
        }
    }

    /// Extends the term of the data key, or replaces it if the plugin has another key now. After a failure, the old one seals
    /// until the end of its term.
    async fn follow_key(&self, key_id: &str) -> Result<(), String> {
        let current = self.kms.current();
        // Begun before the call, so that the term is an upper bound.
        let expires = self.clock.now() + DATA_KEY_TERM;
        if current.as_ref().is_some_and(|(current, _)| current == key_id) {
            self.kms.extend(expires);
            return Ok(());
        }
        let uid = random::uuid();
        let mut encrypted_with = String::new();
        let problem = match self.new_data_key(key_id, &uid, expires, &mut encrypted_with).await {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        };
        let (known, until) = current.map_or_else(
            || (String::new(), "0001-01-01T00:00:00Z".to_owned()),
            |(known, until)| (known, whole_seconds(until)),
        );
        let state = if known.is_empty() { "got unexpected nil transformer" } else { "<nil>" };
        Err(format!(
            "failed to rotate DEK uid=\"{uid}\", useSeed=true, errState={state}, errGen={problem}, \
             statusKeyIDHash=\"{}\", encryptKeyIDHash=\"{}\", stateKeyIDHash=\"{}\", expirationTimestamp={until}",
            hash(key_id),
            hash(&encrypted_with),
            hash(&known)
        ))
    }

    async fn new_data_key(
        &self,
        key_id: &str,
        uid: &str,
        expires: Timestamp,
        encrypted_with: &mut String,
    ) -> Result<(), String> {
        let seed = new_seed().map_err(|error| error.to_string())?;
        let request = EncryptRequest { plaintext: seed.to_vec(), uid: uid.to_owned() };
        let encrypted: Result<EncryptResponse, Status> = self.call(ENCRYPT, &request).await;
        drop(Zeroizing::new(request.plaintext));
        let encrypted = encrypted.map_err(|error| format!("failed to encrypt DEK, error: {error}"))?;
        let source = DekSource::seed(encrypted.key_id, encrypted.ciphertext, encrypted.annotations);
        source.validate().map_err(|error| error.to_string())?;
        encrypted_with.clone_from(&source.key_id);
        // Upstream's text, which has no error then.
        if source.key_id != key_id {
            return Err("<nil>".to_owned());
        }
        self.kms.rotate(source, &seed, expires).map_err(|error| error.to_string())?;
        tracing::info!(provider = self.kms.name(), key_id_hash = hash(key_id), "KMS data key replaced");
        Ok(())
    }

    /// Decrypts a data key that a value needs.
    pub(super) async fn decrypt(&self, undecrypted: &Undecrypted) {
        let source = &undecrypted.source;
        let request = DecryptRequest {
            ciphertext: source.ciphertext.clone(),
            uid: random::uuid(),
            key_id: source.key_id.clone(),
            annotations: source.annotations.clone(),
        };
        let decrypted: Result<DecryptResponse, Status> = self.call(DECRYPT, &request).await;
        let added = match decrypted {
            Ok(response) => {
                let plain = Zeroizing::new(response.plaintext);
                self.kms.add(undecrypted, &plain).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(err) = added
            && self.kms.fail(undecrypted, &err)
        {
            let provider = self.kms.name();
            tracing::warn!(provider, err, "cannot decrypt a data key; retrying when it is needed");
        }
    }
}

fn problems_of_status(status: &StatusResponse, first: &mut Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    if status.healthz != "ok" {
        problems.push(format!("got unexpected healthz status: {}", shortened(&status.healthz)));
    }
    let version = shortened(&status.version);
    if !["v2", "v2beta1"].contains(&version.as_str()) {
        problems.push(format!("expected KMSv2 API version v2, got {version}"));
        return problems;
    }
    let first = first.get_or_insert_with(|| version.clone());
    if *first != version {
        problems.push(format!(
            "KMSv2 API version should not change after the initial status response version {first}, got {version}"
        ));
    }
    problems
}

/// A text of a plugin that fits into an error.
fn shortened(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

/// The time between checks while the plugin is healthy, and while it is not.
const POLL: Duration = Duration::from_secs(60);
const POLL_UNHEALTHY: Duration = Duration::from_secs(10);

/// Checks a plugin for ever, so that the data key is that of the plugin's key, and its term never ends. The first check
/// was made by the caller.
pub(super) async fn poll(plugin: Arc<Plugin>, mut is_healthy: bool) {
    loop {
        plugin.clock.sleep(if is_healthy { POLL } else { POLL_UNHEALTHY }).await;
        let outcome = plugin.check().await;
        match (&outcome, is_healthy) {
            (Err(err), true) => {
                tracing::error!(provider = plugin.kms.name(), err, "KMS plugin is unhealthy; retrying");
            }
            (Err(err), false) => {
                tracing::debug!(provider = plugin.kms.name(), err, "KMS plugin is still unhealthy");
            }
            (Ok(()), false) => tracing::info!(provider = plugin.kms.name(), "KMS plugin is healthy"),
            (Ok(()), true) => {}
        }
        is_healthy = outcome.is_ok();
    }
}
