//! The sysctls that the pod network needs, in the namespace of the calling thread.
//!
//! Sysctls that have the desired value are not written, so a machine with read-only sysctls of the right values works.

use std::path::{Path, PathBuf};
use std::{fs, io};

const ROOT: &str = "/proc/sys/net";

/// Enables forwarding for the pods of a bridge.
pub(crate) fn enable_forwarding(bridge: &str, ipv6: bool) -> io::Result<()> {
    set("ipv4/ip_forward", "1")?;
    // No ICMP redirects: pods always send through the node.
    set("ipv4/conf/all/send_redirects", "0")?;
    set(&format!("ipv4/conf/{bridge}/send_redirects"), "0")?;
    // Packets from loopback addresses may be routed to a host port's pod.
    set(&format!("ipv4/conf/{bridge}/route_localnet"), "1")?;
    if ipv6 {
        set(&format!("ipv6/conf/{bridge}/disable_ipv6"), "0")?;
        set(&format!("ipv6/conf/{bridge}/accept_ra"), "0")?;
        keep_router_advertisements()?;
        set("ipv6/conf/all/forwarding", "1")?;
    }
    Ok(())
}

/// Disables redirects and router advertisements on a pod's link. Called within the pod.
pub(crate) fn ignore_routers(link: &str, ipv6: bool) -> io::Result<()> {
    set("ipv4/conf/all/accept_redirects", "0")?;
    set(&format!("ipv4/conf/{link}/accept_redirects"), "0")?;
    if ipv6 {
        set("ipv6/conf/lo/disable_ipv6", "0")?;
        // The link-local address is made from the hardware address, which the node's rules allow.
        let settings =
            [("disable_ipv6", "0"), ("accept_redirects", "0"), ("accept_ra", "0"), ("addr_gen_mode", "0")];
        for (setting, value) in settings {
            set(&format!("ipv6/conf/{link}/{setting}"), value)?;
        }
    }
    Ok(())
}

/// Keeps the node's default route over IPv6: a machine that forwards ignores router advertisements unless accept_ra is 2.
fn keep_router_advertisements() -> io::Result<()> {
    for link in fs::read_dir(Path::new(ROOT).join("ipv6/conf"))? {
        let setting = link?.path().join("accept_ra");
        if read(&setting)? == "1" {
            fs::write(setting, "2")?;
        }
    }
    Ok(())
}

fn set(setting: &str, value: &str) -> io::Result<()> {
    let path: PathBuf = Path::new(ROOT).join(setting);
    if read(&path)? == value {
        return Ok(());
    }
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::write(&path, value).map_err(named)
}

fn read(path: &Path) -> io::Result<String> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::read_to_string(path).map(|text| text.trim_end().to_owned()).map_err(named)
}
