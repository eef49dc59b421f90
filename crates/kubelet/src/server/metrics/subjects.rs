//! The cgroups that have metrics: the node, all pods, each QoS class, each pod, each sandbox, each container.

use corten_container::native::usage::{self, Folder, Usage};
use corten_container::{ContainerFilter, ContainerState, PodSandboxFilter, PodSandboxState};
use jiff::Timestamp;

use crate::kubelet::Kubelet;
use crate::pod::HostNamespace;
use crate::resources::{self, Qos};
use crate::stats::{self, Interface};

/// A cgroup with its labels and usage.
#[derive(Debug, Default)]
pub(super) struct Subject {
    /// The cgroup's path.
    pub(super) id: String,
    pub(super) image: String,
    /// The runtime's name of it.
    pub(super) name: String,
    pub(super) container: String,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) started: Timestamp,
    pub(super) usage: Usage,
    pub(super) interfaces: Vec<Interface>,
}

impl Subject {
    /// The labels of all its samples, sorted by name.
    pub(super) fn labels(&self) -> [(&str, &str); 6] {
        [
            ("container", &self.container),
            ("id", &self.id),
            ("image", &self.image),
            ("name", &self.name),
            ("namespace", &self.namespace),
            ("pod", &self.pod),
        ]
    }
}

/// All cgroups, in the order of the tree.
pub(super) async fn all(kubelet: &Kubelet) -> corten_container::Result<Vec<Subject>> {
    let booted = stats::boot_time().unwrap_or_default();
    let read = |path: &str| usage::read(&Folder { cgroups: kubelet.resources.cgroups.hierarchies(), path });
    let group = |path: &str| Subject {
        id: path.to_owned(),
        usage: read(path),
        started: booted,
        ..Subject::default()
    };
    let mut found =
        vec![Subject { interfaces: stats::interfaces("/proc/net/dev").unwrap_or_default(), ..group("/") }];
    found.push(group("/kubepods"));
    for class in [Qos::Burstable, Qos::BestEffort] {
        found.push(group(&format!("/kubepods/{}", class.cgroup())));
    }
    let sandboxes = kubelet.containers.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await?;
    let filter = ContainerFilter { state: Some(ContainerState::Running), ..ContainerFilter::default() };
    let containers = kubelet.containers.runtime.list_containers(&filter).await?;
    for pod in kubelet.pod_workers.pods() {
        let cgroup = resources::cgroup_of(&pod);
        let of_pod = |path: String, started: Timestamp| Subject {
            usage: read(&path),
            id: path,
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
            started,
            ..Subject::default()
        };
        let own =
            sandboxes.iter().filter(|s| s.metadata.uid == pod.uid() && s.state == PodSandboxState::Ready);
        for sandbox in own {
            found.push(of_pod(cgroup.clone(), sandbox.created_at));
            let path = format!("{cgroup}/{}", sandbox.id);
            let interfaces = match pod.uses_host(HostNamespace::Network) {
                true => Vec::new(),
                false => interfaces_in(kubelet, &path),
            };
            let subject = of_pod(path, sandbox.created_at);
            found.push(Subject { name: sandbox.id.clone(), interfaces, ..subject });
            for container in containers.iter().filter(|c| c.pod_sandbox_id == sandbox.id) {
                found.push(Subject {
                    image: container.image.image.clone(),
                    name: container.id.clone(),
                    container: container.metadata.name.clone(),
                    ..of_pod(format!("{cgroup}/{}", container.id), container.created_at)
                });
            }
        }
    }
    Ok(found)
}

/// The interfaces that a process of a cgroup sees.
fn interfaces_in(kubelet: &Kubelet, cgroup: &str) -> Vec<Interface> {
    let processes = kubelet.resources.cgroups.hierarchies().processes(cgroup);
    let table = processes.first().map(|process| format!("/proc/{process}/net/dev"));
    table.and_then(|table| stats::interfaces(&table)).unwrap_or_default()
}
