//! The cgroups of pods: made before their sandboxes, gone after them. Laid out as upstream lays them out.

use std::io;

use corten_container::LinuxContainerResources;
use corten_container::native::cgroup::Cgroups;

use crate::pod::Pod;
use crate::resources::{self, Qos};

/// Where the second version is mounted beside the first; other runtimes make cgroups in both.
const BESIDE: &str = "/sys/fs/cgroup/unified";

/// The node's cgroups.
pub(crate) struct PodCgroups(Cgroups);

impl PodCgroups {
    /// Finds them, and makes the ones that all pods are in.
    pub(crate) fn prepare() -> io::Result<PodCgroups> {
        let cgroups = Cgroups::detect()?;
        cgroups.create("/kubepods")?;
        for class in [Qos::Burstable, Qos::BestEffort] {
            cgroups.create(&format!("/kubepods/{}", class.cgroup()))?;
        }
        let prepared = PodCgroups(cgroups);
        // Who asks for nothing gets what nobody else wants.
        prepared.weigh(Qos::BestEffort, 0)?;
        prepared.weigh(Qos::Burstable, 0)?;
        Ok(prepared)
    }

    /// Limits all pods together, so that something is left for the node itself.
    pub(crate) fn limit(&self, allocatable: &LinuxContainerResources) -> io::Result<()> {
        self.0.apply("/kubepods", &self.0.settings(allocatable))
    }

    /// Lets the pods of a class together weigh as much as this.
    pub(crate) fn weigh(&self, class: Qos, milli_cpu: i64) -> io::Result<()> {
        let weight =
            LinuxContainerResources { cpu_shares: resources::shares(milli_cpu), ..Default::default() };
        self.0.apply(&format!("/kubepods/{}", class.cgroup()), &self.0.settings(&weight))
    }

    pub(crate) fn hierarchies(&self) -> &Cgroups {
        &self.0
    }

    /// Makes a pod's cgroup with all that the pod may use.
    pub(crate) fn make(&self, pod: &Pod) -> io::Result<()> {
        let PodCgroups(cgroups) = self;
        let path = resources::cgroup_of(pod);
        cgroups.create(&path)?;
        cgroups.apply(&path, &cgroups.settings(&resources::of_pod(pod)))
    }

    /// Changes what a pod may use; what is not set stays as it is.
    pub(crate) fn set(&self, pod: &Pod, limits: &LinuxContainerResources) -> io::Result<()> {
        let PodCgroups(cgroups) = self;
        cgroups.apply(&resources::cgroup_of(pod), &cgroups.settings(limits))
    }

    /// Takes a pod's cgroup away, whatever its class was, with what may still be in it.
    pub(crate) fn remove(&self, uid: &str) -> io::Result<()> {
        let beside = Cgroups::V2(BESIDE.into());
        for class in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
            let path = class.cgroup_of(uid);
            for cgroups in [&self.0, &beside] {
                if cgroups.folders(&path).iter().any(|folder| folder.exists()) {
                    cgroups.remove(&path)?;
                }
            }
        }
        Ok(())
    }
}
