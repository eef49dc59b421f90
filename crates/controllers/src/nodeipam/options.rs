//! The cluster CIDRs and mask sizes, as flags give them.

use super::cidr::Cidr;
use super::set::CidrSet;

const DEFAULT_V4: u32 = 24;
const DEFAULT_V6: u32 = 64;

/// The mask sizes of pod CIDRs, where flags set them.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaskSizes {
    pub any: Option<u32>,
    pub v4: Option<u32>,
    pub v6: Option<u32>,
}

/// The cluster CIDRs: one, or one of each family.
#[derive(Debug, Clone)]
pub struct NodeIpamOptions {
    /// The cluster CIDRs, with the prefix length of pod CIDRs.
    ranges: Vec<(Cidr, u32)>,
    /// The service CIDRs, which are not for pods.
    services: Vec<Cidr>,
}

impl NodeIpamOptions {
    /// Parses the flags; CIDRs are separated by commas.
    pub fn new(cluster: &str, masks: MaskSizes, services: &str) -> Result<NodeIpamOptions, String> {
        if cluster.trim().is_empty() {
            return Err("Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set".to_owned());
        }
        let ranges = parse(cluster).map_err(|error| format!("--cluster-cidr: {error}"))?;
        let services = parse(services).map_err(|error| format!("--service-cluster-ip-range: {error}"))?;
        if let [a, b, ..] = ranges[..]
            && (ranges.len() > 2 || a.is_v6() == b.is_v6())
        {
            return Err("--cluster-cidr: give one range, or one of IPv4 and one of IPv6".to_owned());
        }
        let (v4, v6) = prefixes(&ranges, masks)?;
        let ranges: Vec<_> =
            ranges.into_iter().map(|range| (range, if range.is_v6() { v6 } else { v4 })).collect();
        let options = NodeIpamOptions { ranges, services };
        options.sets()?;
        Ok(options)
    }

    /// The number of nodes that get a pod CIDR.
    pub fn capacity(&self) -> u64 {
        let sets = self.sets().unwrap_or_default();
        sets.iter().map(CidrSet::size).min().unwrap_or(0)
    }

    /// The sets to allocate from, in the order of the cluster CIDRs.
    pub(super) fn sets(&self) -> Result<Vec<CidrSet>, String> {
        let set = |(range, prefix): &(Cidr, u32)| {
            let mut set = CidrSet::new(*range, *prefix)?;
            for service in self.services.iter().filter(|service| service.overlaps(range)) {
                set.occupy(service)?;
            }
            Ok(set)
        };
        self.ranges.iter().map(set).collect()
    }
}

fn parse(ranges: &str) -> Result<Vec<Cidr>, String> {
    let parts = ranges.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::parse).collect()
}

/// The prefix lengths of IPv4 and IPv6 pod CIDRs. The mask size without a family is invalid in a dual-stack cluster.
fn prefixes(ranges: &[Cidr], masks: MaskSizes) -> Result<(u32, u32), String> {
    let only = match ranges {
        [range] => Some(range.is_v6()),
        _ => None,
    };
    let wrong = match (only, masks.any, masks.v4, masks.v6) {
        (None, Some(_), ..) => "usage of --node-cidr-mask-size is not allowed with dual-stack clusters",
        (Some(_), Some(_), v4, v6) if v4.or(v6).is_some() => {
            "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if \
             --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
        }
        (Some(true), _, Some(_), _) => {
            "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"
        }
        (Some(false), _, _, Some(_)) => {
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"
        }
        _ => "",
    };
    if !wrong.is_empty() {
        return Err(wrong.to_owned());
    }
    let v4 = masks.any.or(masks.v4).unwrap_or(DEFAULT_V4);
    let v6 = masks.any.or(masks.v6).unwrap_or(DEFAULT_V6);
    Ok((v4, v6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(any: Option<u32>, v4: Option<u32>, v6: Option<u32>) -> MaskSizes {
        MaskSizes { any, v4, v6 }
    }

    #[test]
    fn cluster_cidrs_are_divided_by_mask_sizes() {
        for (cluster, sizes, expected) in [
            ("10.244.0.0/16", masks(None, None, None), &[24][..]),
            ("10.244.0.0/16", masks(Some(26), None, None), &[26]),
            ("10.244.0.0/16", masks(None, Some(25), None), &[25]),
            ("fd00::/56", masks(None, None, None), &[64]),
            ("fd00::/56", masks(None, None, Some(62)), &[62]),
            ("10.244.0.0/16,fd00::/56", masks(None, None, None), &[24, 64]),
            ("fd00::/56, 10.244.0.0/16", masks(None, Some(25), Some(62)), &[62, 25]),
        ] {
            let options = NodeIpamOptions::new(cluster, sizes, "").unwrap();
            let prefixes: Vec<_> = options.ranges.iter().map(|(_, prefix)| *prefix).collect();
            assert_eq!(prefixes, expected, "{cluster} {sizes:?}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (cluster, sizes) in [
            ("", masks(None, None, None)),
            ("10.244.0.0", masks(None, None, None)),
            ("10.244.0.0/16,10.245.0.0/16", masks(None, None, None)),
            ("10.244.0.0/16,fd00::/56,fd01::/56", masks(None, None, None)),
            ("10.244.0.0/16,fd00::/56", masks(Some(24), None, None)),
            ("10.244.0.0/16", masks(Some(24), Some(24), None)),
            ("10.244.0.0/16", masks(None, None, Some(64))),
            ("fd00::/56", masks(None, Some(24), None)),
            ("10.244.0.0/16", masks(Some(12), None, None)),
        ] {
            assert!(NodeIpamOptions::new(cluster, sizes, "").is_err(), "{cluster} {sizes:?}");
        }
    }

    #[test]
    fn service_cidrs_are_not_allocated() {
        let options =
            NodeIpamOptions::new("10.0.0.0/22", MaskSizes::default(), "10.0.0.0/23,fd00::/108").unwrap();
        let mut sets = options.sets().unwrap();
        assert_eq!(sets[0].allocate().unwrap().to_string(), "10.0.2.0/24");
        assert_eq!(options.capacity(), 4);
    }
}
