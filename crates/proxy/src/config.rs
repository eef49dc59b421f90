//! The proxy's configuration: `KubeProxyConfiguration` v1alpha1, with upstream's defaults.
//!
//! Two defaults are ours: the mode is nftables, as upstream plans; and since a sync costs little in it, its minSyncPeriod is
//! not a second.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use corten_api::{Value, meta, time};
use corten_net::Cidr;

const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
const HEALTHZ_PORT: u16 = 10256;
const METRICS_PORT: u16 = 10249;
/// Changes within this time are written in one sync.
const BATCHING: Duration = Duration::from_millis(10);

/// An invalid configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "no kind \"{kind}\" is registered for version \"{api_version}\"; a proxy takes a KubeProxyConfiguration of {API_VERSION}"
    )]
    NotAConfiguration { kind: String, api_version: String },
    #[error("KubeProxyConfiguration.{field}: Invalid value: {value:?}: {complaint}")]
    Invalid { field: String, value: String, complaint: &'static str },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Nftables,
    Iptables,
}

impl Mode {
    pub fn of(text: &str) -> Result<Mode, ConfigError> {
        match text {
            "" | "nftables" => Ok(Mode::Nftables),
            "iptables" => Ok(Mode::Iptables),
            _ => Err(invalid("mode", text, "must be nftables or iptables, or blank for nftables")),
        }
    }
}

/// The detection of packets of this node's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetectLocal {
    None,
    ClusterCidr(Vec<Cidr>),
    NodeCidr,
    BridgeInterface(String),
    InterfaceNamePrefix(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub mode: Mode,
    pub hostname_override: String,
    pub kubeconfig: String,
    pub masquerade_all: bool,
    pub masquerade_bit: u8,
    pub detect_local: DetectLocal,
    pub node_port_addresses: Vec<Cidr>,
    /// True if node ports are open only at the addresses of the Node object.
    pub node_port_primary: bool,
    pub localhost_node_ports: bool,
    pub min_sync_period: Duration,
    pub sync_period: Duration,
    /// The address of the health endpoint; `None` disables it.
    pub healthz: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub conntrack: Conntrack,
}

/// The sysctls of connection tracking; zero leaves the kernel's value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conntrack {
    pub max_per_core: u32,
    pub min: u32,
    pub tcp_established: Duration,
    pub tcp_close_wait: Duration,
    pub tcp_be_liberal: bool,
    pub udp: Duration,
    pub udp_stream: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::Nftables,
            hostname_override: String::new(),
            kubeconfig: String::new(),
            masquerade_all: false,
            masquerade_bit: 14,
            detect_local: DetectLocal::None,
            node_port_addresses: Vec::new(),
            node_port_primary: false,
            localhost_node_ports: true,
            min_sync_period: BATCHING,
            sync_period: Duration::from_secs(30),
            healthz: Some(SocketAddr::from(([0, 0, 0, 0], HEALTHZ_PORT))),
            metrics: Some(SocketAddr::from(([127, 0, 0, 1], METRICS_PORT))),
            conntrack: Conntrack {
                max_per_core: 32 * 1024,
                min: 128 * 1024,
                tcp_established: Duration::from_secs(24 * 3600),
                tcp_close_wait: Duration::from_secs(3600),
                ..Conntrack::default()
            },
        }
    }
}

impl Config {
    /// The configuration with another mode and that mode's minSyncPeriod.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Config {
        let min_sync_period =
            if self.mode == mode { self.min_sync_period } else { default_min_sync_period(mode) };
        Config { mode, min_sync_period, ..self }
    }

    /// Parses and validates a configuration.
    pub fn of(config: &Value) -> Result<Config, ConfigError> {
        let (kind, api_version) = (meta::kind(config), meta::api_version(config));
        if kind != "KubeProxyConfiguration" || api_version != API_VERSION {
            let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
            return Err(ConfigError::NotAConfiguration { kind, api_version });
        }
        let text = |path: &[&str]| config.str_at(path).unwrap_or_default().to_owned();
        let mode = Mode::of(&text(&["mode"]))?;
        let section = if mode == Mode::Nftables { "nftables" } else { "iptables" };
        let ports = config.items_at(&["nodePortAddresses"]);
        let node_port_primary = ports.first().and_then(Value::as_str) == Some("primary");
        let ipv6 = text(&["bindAddress"]).contains(':');
        let defaults = Config::default();
        Ok(Config {
            mode,
            hostname_override: text(&["hostnameOverride"]),
            kubeconfig: text(&["clientConnection", "kubeconfig"]),
            masquerade_all: config.bool_at(&["linux", "masqueradeAll"]) == Some(true)
                || config.bool_at(&[section, "masqueradeAll"]) == Some(true),
            masquerade_bit: masquerade_bit(config, section)?,
            detect_local: detect_local(config)?,
            node_port_addresses: if node_port_primary { Vec::new() } else { node_ports(ports)? },
            node_port_primary,
            localhost_node_ports: config.bool_at(&["iptables", "localhostNodePorts"]).unwrap_or(true),
            min_sync_period: duration(config, &[section, "minSyncPeriod"])?
                .unwrap_or(default_min_sync_period(mode)),
            sync_period: duration(config, &[section, "syncPeriod"])?.unwrap_or(defaults.sync_period),
            healthz: address(config, "healthzBindAddress", HEALTHZ_PORT, (ipv6, false))?,
            metrics: address(config, "metricsBindAddress", METRICS_PORT, (ipv6, true))?,
            conntrack: conntrack(config, &defaults.conntrack)?,
        })
    }
}

/// The default minSyncPeriod of a mode.
fn default_min_sync_period(mode: Mode) -> Duration {
    match mode {
        Mode::Nftables => BATCHING,
        Mode::Iptables => Duration::from_secs(1),
    }
}

fn invalid(field: &str, value: &str, complaint: &'static str) -> ConfigError {
    ConfigError::Invalid { field: field.to_owned(), value: value.to_owned(), complaint }
}

fn masquerade_bit(config: &Value, section: &str) -> Result<u8, ConfigError> {
    let bit = config.int_at(&[section, "masqueradeBit"]).unwrap_or(14);
    let valid = u8::try_from(bit).ok().filter(|bit| *bit <= 31);
    valid.ok_or_else(|| {
        invalid(&format!("{section}.masqueradeBit"), &bit.to_string(), "must be within the range [0, 31]")
    })
}

fn detect_local(config: &Value) -> Result<DetectLocal, ConfigError> {
    let text = |path: &[&str]| config.str_at(path).unwrap_or_default().to_owned();
    match text(&["detectLocalMode"]).as_str() {
        "" | "ClusterCIDR" => {
            let clusters = text(&["clusterCIDR"]);
            let cidrs = cidrs("clusterCIDR", clusters.split(',').filter(|cidr| !cidr.is_empty()))?;
            Ok(if cidrs.is_empty() { DetectLocal::None } else { DetectLocal::ClusterCidr(cidrs) })
        }
        "NodeCIDR" => Ok(DetectLocal::NodeCidr),
        "BridgeInterface" => named(text(&["detectLocal", "bridgeInterface"]), "bridgeInterface")
            .map(DetectLocal::BridgeInterface),
        "InterfaceNamePrefix" => named(text(&["detectLocal", "interfaceNamePrefix"]), "interfaceNamePrefix")
            .map(DetectLocal::InterfaceNamePrefix),
        other => Err(invalid(
            "detectLocalMode",
            other,
            "must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
        )),
    }
}

/// The name or the name prefix of a link.
fn named(name: String, field: &str) -> Result<String, ConfigError> {
    if (1..=15).contains(&name.len()) {
        Ok(name)
    } else {
        Err(invalid(&format!("detectLocal.{field}"), &name, "must be 1 to 15 characters long"))
    }
}

fn node_ports(ports: &[Value]) -> Result<Vec<Cidr>, ConfigError> {
    cidrs("nodePortAddresses", ports.iter().filter_map(Value::as_str))
}

/// Parses a list of CIDRs.
pub fn cidrs<'a>(field: &str, texts: impl Iterator<Item = &'a str>) -> Result<Vec<Cidr>, ConfigError> {
    let parse = |text: &str| {
        let cidr: Option<Cidr> = text.trim().parse().ok();
        cidr.ok_or_else(|| {
            invalid(field, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
        })
    };
    texts.map(parse).collect()
}

/// Parses a duration. Zero counts as absent.
fn duration(config: &Value, path: &[&str]) -> Result<Option<Duration>, ConfigError> {
    let Some(text) = config.str_at(path) else { return Ok(None) };
    let lasting = time::go_duration(text).ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let lasting = lasting.ok_or_else(|| invalid(&path.join("."), text, "must be a duration such as 30s"))?;
    Ok((lasting > Duration::ZERO).then_some(lasting))
}

/// A default address: true for IPv6, and true for loopback.
type Default4or6 = (bool, bool);

fn address(
    config: &Value,
    field: &str,
    port: u16,
    (ipv6, loopback): Default4or6,
) -> Result<Option<SocketAddr>, ConfigError> {
    let unsaid: IpAddr = match (ipv6, loopback) {
        (false, false) => [0, 0, 0, 0].into(),
        (false, true) => [127, 0, 0, 1].into(),
        (true, false) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        (true, true) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    let text = config.str_at(&[field]).unwrap_or_default();
    let address = match text {
        "" => SocketAddr::new(unsaid, port),
        text => parse_address(text, port).ok_or_else(|| invalid(field, text, "must be IP:port"))?,
    };
    Ok(Some(address).filter(|address| address.port() != 0))
}

/// Parses an address, with or without a port.
pub fn parse_address(text: &str, port: u16) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| Some(SocketAddr::new(text.trim_matches(['[', ']']).parse().ok()?, port)))
}

fn conntrack(config: &Value, defaults: &Conntrack) -> Result<Conntrack, ConfigError> {
    let number = |key: &str, unsaid: u32| {
        let said = config.int_at(&["conntrack", key]);
        said.and_then(|number| u32::try_from(number).ok()).unwrap_or(unsaid)
    };
    let lasting = |key: &str| duration(config, &["conntrack", key]);
    Ok(Conntrack {
        max_per_core: number("maxPerCore", defaults.max_per_core),
        min: number("min", defaults.min),
        tcp_established: lasting("tcpEstablishedTimeout")?.unwrap_or(defaults.tcp_established),
        tcp_close_wait: lasting("tcpCloseWaitTimeout")?.unwrap_or(defaults.tcp_close_wait),
        tcp_be_liberal: config.bool_at(&["conntrack", "tcpBeLiberal"]) == Some(true),
        udp: lasting("udpTimeout")?.unwrap_or_default(),
        udp_stream: lasting("udpStreamTimeout")?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
