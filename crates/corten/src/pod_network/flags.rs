//! The flags of the pod network.

use std::path::PathBuf;

use corten_net::cni::config;

#[derive(clap::Args, Clone)]
pub(crate) struct PodNetworkFlags {
    /// Pod network: auto uses CNI plugins if they are configured when the node starts, and built-in otherwise; cni waits
    /// for a CNI configuration; none gives pods a loopback interface only.
    #[arg(long, default_value = "auto", value_parser = ["auto", "built-in", "cni", "none"])]
    pod_network: String,
    /// Directory of CNI configurations; the first one by name is used.
    #[arg(long, default_value = "/etc/cni/net.d")]
    pub(super) cni_conf_dir: PathBuf,
    /// Directory of CNI plugins.
    #[arg(long, default_value = "/opt/cni/bin", value_delimiter = ',')]
    pub(super) cni_bin_dir: Vec<PathBuf>,
}

/// The kind of pod network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodNetworkKind {
    BuiltIn,
    Plugins,
    Nothing,
}

impl PodNetworkFlags {
    pub(crate) fn kind(&self) -> PodNetworkKind {
        match self.pod_network.as_str() {
            "none" => PodNetworkKind::Nothing,
            "cni" => PodNetworkKind::Plugins,
            "auto" if config::exists(&self.cni_conf_dir) => PodNetworkKind::Plugins,
            _ => PodNetworkKind::BuiltIn,
        }
    }

    /// True if pods have a network beyond the loopback interface.
    pub(crate) fn connects(&self) -> bool {
        self.kind() != PodNetworkKind::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_used_if_they_are_configured() {
        let folder = std::env::temp_dir().join(format!("corten-cni-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let kind = |word: &str| {
            let pod_network = word.to_owned();
            let (cni_conf_dir, cni_bin_dir) = (folder.clone(), Vec::new());
            PodNetworkFlags { pod_network, cni_conf_dir, cni_bin_dir }.kind()
        };
        let every = ["auto", "built-in", "cni", "none"];
        let before = every.map(kind);
        std::fs::write(folder.join("10-some.conflist"), "{}").unwrap();
        let after = every.map(kind);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            before,
            [
                PodNetworkKind::BuiltIn,
                PodNetworkKind::BuiltIn,
                PodNetworkKind::Plugins,
                PodNetworkKind::Nothing
            ]
        );
        assert_eq!(
            after,
            [
                PodNetworkKind::Plugins,
                PodNetworkKind::BuiltIn,
                PodNetworkKind::Plugins,
                PodNetworkKind::Nothing
            ]
        );
    }
}
