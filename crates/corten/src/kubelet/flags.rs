//! The flags of `corten kubelet`: names and meanings are upstream's. Flags of configuration fields come from the table of
//! fields.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use corten_api::{Value, value};
use corten_kubelet::configuration::Configuration;
use corten_kubelet::configuration::fields::{FIELDS, Shape};

use crate::image_flags::ImageFlags;
use crate::node::{handler, pair};
use crate::pod_network::PodNetworkFlags;

/// Flags of upstream that have no effect here.
const IGNORED: [(&str, &str); 10] = [
    (
        "minimum-container-ttl-duration",
        "Use --eviction-hard or --eviction-soft instead. Will be removed in a future version.",
    ),
    (
        "maximum-dead-containers-per-container",
        "Use --eviction-hard or --eviction-soft instead. Will be removed in a future version.",
    ),
    (
        "maximum-dead-containers",
        "Use --eviction-hard or --eviction-soft instead. Will be removed in a future version.",
    ),
    (
        "pod-infra-container-image",
        "will be removed in a future release. Sandbox images are the runtime's affair.",
    ),
    ("container-runtime", "has no effect."),
    ("runtime-cgroups", "has no effect."),
    ("lock-file", "has no effect."),
    ("exit-on-lock-contention", "has no effect."),
    ("image-credential-provider-config", "has no effect yet."),
    ("image-credential-provider-bin-dir", "has no effect yet."),
];
/// Labels of Kubernetes' own that a node may set on itself, besides those with an allowed prefix.
const OWN_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
const OWN_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The taint of a node that a cloud provider has not initialized yet.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

// As with upstream's components, the last of repeated flags counts.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Kubeconfig of the API server.
    #[arg(long)]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Kubeconfig for the first certificate request; the certificate is then kept in --kubeconfig.
    #[arg(long)]
    pub(super) bootstrap_kubeconfig: Option<PathBuf>,
    /// File with a KubeletConfiguration.
    #[arg(long)]
    pub(super) config: Option<PathBuf>,
    /// Directory of drop-in files ending in .conf, applied in order.
    #[arg(long)]
    pub(super) config_dir: Option<PathBuf>,
    /// Name of the node [default: the host name].
    #[arg(long)]
    pub(super) hostname_override: Option<String>,
    /// IP address of the node, or a dual-stack pair [default: the address of the default route].
    #[arg(long, value_delimiter = ',')]
    pub(super) node_ip: Vec<IpAddr>,
    /// Labels to register the node with, such as a=b,c=d.
    #[arg(long, value_delimiter = ',')]
    node_labels: Vec<String>,
    /// Taints to register the node with, such as key=value:NoSchedule.
    #[arg(long, value_delimiter = ',')]
    register_with_taints: Vec<String>,
    /// Directory of pod volumes and other files of the kubelet.
    #[arg(long, default_value = "/var/lib/kubelet")]
    pub(super) root_dir: PathBuf,
    /// Directory of the self-signed serving certificate, if none is configured.
    #[arg(long, default_value = "/var/lib/kubelet/pki")]
    pub(super) cert_dir: PathBuf,
    /// Cloud provider: external, or empty for none.
    #[arg(long, default_value = "", value_parser = ["", "external"])]
    cloud_provider: String,
    /// HTTP headers for --manifest-url, such as a:hello,b:again.
    #[arg(long, value_delimiter = ',')]
    manifest_url_header: Vec<String>,
    /// OCI runtime for RuntimeClasses with this handler, such as runc=/usr/sbin/runc; may be repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = handler)]
    runtime_handler: Vec<(String, PathBuf)>,
    /// Directory of the built-in runtime's images and containers.
    #[arg(long, default_value = "/var/lib/corten")]
    pub(super) data_dir: PathBuf,
    #[command(flatten)]
    pub(super) images: ImageFlags,
    #[command(flatten)]
    pub(super) pod_network: PodNetworkFlags,
    #[command(flatten)]
    fields: FieldFlags,
    #[command(flatten)]
    ignored: IgnoredFlags,
}

impl Args {
    /// Warns of flags without effect.
    pub(super) fn warn(&self) {
        for (flag, why) in &self.ignored.0 {
            tracing::warn!("Flag --{flag} has been deprecated, {why}");
        }
    }

    /// Sets the configuration fields that flags give; flags take precedence over files.
    /// OCI runtimes by the names of their handlers.
    pub(super) fn handlers(&self) -> BTreeMap<String, PathBuf> {
        self.runtime_handler.iter().cloned().collect()
    }

    pub(super) fn apply(&self, configuration: &mut Configuration) -> anyhow::Result<()> {
        for (flag, text) in &self.fields.0 {
            if let Some(field) = FIELDS.iter().find(|field| field.flag == *flag) {
                configuration.set_flag(field, text)?;
            }
        }
        if !self.register_with_taints.is_empty() {
            let taints: anyhow::Result<Vec<_>> =
                self.register_with_taints.iter().map(|text| taint(text)).collect();
            configuration.set_taints(taints?);
        }
        let headers: Option<Vec<_>> = self.manifest_url_header.iter().map(|header| pair(header)).collect();
        let headers =
            headers.context("--manifest-url-header: a header has a name and a value, such as a:hello")?;
        configuration.set_manifest_headers(&headers);
        Ok(())
    }

    pub(super) fn labels(&self) -> anyhow::Result<Vec<(String, String)>> {
        let read = |text: &String| match text.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => bail!("--node-labels: {text:?} is not a label; give one such as a=b"),
        };
        let labels: Vec<(String, String)> =
            self.node_labels.iter().map(read).collect::<anyhow::Result<_>>()?;
        let refused: Vec<&str> =
            labels.iter().map(|(key, _)| key.as_str()).filter(|key| !is_allowed(key)).collect();
        if refused.is_empty() {
            return Ok(labels);
        }
        bail!(
            "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{}]\n--node-labels in the \
             'kubernetes.io' namespace must begin with an allowed prefix ({}) or be in the specifically allowed set ({})",
            refused.join(" "),
            OWN_PREFIXES.join(", "),
            OWN_LABELS.join(", ")
        )
    }

    pub(super) fn taints(&self, configuration: &Configuration) -> Vec<Value> {
        let mut taints = configuration.items("registerWithTaints").to_vec();
        if self.cloud_provider == "external" {
            taints.push(value!({"key": (UNINITIALIZED), "value": "true", "effect": "NoSchedule"}));
        }
        taints
    }
}

/// True if a node may set a label on itself.
fn is_allowed(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    let within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    let reserved = within("kubernetes.io") || within("k8s.io");
    !reserved || OWN_LABELS.contains(&key) || OWN_PREFIXES.into_iter().any(within)
}

/// Parses a taint: `key=value:effect` or `key:effect`.
fn taint(text: &str) -> anyhow::Result<Value> {
    let Some((key, effect)) = text.rsplit_once(':') else {
        bail!("--register-with-taints: invalid taint spec: {text}; give one such as key=value:NoSchedule");
    };
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    let mut taint = value!({"key": (key), "effect": (effect)});
    if !value.is_empty() {
        taint.set(&["value"], value);
    }
    Ok(taint)
}

/// The values of flags of configuration fields.
struct FieldFlags(Vec<(&'static str, String)>);

impl clap::Args for FieldFlags {
    fn augment_args(command: Command) -> Command {
        FIELDS.iter().filter(|field| !field.flag.is_empty()).fold(command, |command, field| {
            let arg = Arg::new(field.flag)
                .long(field.flag)
                .help(format!("Sets {} of the configuration.", field.path))
                .help_heading("The configuration")
                .allow_hyphen_values(true)
                .action(ArgAction::Append);
            let arg = match field.shape {
                Shape::Bool => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                _ => arg,
            };
            command.arg(if field.flag == "v" { arg.short('v') } else { arg })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        FieldFlags::augment_args(command)
    }
}

impl clap::FromArgMatches for FieldFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FieldFlags, clap::Error> {
        let given = FIELDS.iter().filter(|field| !field.flag.is_empty()).filter_map(|field| {
            let values: Vec<&String> = matches.get_many::<String>(field.flag)?.collect();
            // Lists are concatenated; of other values the last one counts.
            let text = match field.shape {
                Shape::Texts | Shape::Map(_) | Shape::Bools => {
                    values.iter().map(|value| value.as_str()).collect::<Vec<_>>().join(",")
                }
                _ => values.last().map(|value| (*value).clone())?,
            };
            Some((field.flag, text))
        });
        Ok(FieldFlags(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = FieldFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags without effect that were given.
struct IgnoredFlags(Vec<(&'static str, &'static str)>);

impl clap::Args for IgnoredFlags {
    fn augment_args(command: Command) -> Command {
        IGNORED.iter().fold(command, |command, (flag, _)| {
            let arg = Arg::new(*flag).long(*flag).hide(true).num_args(0..=1).default_missing_value("");
            command.arg(arg.action(ArgAction::Append))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        IgnoredFlags::augment_args(command)
    }
}

impl clap::FromArgMatches for IgnoredFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<IgnoredFlags, clap::Error> {
        let given = IGNORED.iter().filter(|(flag, _)| matches.get_many::<String>(flag).is_some());
        Ok(IgnoredFlags(given.copied().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = IgnoredFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(arguments: &[&str]) -> Args {
        Cli::try_parse_from([&["kubelet"], arguments].concat()).unwrap_or_else(|error| panic!("{error}")).args
    }

    #[test]
    fn flags_reach_the_configuration() {
        let args = parse(&[
            "--port=11250",
            "--anonymous-auth",
            "--authentication-token-webhook=false",
            "--cluster-dns",
            "10.0.0.10",
            "--eviction-hard=memory.available<1Gi",
            "--oom-score-adj=-998",
            "-v",
            "2",
            "--rotate-certificates",
            "--register-with-taints=a=b:NoSchedule,c:NoExecute",
            "--node-labels=x=y",
            "--cloud-provider=external",
            "--pod-infra-container-image=pause:3",
        ]);
        let mut configuration = Configuration::default();
        args.apply(&mut configuration).unwrap();
        assert_eq!((configuration.int("port"), configuration.int("oomScoreAdj")), (11250, -998));
        assert!(configuration.bool("authentication.anonymous.enabled"));
        assert!(!configuration.bool("authentication.webhook.enabled"));
        assert!(configuration.bool("rotateCertificates"));
        assert_eq!(configuration.int("logging.verbosity"), 2);
        assert_eq!(args.labels().unwrap(), [("x".to_owned(), "y".to_owned())]);
        assert_eq!(args.taints(&configuration).len(), 3);
        assert_eq!(args.ignored.0[0].0, "pod-infra-container-image");
        assert_eq!(configuration.validate(), Ok(()));
    }

    #[test]
    fn labels_that_nodes_may_not_set_are_rejected() {
        for good in
            ["a", "example.com/a", "kubernetes.io/os", "x.node.kubernetes.io/a", "node.kubernetes.io/b"]
        {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["node-role.kubernetes.io/master", "kubernetes.io/role", "k8s.io/a", "a.k8s.io/b"] {
            assert!(!is_allowed(bad), "{bad}");
        }
        let error = parse(&["--node-labels=a=b,k8s.io/c=d"]).labels().unwrap_err().to_string();
        assert!(error.starts_with(
            "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [k8s.io/c]"
        ));
    }

    #[test]
    fn taints_have_an_effect() {
        assert_eq!(
            taint("k=v:NoExecute").unwrap(),
            value!({"key": "k", "effect": "NoExecute", "value": "v"})
        );
        assert_eq!(taint("k:NoSchedule").unwrap(), value!({"key": "k", "effect": "NoSchedule"}));
        assert!(taint("k").is_err());
    }
}
