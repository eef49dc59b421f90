//! The flags of the leader elections of `corten server`: upstream's, with upstream's defaults.

use std::time::Duration;

use corten_client::Key;
use corten_reconcile::Election;

use crate::server::parse_duration;

const NAMESPACE: &str = "kube-system";

#[derive(clap::Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionFlags {
    /// Run controllers and scheduler only while this server holds their Leases [default: true with etcd].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: Option<bool>,
    /// Time after the last renewal at which other servers may take a Lease.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    leader_elect_lease_duration: Duration,
    /// Time to renew a Lease before leadership is given up.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    leader_elect_renew_deadline: Duration,
    /// Period of attempts to acquire or renew a Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    leader_elect_retry_period: Duration,
}

impl ElectionFlags {
    /// True if components are elected. They are by default if other servers may use the same datastore.
    pub(crate) fn applies(&self, is_shared: bool) -> bool {
        self.leader_elect.unwrap_or(is_shared)
    }

    /// Checks the durations against each other, as upstream does.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.leader_elect_lease_duration <= self.leader_elect_renew_deadline {
            return Err("--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline");
        }
        if self.leader_elect_renew_deadline <= self.leader_elect_retry_period.mul_f64(1.2) {
            return Err(
                "--leader-elect-renew-deadline must be greater than 1.2 × --leader-elect-retry-period",
            );
        }
        Ok(())
    }

    /// The election of a component.
    pub(super) fn election(&self, name: &str, identity: &str) -> Election {
        Election {
            key: Key::new(NAMESPACE, name),
            identity: identity.to_owned(),
            lease: self.leader_elect_lease_duration,
            renew: self.leader_elect_renew_deadline,
            retry: self.leader_elect_retry_period,
        }
    }
}
