//! The flags that say how pods are connected.

use std::path::PathBuf;

use corten_net::cni::config;

#[derive(clap::Args, Clone)]
pub(crate) struct PodNetworkFlags {
    /// How pods are connected: auto is by CNI plugins if there is a configuration of them when the node starts, and
    /// built-in otherwise; cni waits for a configuration; with none, pods reach nobody but themselves.
    #[arg(long, default_value = "auto", value_parser = ["auto", "built-in", "cni", "none"])]
    pod_network: String,
    /// Where configurations of CNI plugins are; the first by name counts.
    #[arg(long, default_value = "/etc/cni/net.d")]
    pub(super) cni_conf_dir: PathBuf,
    /// Where CNI plugins are.
    #[arg(long, default_value = "/opt/cni/bin", value_delimiter = ',')]
    pub(super) cni_bin_dir: Vec<PathBuf>,
}

/// Who connects pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    BuiltIn,
    Plugins,
    Nothing,
}

impl PodNetworkFlags {
    pub(crate) fn means(&self) -> Means {
        match self.pod_network.as_str() {
            "none" => Means::Nothing,
            "cni" => Means::Plugins,
            "auto" if config::exists(&self.cni_conf_dir) => Means::Plugins,
            _ => Means::BuiltIn,
        }
    }

    /// Whether pods reach anybody but themselves.
    pub(crate) fn connects(&self) -> bool {
        self.means() != Means::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_used_if_they_are_configured() {
        let folder = std::env::temp_dir().join(format!("corten-cni-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let means = |word: &str| {
            let pod_network = word.to_owned();
            let (cni_conf_dir, cni_bin_dir) = (folder.clone(), Vec::new());
            PodNetworkFlags { pod_network, cni_conf_dir, cni_bin_dir }.means()
        };
        let every = ["auto", "built-in", "cni", "none"];
        let before = every.map(means);
        std::fs::write(folder.join("10-some.conflist"), "{}").unwrap();
        let after = every.map(means);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(before, [Means::BuiltIn, Means::BuiltIn, Means::Plugins, Means::Nothing]);
        assert_eq!(after, [Means::Plugins, Means::BuiltIn, Means::Plugins, Means::Nothing]);
    }
}
