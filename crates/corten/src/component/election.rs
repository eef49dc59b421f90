//! The flags of leader election, with upstream's validation. Their values come from the flags, then from the
//! configuration file, then from upstream's defaults.

use std::time::Duration;

use anyhow::bail;
use corten_api::{Value, time};
use corten_apiserver::go_duration;
use corten_base::Clock;
use corten_client::Key;
use corten_reconcile::{Election, LockKind};

#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionFlags {
    /// Run controllers and scheduler only while holding their locks [default: true; in `corten server`, with etcd].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: Option<bool>,
    /// Time after the last renewal at which candidates may take the lock [default: 15s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    leader_elect_lease_duration: Option<Duration>,
    /// Time to renew the lock before leadership is given up [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    leader_elect_renew_deadline: Option<Duration>,
    /// Period of attempts to acquire or renew the lock [default: 2s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    leader_elect_retry_period: Option<Duration>,
    /// Kind of the lock: leases, or endpoints or configmaps with the record in the annotation
    /// control-plane.alpha.kubernetes.io/leader [default: leases].
    #[arg(long, value_name = "KIND")]
    leader_elect_resource_lock: Option<String>,
    /// Namespace of the lock [default: kube-system].
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
}

/// The settings of an election.
#[derive(Debug, Clone)]
pub(crate) struct ElectionSettings {
    elect: bool,
    lease: Duration,
    renew: Duration,
    retry: Duration,
    lock: String,
    name: String,
    namespace: String,
}

impl ElectionFlags {
    /// True if the components of a server are elected. They are by default if other servers may use its datastore.
    pub(crate) fn applies(&self, is_shared: bool) -> bool {
        self.leader_elect.unwrap_or(is_shared)
    }

    /// The settings of a component, which may have a `leaderElection` in its configuration file.
    pub(crate) fn settings(&self, component: &str, file: Option<&Value>) -> anyhow::Result<ElectionSettings> {
        let mut settings = ElectionSettings {
            elect: true,
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            lock: "leases".to_owned(),
            name: component.to_owned(),
            namespace: "kube-system".to_owned(),
        };
        if let Some(file) = file {
            settings.read(file)?;
        }
        let flags = self.clone();
        let set = |setting: &mut Duration, flag: Option<Duration>| *setting = flag.unwrap_or(*setting);
        set(&mut settings.lease, flags.leader_elect_lease_duration);
        set(&mut settings.renew, flags.leader_elect_renew_deadline);
        set(&mut settings.retry, flags.leader_elect_retry_period);
        settings.elect = flags.leader_elect.unwrap_or(settings.elect);
        settings.lock = flags.leader_elect_resource_lock.unwrap_or(settings.lock);
        settings.namespace = flags.leader_elect_resource_namespace.unwrap_or(settings.namespace);
        Ok(settings)
    }
}

impl ElectionSettings {
    /// The same with another name of the lock, if there is one.
    #[must_use]
    pub(crate) fn named(self, name: Option<&str>) -> ElectionSettings {
        let name = name.map_or(self.name, str::to_owned);
        ElectionSettings { name, ..self }
    }

    /// Reads the `leaderElection` of a configuration file. Empty values are the defaults, as upstream.
    fn read(&mut self, file: &Value) -> anyhow::Result<()> {
        self.elect = file.bool_at(&["leaderElect"]).unwrap_or(self.elect);
        let durations = [
            ("leaseDuration", &mut self.lease),
            ("renewDeadline", &mut self.renew),
            ("retryPeriod", &mut self.retry),
        ];
        for (field, setting) in durations {
            let Some(text) = file.str_at(&[field]) else { continue };
            match parse_duration(text) {
                Ok(Duration::ZERO) => {}
                Ok(duration) => *setting = duration,
                Err(error) => bail!("leaderElection.{field}: {error}"),
            }
        }
        let texts = [
            ("resourceLock", &mut self.lock),
            ("resourceName", &mut self.name),
            ("resourceNamespace", &mut self.namespace),
        ];
        for (field, setting) in texts {
            if let Some(text) = file.str_at(&[field]).filter(|text| !text.is_empty()) {
                *setting = text.to_owned();
            }
        }
        Ok(())
    }

    /// The election, if there is one; an error with upstream's texts if it is invalid. `component` is the source of its
    /// events.
    pub(crate) fn election(
        &self,
        component: &'static str,
        clock: &Clock,
    ) -> anyhow::Result<Option<Election>> {
        if !self.elect {
            return Ok(None);
        }
        let complaints = self.complaints();
        match complaints.as_slice() {
            [] => {}
            [complaint] => bail!("{complaint}"),
            all => bail!("[{}]", all.join(", ")),
        }
        let key = Key::new(self.namespace.as_str(), self.name.as_str());
        let lock = LockKind::parse(&self.lock)
            .map_err(|error| anyhow::anyhow!("couldn't create resource lock: {error}"))?;
        let election = Election {
            lock,
            lease: self.lease,
            renew: self.renew,
            retry: self.retry,
            ..Election::new(key, identity(clock), component)
        };
        election.validate().map_err(|error| anyhow::anyhow!("couldn't create leader elector: {error}"))?;
        Ok(Some(election))
    }

    /// The invalid fields, in upstream's words.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut complain =
            |field: &str, what: String| complaints.push(format!("leaderElection.{field}: {what}"));
        let invalid = |value: Duration, detail: &str| {
            let nanoseconds = i64::try_from(value.as_nanos()).unwrap_or(i64::MAX);
            format!("Invalid value: {:?}: {detail}", time::format_duration(nanoseconds))
        };
        let durations =
            [("leaseDuration", self.lease), ("renewDeadline", self.renew), ("retryPeriod", self.retry)];
        for (field, duration) in durations.into_iter().filter(|(_, duration)| duration.is_zero()) {
            complain(field, invalid(duration, "must be greater than zero"));
        }
        if self.lease <= self.renew {
            complain("leaseDuration", invalid(self.renew, "must be greater than `RenewDeadline`"));
        }
        let texts = [
            ("resourceLock", &self.lock),
            ("resourceNamespace", &self.namespace),
            ("resourceName", &self.name),
        ];
        for (field, _) in texts.into_iter().filter(|(_, text)| text.is_empty()) {
            complain(field, "Required value".to_owned());
        }
        complaints
    }
}

/// An identity that is unique among the processes of all machines.
fn identity(clock: &Clock) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}-{:x}", host.trim(), std::process::id(), clock.now().as_nanosecond())
}

/// Parses a duration that may be zero; the validation of elections rejects it in upstream's words. A negative one counts
/// as zero.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = go_duration(text)?;
    Duration::try_from_secs_f64(seconds.max(0.0)).map_err(|_| format!("time: invalid duration {text:?}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use corten_api::value;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        election: ElectionFlags,
        #[arg(long)]
        leader_elect_resource_name: Option<String>,
    }

    fn elect(flags: &[&str], file: Option<&Value>) -> anyhow::Result<Option<Election>> {
        let flags = ["corten"].into_iter().chain(flags.iter().copied());
        let command = Command::try_parse_from(flags)?;
        let settings = command.election.settings("kube-scheduler", file)?;
        settings
            .named(command.leader_elect_resource_name.as_deref())
            .election("default-scheduler", &Clock::real())
    }

    fn elected(flags: &[&str], file: Option<&Value>) -> Election {
        elect(flags, file).expect("a valid election").expect("an election")
    }

    #[test]
    fn flags_take_precedence_over_the_file_and_the_file_over_defaults() {
        let plain = elected(&[], None);
        let key = Key::new("kube-system", "kube-scheduler");
        assert_eq!((plain.key, plain.lock, plain.component), (key, LockKind::Leases, "default-scheduler"));
        let seconds =
            |election: &Election| [election.lease, election.renew, election.retry].map(|d| d.as_secs());
        let file = value!({
            "leaderElect": true, "leaseDuration": "1m0s", "renewDeadline": "40s", "retryPeriod": "0s",
            "resourceLock": "configmaps", "resourceName": "other", "resourceNamespace": "",
        });
        let filed = elected(&[], Some(&file));
        assert_eq!((seconds(&filed), filed.lock), ([60, 40, 2], LockKind::ConfigMaps));
        assert_eq!(filed.key, Key::new("kube-system", "other"));
        let flags = ["--leader-elect-resource-lock=endpoints", "--leader-elect-lease-duration=50s"];
        let both = elected(&flags, Some(&file));
        assert_eq!((seconds(&both), both.lock), ([50, 40, 2], LockKind::Endpoints));
    }

    #[test]
    fn leader_election_can_be_disabled() {
        let off = value!({"leaderElect": false});
        for (flags, file, elects) in [
            (vec!["--leader-elect=false"], None, false),
            (vec![], Some(&off), false),
            (vec!["--leader-elect"], Some(&off), true),
            // Settings of no election are not validated, as upstream.
            (vec!["--leader-elect=false", "--leader-elect-lease-duration=0s"], None, false),
        ] {
            assert_eq!(elect(&flags, file).unwrap().is_some(), elects, "{flags:?}");
        }
    }

    #[test]
    fn invalid_settings_are_rejected_with_upstreams_texts() {
        let table = [
            (
                vec!["lease-duration=10s"],
                "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
            ),
            (
                vec!["lease-duration=0s"],
                "[leaderElection.leaseDuration: Invalid value: \"0s\": must be greater than zero, \
                leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`]",
            ),
            (
                vec!["renew-deadline=0"],
                "leaderElection.renewDeadline: Invalid value: \"0s\": must be greater than zero",
            ),
            (
                vec!["retry-period=-3s"],
                "leaderElection.retryPeriod: Invalid value: \"0s\": must be greater than zero",
            ),
            (
                vec!["retry-period=9s"],
                "couldn't create leader elector: renewDeadline must be greater than retryPeriod*JitterFactor",
            ),
            (vec!["resource-lock="], "leaderElection.resourceLock: Required value"),
            (vec!["resource-lock=x"], "couldn't create resource lock: Invalid lock-type x"),
            (
                vec!["resource-lock=endpointsleases"],
                "couldn't create resource lock: endpointsleases lock is removed, migrate to leases",
            ),
            (
                vec!["resource-lock=configmapsleases"],
                "couldn't create resource lock: configmapsleases lock is removed, migrated to leases",
            ),
            (
                vec!["resource-namespace=", "resource-name="],
                "[leaderElection.resourceNamespace: Required value, leaderElection.resourceName: Required value]",
            ),
        ];
        for (flags, expected) in table {
            let flags: Vec<String> = flags.iter().map(|flag| format!("--leader-elect-{flag}")).collect();
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            assert_eq!(elect(&flags, None).unwrap_err().to_string(), expected, "{flags:?}");
        }
        let bad = value!({"leaseDuration": "soon"});
        assert!(
            elect(&[], Some(&bad)).unwrap_err().to_string().starts_with("leaderElection.leaseDuration: ")
        );
    }
}
