//! Files of operators: kubeconfigs, `registries.yaml`, and the configurations of kubelet, kube-proxy and scheduler.

use corten_api::yaml;
use corten_kubelet::configuration::Configuration;

pub(crate) fn check(data: &[u8]) {
    if let Ok((mut configuration, _)) = Configuration::read(data) {
        let mut overlaid = Configuration::default();
        overlaid.overlay(&configuration);
        configuration.complete();
        let _ = (configuration.validate(), overlaid.validate(), configuration.without_effect());
    }
    if let Ok(tree) = yaml::to_value(data, &mut Vec::new()) {
        let _ = (corten_proxy::Config::of(&tree), corten_scheduler::Config::of(&tree));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    corten_container::registry::fuzz::text(text);
    let _ = corten_pki::authority_in_kubeconfig(text);
    if !names_files(text) {
        let _ = corten_pki::parse_kubeconfig(text);
    }
}

/// True if a kubeconfig might name a file, which would be read: no input chooses what a fuzz target opens.
fn names_files(text: &str) -> bool {
    let inline = ["certificate-authority-data", "client-certificate-data", "client-key-data"];
    let rest = inline.iter().fold(text.to_owned(), |text, field| text.replace(field, ""));
    ["certificate-authority", "client-certificate", "client-key", "oken-file", "okenFile", "\\"]
        .iter()
        .any(|word| rest.contains(word))
}
