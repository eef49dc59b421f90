//! The metrics of manifests, with upstream's names and labels: how often each plugin's were read, and which are in force.

use std::collections::BTreeMap;
use std::time::SystemTime;

use corten_serving::metrics::{Exposition, Kind};
use parking_lot::Mutex;

use crate::server_id;

/// The reloads of all plugins. The first reading counts, too.
#[derive(Debug, Default)]
pub(super) struct Reloads(Mutex<BTreeMap<&'static str, Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// By status: number, and the time of the last in seconds since 1970.
    by_status: BTreeMap<&'static str, (u64, f64)>,
    /// The hash of the manifests in force.
    hash: String,
}

impl Reloads {
    pub(super) fn succeeded(&self, plugin: &'static str, hash: &str) {
        self.count(plugin, "success", Some(hash));
    }

    pub(super) fn failed(&self, plugin: &'static str) {
        self.count(plugin, "failure", None);
    }

    fn count(&self, plugin: &'static str, status: &'static str, hash: Option<&str>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut all = self.0.lock();
        let counts = all.entry(plugin).or_default();
        let (number, last) = counts.by_status.entry(status).or_default();
        *number += 1;
        *last = now.as_secs_f64();
        if let Some(hash) = hash {
            hash.clone_into(&mut counts.hash);
        }
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let all = self.0.lock();
        if all.is_empty() {
            return;
        }
        let server = server_id::hash();
        let of_status = |out: &mut Exposition, name: &str, value: fn(&(u64, f64)) -> f64| {
            for (plugin, counts) in all.iter() {
                for (status, counted) in &counts.by_status {
                    let labels =
                        [("apiserver_id_hash", server.as_str()), ("plugin", plugin), ("status", status)];
                    out.sample(name, &labels, value(counted));
                }
            }
        };
        let name = "apiserver_manifest_admission_config_controller_automatic_reloads_total";
        out.family(name, Kind::Counter, "Reloads of the manifests of admission plugins.");
        of_status(out, name, |(number, _)| *number as f64);
        let name = "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds";
        out.family(name, Kind::Gauge, "Time of the last reload of the manifests of admission plugins.");
        of_status(out, name, |(_, last)| *last);
        let name = "apiserver_manifest_admission_config_controller_last_config_info";
        out.family(name, Kind::Gauge, "Hash of the manifests of admission plugins that are in force.");
        for (plugin, counts) in all.iter() {
            let labels = [("apiserver_id_hash", server.as_str()), ("hash", &counts.hash), ("plugin", plugin)];
            out.sample(name, &labels, 1);
        }
    }
}
