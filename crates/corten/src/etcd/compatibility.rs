//! Flags of etcd that launchers pass and that have no effect on a cluster of one member, which has no peers, no elections and
//! no database of pages.
//!
//! Invariant: a flag is here only if ignoring it changes nothing that its user relies on; a cluster of several members is
//! refused.

use anyhow::ensure;
use clap::ArgAction;

/// A flag that may stand without a value.
macro_rules! switches {
    ($($name:ident),* $(,)?) => {
        #[derive(clap::Args)]
        pub(super) struct Switches {
            $(#[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
            $name: Option<bool>,)*
        }
    };
}

/// A flag with a value.
macro_rules! values {
    ($($name:ident),* $(,)?) => {
        #[derive(clap::Args)]
        pub(super) struct Values {
            $(#[arg(long, hide = true)]
            $name: Option<String>,)*
        }
    };
}

switches! {
    peer_client_cert_auth, peer_auto_tls, strict_reconfig_check, pre_vote, enable_v2, enable_pprof, enable_grpc_gateway,
    socket_reuse_port, socket_reuse_address, unsafe_no_fsync, force_new_cluster, initial_election_tick_advance,
    experimental_initial_corrupt_check, experimental_compact_hash_check_enabled, experimental_enable_lease_checkpoint,
    experimental_enable_lease_checkpoint_persist, enable_log_rotation,
}

values! {
    listen_peer_urls, initial_advertise_peer_urls, initial_cluster_state, initial_cluster_token, peer_cert_file,
    peer_key_file, peer_trusted_ca_file, peer_crl_file, peer_cert_allowed_cn, peer_cert_allowed_hostname, snapshot_count,
    heartbeat_interval, election_timeout, max_snapshots, max_wals, log_level, logger, log_outputs, log_format, metrics,
    feature_gates, backend_batch_interval, backend_batch_limit, backend_bbolt_freelist_type, max_concurrent_streams,
    grpc_keepalive_min_time, grpc_keepalive_interval, grpc_keepalive_timeout, experimental_corrupt_check_time,
    experimental_compact_hash_check_time, experimental_compaction_batch_limit, compaction_batch_limit,
    experimental_warning_apply_duration, warning_apply_duration, corrupt_check_time, compact_hash_check_time,
    snapshot_catchup_entries, experimental_snapshot_catchup_entries,
}

#[derive(clap::Args)]
pub(super) struct Compatibility {
    /// Members of the cluster: this one, as NAME=URL.
    #[arg(long)]
    initial_cluster: Option<String>,
    /// Unit of --auto-compaction-retention: periodic.
    #[arg(long, default_value = "periodic", value_parser = ["periodic"])]
    auto_compaction_mode: String,
    #[command(flatten)]
    switches: Switches,
    #[command(flatten)]
    values: Values,
}

impl Compatibility {
    /// Fails if the cluster has other members.
    pub(super) fn check(&self, name: &str) -> anyhow::Result<()> {
        let Some(members) = &self.initial_cluster else { return Ok(()) };
        let others =
            members.split(',').filter_map(|member| member.split_once('=')).any(|(other, _)| other != name);
        ensure!(
            !others,
            "--initial-cluster {members}: the cluster has one member, {name}; use etcd for more"
        );
        Ok(())
    }
}
