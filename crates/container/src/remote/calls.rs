//! The CRI's requests and responses, as far as they are more than a type of this crate.

use corten_grpc::protobuf::message;

use super::types::nanoseconds;
use crate::*;

macro_rules! structs {
    ($($name:ident { $($number:literal $field:ident $(via $codec:ident)?: $kind:ty),* $(,)? })*) => {$(
        #[derive(Debug, Clone, Default)]
        pub(super) struct $name {
            $(pub(super) $field: $kind,)*
        }

        message!($name { $($number $field $(via $codec)?),* });
    )*};
}

structs! {
    Nothing {}
    VersionRequest { 1 version: String }
    StatusResponse { 1 status: Conditions, 3 handlers: Vec<Handler>, 4 features: Features }
    Conditions { 1 conditions: Vec<RuntimeCondition> }
    Handler { 1 name: String, 2 features: HandlerFeatures }
    HandlerFeatures { 1 recursive_read_only_mounts: bool, 2 user_namespaces: bool }
    Features { 1 supplemental_groups_policy: bool }
    RuntimeConfigResponse { 1 linux: LinuxRuntimeConfiguration }
    LinuxRuntimeConfiguration { 1 cgroup_driver: i32 }
    UpdateRuntimeConfigRequest { 1 runtime_config: RuntimeConfig }
    RuntimeConfig { 1 network_config: NetworkConfig }
    NetworkConfig { 1 pod_cidr: String }

    RunPodSandboxRequest { 1 config: PodSandboxConfig, 2 runtime_handler: String }
    Id { 1 id: String }
    PodSandboxStatusResponse { 1 status: SandboxStatus }
    SandboxStatus {
        1 id: String, 2 metadata: PodSandboxMetadata, 3 state: PodSandboxState, 4 created_at via nanoseconds: jiff::Timestamp,
        5 network: NetworkStatus, 6 linux: LinuxSandboxStatus, 7 labels: Map, 8 annotations: Map,
        9 runtime_handler: String,
    }
    NetworkStatus { 1 ip: String, 2 additional_ips: Vec<PodIp> }
    PodIp { 1 ip: String }
    LinuxSandboxStatus { 1 namespaces: Namespace }
    Namespace { 2 options: NamespaceOptions }
    ListPodSandboxRequest { 1 filter: SandboxFilter }
    SandboxFilter { 1 id: String, 2 state: Option<SandboxStateValue>, 3 labels: Map }
    SandboxStateValue { 1 state: PodSandboxState }
    ListPodSandboxResponse { 1 items: Vec<PodSandbox> }
    UpdatePodSandboxResourcesRequest {
        1 id: String, 2 overhead: Option<LinuxContainerResources>, 3 resources: Option<LinuxContainerResources>,
    }

    CreateContainerRequest { 1 pod_sandbox_id: String, 2 config: ContainerConfig, 3 sandbox_config: PodSandboxConfig }
    StopContainerRequest { 1 id: String, 2 timeout: i64 }
    ListContainersRequest { 1 filter: Filter }
    Filter { 1 id: String, 2 state: Option<StateValue>, 3 pod_sandbox_id: String, 4 labels: Map }
    StateValue { 1 state: ContainerState }
    ListContainersResponse { 1 containers: Vec<Container> }
    ContainerStatusResponse { 1 status: ContainerStatus }
    UpdateContainerResourcesRequest { 1 id: String, 2 linux: LinuxContainerResources }
    ExecSyncRequest { 1 id: String, 2 command: Vec<String>, 3 timeout: i64 }
    ExecSyncResponse { 1 stdout: Vec<u8>, 2 stderr: Vec<u8>, 3 exit_code: i32 }
    ExecCall { 1 id: String, 2 command: Vec<String>, 3 tty: bool, 4 stdin: bool, 5 stdout: bool, 6 stderr: bool }
    AttachCall { 1 id: String, 2 stdin: bool, 3 tty: bool, 4 stdout: bool, 5 stderr: bool }
    PortForwardCall { 1 id: String, 2 ports: Vec<i64> }
    Url { 1 url: String }

    ContainerStatsResponse { 1 stats: Stats }
    ListContainerStatsRequest { 1 filter: StatsFilterCall }
    StatsFilterCall { 1 id: String, 2 pod_sandbox_id: String, 3 labels: Map }
    ListContainerStatsResponse { 1 stats: Vec<Stats> }
    Stats {
        1 attributes: Attributes, 2 cpu: Option<CpuUsage>, 3 memory: Option<MemoryUsage>,
        4 writable_layer: Option<Filesystem>, 5 swap: Option<SwapUsage>,
    }
    Attributes { 1 id: String, 2 metadata: ContainerMetadata, 3 labels: Map, 4 annotations: Map }
    Filesystem { 1 timestamp via nanoseconds: jiff::Timestamp, 2 id: FilesystemId, 3 used_bytes: Option<u64>, 4 inodes_used: Option<u64> }
    FilesystemId { 1 mountpoint: String }
    PodSandboxStatsResponse { 1 stats: SandboxStats }
    ListPodSandboxStatsRequest { 1 filter: SandboxStatsFilter }
    SandboxStatsFilter { 1 id: String, 2 labels: Map }
    ListPodSandboxStatsResponse { 1 stats: Vec<SandboxStats> }
    SandboxStats { 1 attributes: SandboxAttributes, 2 linux: LinuxSandboxStats }
    SandboxAttributes { 1 id: String, 2 metadata: PodSandboxMetadata, 3 labels: Map, 4 annotations: Map }
    LinuxSandboxStats {
        1 cpu: Option<CpuUsage>, 2 memory: Option<MemoryUsage>, 3 network: Option<Network>,
        4 process: Option<Processes>, 5 containers: Vec<Stats>,
    }
    Network { 1 timestamp via nanoseconds: jiff::Timestamp, 2 default_interface: Option<Interface>, 3 interfaces: Vec<Interface> }
    Interface {
        1 name: String, 2 rx_bytes: Option<u64>, 3 rx_errors: Option<u64>, 4 tx_bytes: Option<u64>,
        5 tx_errors: Option<u64>,
    }
    Processes { 1 timestamp via nanoseconds: jiff::Timestamp, 2 count: Option<u64> }

    ImageRequest { 1 image: Option<ImageSpec> }
    ImageFilterRequest { 1 filter: Option<ImageRequest> }
    ListImagesResponse { 1 images: Vec<Image> }
    ImageStatusResponse { 1 image: Option<Image> }
    PullImageRequest { 1 image: ImageSpec, 2 auth: Option<AuthConfig>, 3 sandbox_config: Option<PodSandboxConfig> }
    ImageFsInfoResponse { 1 images: Vec<Filesystem>, 2 containers: Vec<Filesystem> }
}

impl From<SandboxStatus> for PodSandboxStatus {
    fn from(status: SandboxStatus) -> PodSandboxStatus {
        let additional = status.network.additional_ips.into_iter().map(|ip| ip.ip);
        PodSandboxStatus {
            id: status.id,
            metadata: status.metadata,
            state: status.state,
            created_at: status.created_at,
            ips: std::iter::once(status.network.ip).chain(additional).filter(|ip| !ip.is_empty()).collect(),
            namespaces: status.linux.namespaces.options,
            labels: status.labels,
            annotations: status.annotations,
            runtime_handler: status.runtime_handler,
        }
    }
}

impl From<Filesystem> for FilesystemUsage {
    fn from(usage: Filesystem) -> FilesystemUsage {
        FilesystemUsage {
            timestamp: usage.timestamp,
            mountpoint: usage.id.mountpoint,
            used_bytes: usage.used_bytes.unwrap_or_default(),
            inodes_used: usage.inodes_used.unwrap_or_default(),
        }
    }
}

impl From<Stats> for ContainerStats {
    fn from(stats: Stats) -> ContainerStats {
        ContainerStats {
            id: stats.attributes.id,
            metadata: stats.attributes.metadata,
            labels: stats.attributes.labels,
            annotations: stats.attributes.annotations,
            cpu: stats.cpu,
            memory: stats.memory,
            swap: stats.swap,
            writable_layer: stats.writable_layer.map(Into::into),
            ..ContainerStats::default()
        }
    }
}

impl From<Interface> for NetworkInterfaceUsage {
    fn from(interface: Interface) -> NetworkInterfaceUsage {
        NetworkInterfaceUsage {
            name: interface.name,
            rx_bytes: interface.rx_bytes.unwrap_or_default(),
            rx_errors: interface.rx_errors.unwrap_or_default(),
            tx_bytes: interface.tx_bytes.unwrap_or_default(),
            tx_errors: interface.tx_errors.unwrap_or_default(),
        }
    }
}

impl From<SandboxStats> for PodSandboxStats {
    fn from(stats: SandboxStats) -> PodSandboxStats {
        let id = stats.attributes.id;
        let network = stats.linux.network.map(|network| NetworkUsage {
            timestamp: network.timestamp,
            default_interface: network.default_interface.map(Into::into),
            interfaces: network.interfaces.into_iter().map(Into::into).collect(),
        });
        let containers = stats
            .linux
            .containers
            .into_iter()
            .map(|stats| ContainerStats { pod_sandbox_id: id.clone(), ..stats.into() });
        PodSandboxStats {
            containers: containers.collect(),
            metadata: stats.attributes.metadata,
            labels: stats.attributes.labels,
            annotations: stats.attributes.annotations,
            cpu: stats.linux.cpu,
            memory: stats.linux.memory,
            io: None,
            network,
            process_count: stats.linux.process.and_then(|process| process.count),
            id,
        }
    }
}

/// A request that consists of an id.
pub(super) fn id(id: &str) -> Id {
    Id { id: id.to_owned() }
}
