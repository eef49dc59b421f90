//! The settings that all servers of a cluster have in common. A server that joins takes them from the cluster; a flag that
//! says something else is refused. Pure.

use std::collections::BTreeSet;

use anyhow::bail;

/// The flags of these settings.
const SHARED: [&str; 14] = [
    "allocate-node-cidrs",
    "api-audiences",
    "cluster-cidr",
    "cluster-dns",
    "cluster-domain",
    "etcd-prefix",
    "node-cidr-mask-size",
    "node-cidr-mask-size-ipv4",
    "node-cidr-mask-size-ipv6",
    "pod-network-backend",
    "service-account-issuer",
    "service-cluster-ip-range",
    "service-node-port-range",
    "storage-media-type",
];
/// The flags whose values are given one by one.
const REPEATED: [&str; 1] = ["service-account-issuer"];

/// The flags of a process by name, each with its values separated by commas.
pub(crate) type Flags = Vec<(String, String)>;

/// The shared settings of a server with these flags, and the values of settings without a flag.
pub(super) fn shared(flags: &Flags, defaults: &[(&str, String)]) -> Flags {
    let value = |name: &str| {
        let flag = flags.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        flag.or_else(|| defaults.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    };
    SHARED.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?))).collect()
}

/// The further arguments with which a server has the cluster's settings. `given` names the flags on its command line.
pub(super) fn arguments(
    settings: &Flags,
    flags: &Flags,
    given: &BTreeSet<String>,
) -> anyhow::Result<Vec<String>> {
    for name in SHARED.iter().filter(|name| given.contains(**name)) {
        let of =
            |flags: &Flags| flags.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let (own, cluster) = (of(flags).unwrap_or_default(), of(settings));
        match cluster {
            Some(cluster) if cluster == own => {}
            Some(cluster) => {
                bail!("--{name}={own} contradicts the cluster, which has {cluster}; remove the flag")
            }
            None => bail!("--{name}={own} contradicts the cluster, which does not set it; remove the flag"),
        }
    }
    let missing =
        settings.iter().filter(|(name, _)| SHARED.contains(&name.as_str()) && !given.contains(name));
    Ok(missing
        .flat_map(|(name, value)| {
            let values: Vec<&str> = match REPEATED.contains(&name.as_str()) {
                true => value.split(',').collect(),
                false => vec![value],
            };
            values.into_iter().map(move |value| format!("--{name}={value}")).collect::<Vec<_>>()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(list: &[(&str, &str)]) -> Flags {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn given(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn shared_settings_are_those_of_the_flags_and_the_defaults() {
        let of_server = flags(&[
            ("bind-address", "0.0.0.0"),
            ("cluster-domain", "cluster.local"),
            ("service-cluster-ip-range", "10.96.0.0/12"),
        ]);
        let defaults =
            [("cluster-cidr", "10.244.0.0/16".to_owned()), ("cluster-domain", "not.this".to_owned())];
        let expected = flags(&[
            ("cluster-cidr", "10.244.0.0/16"),
            ("cluster-domain", "cluster.local"),
            ("service-cluster-ip-range", "10.96.0.0/12"),
        ]);
        assert_eq!(shared(&of_server, &defaults), expected);
    }

    #[test]
    fn settings_become_arguments_unless_they_are_given() {
        let settings = flags(&[
            ("cluster-domain", "c.example"),
            ("service-cluster-ip-range", "10.0.0.0/16,fd00::/112"),
            ("service-account-issuer", "https://a,https://b"),
            ("bind-address", "192.0.2.1"),
        ]);
        let own = flags(&[("cluster-domain", "c.example"), ("service-cluster-ip-range", "10.96.0.0/12")]);
        let more = arguments(&settings, &own, &given(&["cluster-domain"])).unwrap();
        let expected = [
            "--service-cluster-ip-range=10.0.0.0/16,fd00::/112",
            "--service-account-issuer=https://a",
            "--service-account-issuer=https://b",
        ];
        assert_eq!(more, expected, "and never a flag that is not shared");
    }

    #[test]
    fn a_contradicting_flag_is_refused() {
        let settings = flags(&[("cluster-domain", "c.example")]);
        let own = flags(&[("cluster-domain", "d.example"), ("cluster-cidr", "10.0.0.0/8")]);
        let said = |names: &[&str]| arguments(&settings, &own, &given(names)).unwrap_err().to_string();
        let expected =
            "--cluster-domain=d.example contradicts the cluster, which has c.example; remove the flag";
        assert_eq!(said(&["cluster-domain"]), expected);
        let expected =
            "--cluster-cidr=10.0.0.0/8 contradicts the cluster, which does not set it; remove the flag";
        assert_eq!(said(&["cluster-cidr"]), expected);
    }
}
