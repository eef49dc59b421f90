//! The metrics of encryption, with upstream's names.
//!
//! They outlive a configuration, so that a reload resets no counter. Invariant: the number of samples is limited, whatever ids
//! a plugin returns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corten_grpc::{Code, Status};
use corten_serving::metrics::{Exposition, Histogram, Kind};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::kms::hash;
use crate::providers::ProviderError;

/// The number of key ids that are remembered, as upstream.
const MAX_KEY_IDS: usize = 100;
/// The code of errors that are none of gRPC's.
const NOT_GRPC: &str = "unknown-non-grpc";

static CALL_BUCKETS: [f64; 20] = exponential(0.0001);
static TRANSFORMATION_BUCKETS: [f64; 25] = exponential(5e-6);

/// Bounds that double.
const fn exponential<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut at = 1;
    while at < N {
        bounds[at] = bounds[at - 1] * 2.0;
        at += 1;
    }
    bounds
}

/// The direction of a transformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transformation {
    FromStorage,
    ToStorage,
}

impl Transformation {
    fn name(self) -> &'static str {
        match self {
            Transformation::FromStorage => "from_storage",
            Transformation::ToStorage => "to_storage",
        }
    }
}

/// The uses of a key id.
#[derive(Debug, Clone, Copy)]
struct Uses {
    count: u64,
    last: Timestamp,
}

/// The outcomes of reloads of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct Reloads {
    count: u64,
    last: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub struct EnvelopeMetrics {
    cache_misses: AtomicU64,
    cache_sizes: Mutex<BTreeMap<String, usize>>,
    /// By transformation, provider and hash of the id.
    key_ids: Mutex<BTreeMap<(Transformation, String, String), Uses>>,
    /// By provider and hash of the id.
    status_key_ids: Mutex<BTreeMap<(String, String), Uses>>,
    /// By provider and error.
    invalid_key_ids: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// By provider, method and code.
    calls: Mutex<BTreeMap<(String, &'static str, String), Histogram>>,
    /// By resource, transformation, prefix and status.
    transformations: Mutex<BTreeMap<(String, Transformation, String, String), u64>>,
    durations: Mutex<BTreeMap<(Transformation, String), Histogram>>,
    /// Successful reloads, and failed ones.
    reloads: Mutex<[Reloads; 2]>,
    configuration: Mutex<Option<String>>,
}

impl EnvelopeMetrics {
    pub(crate) fn count_cache_miss(&self) {
        self.cache_misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_cache_size(&self, provider: &str, size: usize) {
        self.cache_sizes.lock().insert(provider.to_owned(), size);
    }

    pub(crate) fn count_key_id(&self, of: Transformation, provider: &str, id: &str, now: Timestamp) {
        use_key(&mut self.key_ids.lock(), (of, provider.to_owned(), hash(id)), now);
    }

    /// Counts a key id of a plugin's status.
    pub fn count_status(&self, provider: &str, id: &str, now: Timestamp) {
        use_key(&mut self.status_key_ids.lock(), (provider.to_owned(), hash(id)), now);
    }

    /// Counts an invalid key id of a plugin's status.
    pub fn count_invalid_key_id(&self, provider: &str, error: &'static str) {
        *self.invalid_key_ids.lock().entry((provider.to_owned(), error)).or_default() += 1;
    }

    /// Observes a call of a plugin.
    pub fn observe_call(&self, provider: &str, method: &'static str, took: Duration, error: Option<&Status>) {
        let code = error.map_or(Code::Ok, |status| status.code).to_string();
        let mut calls = self.calls.lock();
        let calls = calls.entry((provider.to_owned(), method, code));
        calls.or_insert_with(|| Histogram::new(&CALL_BUCKETS)).observe(took.as_secs_f64());
    }

    pub(crate) fn count_transformation(
        &self,
        (group, resource): (&str, &str),
        of: Transformation,
        prefix: &[u8],
        took: Duration,
        error: Option<&ProviderError>,
    ) {
        let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let prefix = String::from_utf8_lossy(prefix).into_owned();
        let status = error.map_or("OK", |_| NOT_GRPC).to_owned();
        let key = (resource, of, prefix.clone(), status);
        *self.transformations.lock().entry(key).or_default() += 1;
        if error.is_none() {
            let mut durations = self.durations.lock();
            let durations = durations.entry((of, prefix));
            durations.or_insert_with(|| Histogram::new(&TRANSFORMATION_BUCKETS)).observe(took.as_secs_f64());
        }
    }

    /// Records the configuration in force, by its hash.
    pub fn set_configuration(&self, hash: String) {
        *self.configuration.lock() = Some(hash);
    }

    pub fn count_reload(&self, success: bool, now: Timestamp) {
        let reloads = &mut self.reloads.lock()[usize::from(!success)];
        *reloads = Reloads { count: reloads.count + 1, last: Some(now) };
    }

    /// Writes the metrics; `server` is the hash of the API server's id.
    pub fn render(&self, out: &mut Exposition, server: &str) {
        self.render_keys(out, server);
        self.render_calls(out);
        self.render_transformations(out);
        self.render_configuration(out, server);
    }

    fn render_keys(&self, out: &mut Exposition, server: &str) {
        let name = "apiserver_envelope_encryption_dek_source_cache_size";
        out.family(name, Kind::Gauge, "[ALPHA] Number of records in data encryption key (DEK) source cache. On a restart, this value is an approximation of the number of decrypt RPC calls the server will make to the KMS plugin.");
        for (provider, size) in &*self.cache_sizes.lock() {
            out.sample(name, &[("provider_name", provider)], size);
        }
        let [total, last, status] = [
            "apiserver_envelope_encryption_key_id_hash_total",
            "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds",
            "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds",
        ];
        let key_ids = self.key_ids.lock();
        let samples = || {
            key_ids.iter().map(|((of, provider, id), uses)| {
                let (of, provider, id) = (of.name(), provider.as_str(), id.as_str());
                let labels = [
                    ("apiserver_id_hash", server),
                    ("key_id_hash", id),
                    ("provider_name", provider),
                    ("transformation_type", of),
                ];
                (labels, uses)
            })
        };
        out.family(total, Kind::Counter, "[ALPHA] Number of times a keyID is used split by transformation type, provider, and apiserver identity.");
        samples().for_each(|(labels, uses)| out.sample(total, &labels, uses.count));
        out.family(last, Kind::Gauge, "[ALPHA] The last time in seconds when a keyID was used.");
        samples().for_each(|(labels, uses)| out.sample(last, &labels, seconds(uses.last)));
        drop(key_ids);
        out.family(
            status,
            Kind::Gauge,
            "[ALPHA] The last time in seconds when a keyID was returned by the Status RPC call.",
        );
        for ((provider, id), uses) in &*self.status_key_ids.lock() {
            let labels = [("apiserver_id_hash", server), ("key_id_hash", id), ("provider_name", provider)];
            out.sample(status, &labels, seconds(uses.last));
        }
        let invalid = "apiserver_envelope_encryption_invalid_key_id_from_status_total";
        out.family(
            invalid,
            Kind::Counter,
            "[ALPHA] Number of times an invalid keyID is returned by the Status RPC call split by error.",
        );
        for ((provider, error), count) in &*self.invalid_key_ids.lock() {
            out.sample(invalid, &[("error", error), ("provider_name", provider)], count);
        }
    }

    fn render_calls(&self, out: &mut Exposition) {
        let name = "apiserver_envelope_encryption_kms_operations_latency_seconds";
        out.family(
            name,
            Kind::Histogram,
            "[ALPHA] KMS operation duration with gRPC error code status total.",
        );
        for ((provider, method, code), durations) in &*self.calls.lock() {
            let labels =
                [("grpc_status_code", code.as_str()), ("method_name", method), ("provider_name", provider)];
            out.histogram(name, &labels, durations);
        }
        out.single(
            "apiserver_storage_envelope_transformation_cache_misses_total",
            Kind::Counter,
            "[ALPHA] Total number of cache misses while accessing key decryption key(KEK).",
            self.cache_misses.load(Ordering::Relaxed),
        );
    }

    fn render_transformations(&self, out: &mut Exposition) {
        let name = "apiserver_storage_transformation_operations_total";
        out.family(name, Kind::Counter, "[ALPHA] Total number of transformations. Successful transformation will have a status 'OK' and a varied status string when the transformation fails.");
        for ((resource, of, prefix, status), count) in &*self.transformations.lock() {
            let labels = [
                ("resource", resource.as_str()),
                ("status", status),
                ("transformation_type", of.name()),
                ("transformer_prefix", prefix),
            ];
            out.sample(name, &labels, count);
        }
        let name = "apiserver_storage_transformation_duration_seconds";
        out.family(name, Kind::Histogram, "[ALPHA] Latencies in seconds of value transformation operations.");
        for ((of, prefix), durations) in &*self.durations.lock() {
            let labels = [("transformation_type", of.name()), ("transformer_prefix", prefix)];
            out.histogram(name, &labels, durations);
        }
    }

    fn render_configuration(&self, out: &mut Exposition, server: &str) {
        let [total, last, info] = [
            "apiserver_encryption_config_controller_automatic_reloads_total",
            "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
            "apiserver_encryption_config_controller_last_config_info",
        ];
        let reloads = *self.reloads.lock();
        let known =
            || ["success", "failure"].into_iter().zip(reloads).filter(|(_, reloads)| reloads.count > 0);
        out.family(total, Kind::Counter, "[ALPHA] Total number of reload successes and failures of encryption configuration split by apiserver identity.");
        for (status, reloads) in known() {
            out.sample(total, &[("apiserver_id_hash", server), ("status", status)], reloads.count);
        }
        out.family(last, Kind::Gauge, "[ALPHA] Timestamp of the last successful or failed automatic reload of encryption configuration split by apiserver identity.");
        for (status, reloads) in known() {
            let labels = [("apiserver_id_hash", server), ("status", status)];
            out.sample(last, &labels, reloads.last.map_or(0.0, seconds));
        }
        if let Some(hash) = &*self.configuration.lock() {
            out.family(info, Kind::Gauge, "[ALPHA] Information about the last applied encryption configuration with hash as label, split by apiserver identity.");
            out.sample(info, &[("apiserver_id_hash", server), ("hash", hash)], 1);
        }
    }
}

fn seconds(time: Timestamp) -> f64 {
    time.as_millisecond() as f64 / 1e3
}

/// Counts a use; the id whose last use is the oldest makes room for a new one.
fn use_key<K: Ord + Clone>(uses: &mut BTreeMap<K, Uses>, key: K, now: Timestamp) {
    if let Some(known) = uses.get_mut(&key) {
        *known = Uses { count: known.count + 1, last: now };
        return;
    }
    if uses.len() >= MAX_KEY_IDS {
        let oldest = uses.iter().min_by_key(|(_, uses)| uses.last).map(|(key, _)| key.clone());
        oldest.map(|oldest| uses.remove(&oldest));
    }
    uses.insert(key, Uses { count: 1, last: now });
}
