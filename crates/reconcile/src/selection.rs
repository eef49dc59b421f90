//! The selection of controllers, in the syntax of `--controllers`: `*` is all that are on by default, `name` one more,
//! `-name` one less.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<String>);

/// The controllers that run only if they are named.
const OFF_BY_DEFAULT: [&str; 2] = ["bootstrap-signer-controller", "token-cleaner-controller"];

/// Former names of controllers, where they differ from the name without `-controller`.
const OLD_NAMES: [(&str, &str); 20] = [
    ("attachdetach", "persistentvolume-attach-detach-controller"),
    ("bootstrapsigner", "bootstrap-signer-controller"),
    ("csrapproving", "certificatesigningrequest-approving-controller"),
    ("csrcleaner", "certificatesigningrequest-cleaner-controller"),
    ("csrsigning", "certificatesigningrequest-signing-controller"),
    ("endpoint", "endpoints-controller"),
    ("endpointslicemirroring", "endpointslice-mirroring-controller"),
    ("garbagecollector", "garbage-collector-controller"),
    ("horizontalpodautoscaling", "horizontal-pod-autoscaler-controller"),
    ("legacy-service-account-token-cleaner", "legacy-serviceaccount-token-cleaner-controller"),
    ("nodeipam", "node-ipam-controller"),
    ("nodelifecycle", "node-lifecycle-controller"),
    ("podgc", "pod-garbage-collector-controller"),
    ("pv-protection", "persistentvolume-protection-controller"),
    ("pvc-protection", "persistentvolumeclaim-protection-controller"),
    ("resource-claim-controller", "resourceclaim-controller"),
    ("root-ca-cert-publisher", "root-ca-certificate-publisher-controller"),
    ("storage-version-gc", "storageversion-garbage-collector-controller"),
    ("svm", "storage-version-migrator-controller"),
    ("tokencleaner", "token-cleaner-controller"),
];

/// The current name of a controller.
fn name_of(name: &str) -> String {
    let (sign, name) = name.strip_prefix('-').map_or(("", name), |name| ("-", name));
    let renamed = OLD_NAMES.iter().find(|(old, _)| *old == name).map(|(_, new)| (*new).to_owned());
    let name = renamed.unwrap_or_else(|| match name {
        "*" => name.to_owned(),
        name if name.ends_with("-controller") => name.to_owned(),
        name => format!("{name}-controller"),
    });
    format!("{sign}{name}")
}

impl Default for Selection {
    fn default() -> Selection {
        Selection(vec!["*".to_owned()])
    }
}

impl Selection {
    pub fn new(names: &[String]) -> Selection {
        Selection(names.iter().map(|name| name_of(name)).collect())
    }

    /// All controllers, including those that are off by default.
    pub fn everything() -> Selection {
        let names = ["*"].into_iter().chain(OFF_BY_DEFAULT);
        Selection(names.map(str::to_owned).collect())
    }

    /// True if a controller is selected. A name takes precedence over `*`.
    pub fn includes(&self, controller: &str) -> bool {
        for name in &self.0 {
            if name == controller {
                return true;
            }
            if name.strip_prefix('-') == Some(controller) {
                return false;
            }
        }
        self.0.iter().any(|name| name == "*") && !OFF_BY_DEFAULT.contains(&controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_wildcards_select_controllers() {
        let check = |names: &[&str], controller: &str, expected: bool| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let selection = Selection::new(&names);
            assert_eq!(selection.includes(controller), expected, "{names:?} {controller}");
        };
        check(&["*"], "job-controller", true);
        check(&["*", "-job-controller"], "job-controller", false);
        check(&["job-controller"], "job-controller", true);
        check(&["job-controller"], "deployment-controller", false);
        check(&["*", "-nodeipam"], "node-ipam-controller", false);
        check(&["ttl"], "ttl-controller", true);
        check(&["resource-claim-controller"], "resourceclaim-controller", true);
        check(&["*"], "token-cleaner-controller", false);
        check(&["*", "token-cleaner-controller"], "token-cleaner-controller", true);
    }
}
