//! The flags of the node, for `corten server` and `corten agent`. Names and meanings are upstream's.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::builder::{OsStringValueParser, TypedValueParser};
use corten_kubelet::configuration::{Configuration, field_of_flag};
use corten_kubelet::{ManifestUrl, Manifests};
use corten_proxy::Mode;

use crate::image_flags::ImageFlags;
use crate::kubelet;
use crate::server::parse_duration;

#[derive(clap::Args, Clone)]
#[command(next_help_heading = "The node")]
pub(crate) struct AgentFlags {
    /// Socket of a CRI container runtime, such as unix:///run/containerd/containerd.sock [default: the built-in runtime].
    #[arg(long)]
    pub(crate) container_runtime_endpoint: Option<String>,
    /// Socket of the CRI image service, if it differs from the runtime's.
    #[arg(long, requires = "container_runtime_endpoint")]
    pub(crate) image_service_endpoint: Option<String>,
    /// OCI runtime for RuntimeClasses with this handler, such as runc=/usr/sbin/runc; may be repeated.
    #[arg(long, value_name = "NAME=PATH", conflicts_with = "container_runtime_endpoint", value_parser = handler)]
    runtime_handler: Vec<(String, PathBuf)>,
    /// File with a KubeletConfiguration. Flags take precedence over it.
    #[arg(long)]
    kubelet_config: Option<PathBuf>,
    /// Directory or file with manifests of static pods; empty for none.
    #[arg(long, default_value = "/etc/kubernetes/manifests", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pod_manifest_path: PathBuf,
    /// Period of checks for new manifests in files.
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    file_check_frequency: Duration,
    /// URL of manifests of static pods.
    #[arg(long)]
    manifest_url: Option<String>,
    /// HTTP headers for --manifest-url, such as a:hello,b:again.
    #[arg(long, value_delimiter = ',')]
    manifest_url_header: Vec<String>,
    /// Period of checks for new manifests at --manifest-url.
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    http_check_frequency: Duration,
    /// Port of the localhost healthz endpoint; 0 disables it.
    #[arg(long, default_value_t = 10248)]
    healthz_port: u16,
    /// Mode of the service proxy: nftables, or iptables, which needs the iptables tools.
    #[arg(long, default_value = "nftables", value_parser = Mode::of)]
    pub(crate) proxy_mode: Mode,
    /// Kubelet flag, such as eviction-hard=memory.available<5% or container-log-max-size=1Mi; may be repeated.
    #[arg(long, value_name = "FLAG=VALUE")]
    kubelet_arg: Vec<String>,
    #[command(flatten)]
    pub(crate) images: ImageFlags,
}

/// The default eviction thresholds. Disks may get fuller than with upstream's before pods are evicted, because the machine
/// is shared with other programs.
const EVICTION_HARD: (&str, &str) = (
    "eviction-hard",
    "memory.available<100Mi,nodefs.available<5%,nodefs.inodesFree<5%,imagefs.available<5%,imagefs.inodesFree<5%",
);

impl AgentFlags {
    /// The kubelet's configuration: flags over the file, or without a file over the defaults here.
    pub(crate) fn configuration(&self) -> anyhow::Result<Configuration> {
        let (mut configuration, unless_said) = match &self.kubelet_config {
            Some(path) => (kubelet::read(path)?, None),
            None => (Configuration::default(), Some(EVICTION_HARD)),
        };
        let given = self.kubelet_arg.iter().map(|text| {
            text.split_once('=').with_context(|| format!("--kubelet-arg: {text} is not FLAG=VALUE"))
        });
        let given = given.collect::<anyhow::Result<Vec<_>>>()?;
        for (flag, value) in unless_said.into_iter().chain(given) {
            let field = field_of_flag(flag.trim_start_matches('-'));
            let field = field.with_context(|| format!("--kubelet-arg: the kubelet has no flag {flag}"))?;
            configuration.set_flag(field, value).context("--kubelet-arg")?;
        }
        configuration.complete();
        kubelet::validate(&configuration)?;
        Ok(configuration)
    }

    /// OCI runtimes by the names of their handlers.
    pub(crate) fn handlers(&self) -> BTreeMap<String, PathBuf> {
        self.runtime_handler.iter().cloned().collect()
    }

    /// The address of the healthz endpoint.
    pub(crate) fn health(&self) -> Option<SocketAddr> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.healthz_port));
        (self.healthz_port != 0).then_some(address)
    }

    /// The sources of static pods.
    pub(crate) fn manifests(&self) -> anyhow::Result<Manifests> {
        let headers: Option<Vec<_>> = self.manifest_url_header.iter().map(|header| pair(header)).collect();
        let headers =
            headers.context("--manifest-url-header: a header has a name and a value, such as a:hello")?;
        let url = self.manifest_url.as_deref().filter(|url| !url.is_empty());
        let url = url.map(|url| ManifestUrl::parse(url, headers).map_err(anyhow::Error::msg));
        Ok(Manifests {
            path: Some(self.pod_manifest_path.clone()).filter(|path| !path.as_os_str().is_empty()),
            file_check: self.file_check_frequency,
            url: url.transpose().context("--manifest-url")?,
            http_check: self.http_check_frequency,
        })
    }
}

/// Parses a runtime handler: `name=path`.
pub(crate) fn handler(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && path.starts_with('/') => Ok((name.to_owned(), path.into())),
        _ => Err("a handler has a name and the path of a program, such as runc=/usr/sbin/runc".to_owned()),
    }
}

/// Parses an HTTP header: `name:value`.
pub(crate) fn pair(header: &str) -> Option<(String, String)> {
    let (name, value) = header.split_once(':')?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}
