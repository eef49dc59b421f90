//! The cgroups of pods: created before their sandboxes, removed after them. The layout is upstream's.

use std::io;

use corten_api::Value;
use corten_container::LinuxContainerResources;
use corten_container::native::cgroup::{Cgroups, Setting};

use crate::pod::Pod;
use crate::resources::{self, Qos};

/// The mount of cgroup v2 beside v1, where other runtimes create cgroups too.
const BESIDE: &str = "/sys/fs/cgroup/unified";

/// The node's cgroups.
pub(crate) struct PodCgroups {
    cgroups: Cgroups,
    /// The maximum number of processes of a pod (`podPidsLimit`).
    pids: Option<i64>,
}

impl PodCgroups {
    /// Finds the hierarchies and creates the cgroups of all pods and of the QoS classes. Reads the fields of a
    /// `KubeletConfiguration`.
    pub(crate) fn prepare(configuration: &Value) -> io::Result<PodCgroups> {
        let cgroups = Cgroups::detect()?;
        let pids = configuration.int_at(&["podPidsLimit"]).filter(|limit| *limit > 0);
        let unsupported = |why: &str| Err(io::Error::new(io::ErrorKind::Unsupported, why));
        if pids.is_some() && !has_pids(&cgroups) {
            return unsupported("podPidsLimit is set, but the kernel has no pids controller");
        }
        let only_new = configuration.bool_at(&["failCgroupV1"]).unwrap_or(false);
        if only_new && matches!(cgroups, Cgroups::V1(_)) {
            return unsupported(
                "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported \
                 and will be removed in a future release",
            );
        }
        cgroups.create("/kubepods")?;
        for class in [Qos::Burstable, Qos::BestEffort] {
            cgroups.create(&format!("/kubepods/{}", class.cgroup()))?;
        }
        let prepared = PodCgroups { cgroups, pids };
        // BestEffort pods get only cpu time that no other pod uses.
        prepared.set_cpu_weight(Qos::BestEffort, 0)?;
        prepared.set_cpu_weight(Qos::Burstable, 0)?;
        Ok(prepared)
    }

    /// Limits all pods together, so that something is left for the node itself.
    pub(crate) fn limit(&self, allocatable: &LinuxContainerResources) -> io::Result<()> {
        self.cgroups.apply("/kubepods", &self.cgroups.settings(allocatable))
    }

    /// Sets the cpu weight of all pods of a class together.
    pub(crate) fn set_cpu_weight(&self, class: Qos, milli_cpu: i64) -> io::Result<()> {
        let weight =
            LinuxContainerResources { cpu_shares: resources::shares(milli_cpu), ..Default::default() };
        self.cgroups.apply(&format!("/kubepods/{}", class.cgroup()), &self.cgroups.settings(&weight))
    }

    pub(crate) fn hierarchies(&self) -> &Cgroups {
        &self.cgroups
    }

    /// Creates a pod's cgroup with its limits.
    pub(crate) fn make(&self, pod: &Pod) -> io::Result<()> {
        let PodCgroups { cgroups, pids } = self;
        let path = resources::cgroup_of(pod);
        cgroups.create(&path)?;
        let limits = resources::of_pod(pod);
        let mut settings = cgroups.settings(&limits);
        settings.extend(bounds(cgroups, *pids));
        cgroups.apply(&path, &settings)
    }

    /// Changes the limits of a pod; those that are not set stay as they are.
    pub(crate) fn set(&self, pod: &Pod, limits: &LinuxContainerResources) -> io::Result<()> {
        let PodCgroups { cgroups, .. } = self;
        cgroups.apply(&resources::cgroup_of(pod), &cgroups.settings(limits))
    }

    /// Removes a pod's cgroup, in whichever class it is, with everything below it.
    pub(crate) fn remove(&self, uid: &str) -> io::Result<()> {
        let beside = Cgroups::V2(BESIDE.into());
        for class in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
            let path = class.cgroup_of(uid);
            for cgroups in [&self.cgroups, &beside] {
                if cgroups.folders(&path).iter().any(|folder| folder.exists()) {
                    cgroups.remove(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the pids controller is available.
fn has_pids(cgroups: &Cgroups) -> bool {
    match cgroups {
        Cgroups::V1(_) => cgroups.folder("pids", "/").is_some(),
        Cgroups::V2(root) => {
            let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == "pids")
        }
    }
}

/// The limits of a whole pod that do not depend on its containers: its number of processes, and no swap, because
/// secrets in memory must not reach a disk. Cgroup v1 counts swap together with memory, so that a limit on both would
/// block every resize; it is left out there, as upstream leaves it.
fn bounds(cgroups: &Cgroups, pids: Option<i64>) -> Vec<Setting> {
    let is_old = matches!(cgroups, Cgroups::V1(_));
    let set = |controller, file: &str, value: i64, optional| Setting {
        controller: if is_old { controller } else { "" },
        file: file.to_owned(),
        value: value.to_string(),
        optional,
    };
    let mut settings: Vec<Setting> =
        pids.map(|limit| set("pids", "pids.max", limit, false)).into_iter().collect();
    if !is_old {
        settings.push(set("", "memory.swap.max", 0, true));
    }
    settings
}

#[cfg(test)]
mod tests {
    use corten_container::native::cgroup::Hierarchy;

    use super::*;

    #[test]
    fn pods_are_limited_in_both_cgroup_versions() {
        let shown = |cgroups: &Cgroups, pids| -> Vec<String> {
            let settings = bounds(cgroups, pids);
            settings.iter().map(|s| format!("{}:{}={}", s.controller, s.file, s.value)).collect()
        };
        let controllers = vec!["pids".to_owned()];
        let old = Cgroups::V1(vec![Hierarchy { controllers, mountpoint: "/c/pids".into() }]);
        let new = Cgroups::V2("/c".into());
        assert_eq!(shown(&new, Some(100)), [":pids.max=100", ":memory.swap.max=0"]);
        assert_eq!(shown(&new, None), [":memory.swap.max=0"]);
        assert_eq!(shown(&old, Some(100)), ["pids:pids.max=100"]);
        assert!(shown(&old, None).is_empty());
        assert!(has_pids(&old) && !has_pids(&Cgroups::V1(Vec::new())) && !has_pids(&new));
    }
}
