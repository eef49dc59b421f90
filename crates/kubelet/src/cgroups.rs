//! The cgroups of pods: made before their sandboxes, gone after them. Laid out as upstream lays them out.

use std::io;

use corten_api::Value;
use corten_container::LinuxContainerResources;
use corten_container::native::cgroup::{Cgroups, Setting};

use crate::pod::Pod;
use crate::resources::{self, Qos};

/// Where the second version is mounted beside the first; other runtimes make cgroups in both.
const BESIDE: &str = "/sys/fs/cgroup/unified";

/// The node's cgroups.
pub(crate) struct PodCgroups {
    cgroups: Cgroups,
    /// How many processes a pod may have (`podPidsLimit`).
    pids: Option<i64>,
}

impl PodCgroups {
    /// Finds them, and makes the ones that all pods are in. Reads the fields of a `KubeletConfiguration`.
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
        // Who asks for nothing gets what nobody else wants.
        prepared.weigh(Qos::BestEffort, 0)?;
        prepared.weigh(Qos::Burstable, 0)?;
        Ok(prepared)
    }

    /// Limits all pods together, so that something is left for the node itself.
    pub(crate) fn limit(&self, allocatable: &LinuxContainerResources) -> io::Result<()> {
        self.cgroups.apply("/kubepods", &self.cgroups.settings(allocatable))
    }

    /// Lets the pods of a class together weigh as much as this.
    pub(crate) fn weigh(&self, class: Qos, milli_cpu: i64) -> io::Result<()> {
        let weight =
            LinuxContainerResources { cpu_shares: resources::shares(milli_cpu), ..Default::default() };
        self.cgroups.apply(&format!("/kubepods/{}", class.cgroup()), &self.cgroups.settings(&weight))
    }

    pub(crate) fn hierarchies(&self) -> &Cgroups {
        &self.cgroups
    }

    /// Makes a pod's cgroup with all that the pod may use.
    pub(crate) fn make(&self, pod: &Pod) -> io::Result<()> {
        let PodCgroups { cgroups, pids } = self;
        let path = resources::cgroup_of(pod);
        cgroups.create(&path)?;
        let limits = resources::of_pod(pod);
        let mut settings = cgroups.settings(&limits);
        settings.extend(bounds(cgroups, *pids));
        cgroups.apply(&path, &settings)
    }

    /// Changes what a pod may use; what is not set stays as it is.
    pub(crate) fn set(&self, pod: &Pod, limits: &LinuxContainerResources) -> io::Result<()> {
        let PodCgroups { cgroups, .. } = self;
        cgroups.apply(&resources::cgroup_of(pod), &cgroups.settings(limits))
    }

    /// Takes a pod's cgroup away, whatever its class was, with what may still be in it.
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

/// Whether processes can be counted.
fn has_pids(cgroups: &Cgroups) -> bool {
    match cgroups {
        Cgroups::V1(_) => cgroups.folder("pids", "/").is_some(),
        Cgroups::V2(root) => {
            let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == "pids")
        }
    }
}

/// What bounds a whole pod, whatever its containers say: how many processes it has, and that it has no swap. Secrets that it
/// keeps in memory are not to reach a disk. Version 1 of cgroups counts swap together with memory, so that a limit on both would
/// stand in the way of every resize; it is left out there, as upstream leaves it.
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
    fn pods_are_bounded_in_both_versions() {
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
