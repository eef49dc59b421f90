//! The CRI's field numbers, for the types of this crate.

use jiff::Timestamp;

use crate::*;
use corten_grpc::protobuf::{Field, Message, Value, message};

message!(PodSandboxMetadata { 1 name, 2 uid, 3 namespace, 4 attempt });
message!(DnsConfig { 1 servers, 2 searches, 3 options });
message!(PortMapping { 1 protocol, 2 container_port, 3 host_port, 4 host_ip });
message!(PodSandboxConfig {
    1 metadata, 2 hostname, 3 log_directory, 4 dns_config, 5 port_mappings, 6 labels, 7 annotations, 8 linux
});
message!(LinuxPodSandboxConfig { 1 cgroup_parent, 2 security_context, 3 sysctls, 4 overhead, 5 resources });
message!(NamespaceOptions { 1 network, 2 pid, 3 ipc, 4 target_id });
message!(SelinuxOption { 1 user, 2 role, 3 kind, 4 level });
message!(SandboxSecurityContext {
    1 namespace_options, 2 selinux_options, 3 run_as_user, 4 readonly_rootfs, 5 supplemental_groups, 6 privileged,
    8 run_as_group, 9 seccomp, 10 apparmor, 11 supplemental_groups_policy
});
message!(ContainerSecurityContext {
    1 capabilities, 2 privileged, 3 namespace_options, 4 selinux_options, 5 run_as_user, 6 run_as_username,
    7 readonly_rootfs, 8 supplemental_groups, 11 no_new_privs, 12 run_as_group, 13 masked_paths, 14 readonly_paths,
    15 seccomp, 16 apparmor, 17 supplemental_groups_policy
});
message!(Capabilities { 1 add, 2 drop, 3 add_ambient });
message!(PodSandbox { 1 id, 2 metadata, 3 state, 4 created_at via nanoseconds, 5 labels, 6 annotations, 7 runtime_handler });
message!(ContainerMetadata { 1 name, 2 attempt });
message!(ImageSpec { 1 image, 2 annotations, 18 user_specified_image, 19 runtime_handler });
message!(ContainerConfig {
    1 metadata, 2 image, 3 command, 4 args, 5 working_dir, 6 envs, 7 mounts, 8 devices, 9 labels, 10 annotations,
    11 log_path, 12 stdin, 13 stdin_once, 14 tty, 15 linux
});
message!(LinuxContainerConfig { 1 resources, 2 security_context });
message!(Mount {
    1 container_path, 2 host_path, 3 readonly, 4 selinux_relabel, 5 propagation, 8 recursive_read_only
});
message!(Device { 1 container_path, 2 host_path, 3 permissions });
message!(LinuxContainerResources {
    1 cpu_period, 2 cpu_quota, 3 cpu_shares, 4 memory_limit_in_bytes, 5 oom_score_adj, 6 cpuset_cpus, 7 cpuset_mems,
    8 hugepage_limits, 9 unified, 10 memory_swap_limit_in_bytes
});
message!(HugepageLimit { 1 page_size, 2 limit });
message!(Container {
    1 id, 2 pod_sandbox_id, 3 metadata, 4 image, 5 image_ref, 6 state, 7 created_at via nanoseconds, 8 labels, 9 annotations,
    10 image_id
});
message!(ContainerStatus {
    1 id, 2 metadata, 3 state, 4 created_at via nanoseconds, 5 started_at via optional_nanoseconds, 6 finished_at via optional_nanoseconds, 7 exit_code, 8 image, 9 image_ref, 10 reason,
    11 message, 12 labels, 13 annotations, 14 mounts, 15 log_path, 17 image_id
});
message!(Image { 1 id, 2 repo_tags, 3 repo_digests, 4 size, 5 uid, 6 username, 7 spec, 8 pinned });
message!(AuthConfig { 1 username, 2 password, 3 auth, 4 server_address, 5 identity_token, 6 registry_token });
message!(CpuUsage { 1 timestamp via nanoseconds, 2 usage_core_nano_seconds, 3 usage_nano_cores });
message!(MemoryUsage {
    1 timestamp via nanoseconds, 2 working_set_bytes, 3 available_bytes, 4 usage_bytes, 5 rss_bytes, 6 page_faults,
    7 major_page_faults
});
message!(SwapUsage { 1 timestamp via nanoseconds, 2 available_bytes, 3 usage_bytes });
message!(RuntimeCondition { 1 kind, 2 status, 3 reason, 4 message });
message!(Version { 2 runtime_name, 3 runtime_version, 4 runtime_api_version });

macro_rules! choices {
    ($($name:ty { $($number:literal $choice:ident),* })*) => {$(
        impl Field for $name {
            fn put(&self, number: u32, to: &mut Vec<u8>) {
                let value: i32 = match self {
                    $(<$name>::$choice => $number,)*
                };
                Field::put(&value, number, to);
            }

            fn take(&mut self, value: Value<'_>) -> Option<()> {
                let mut number = 0i32;
                Field::take(&mut number, value)?;
                *self = match number {
                    $($number => <$name>::$choice,)*
                    // A newer runtime may have other values.
                    _ => <$name>::default(),
                };
                Some(())
            }
        }
    )*};
}

choices! {
    Protocol { 0 Tcp, 1 Udp, 2 Sctp }
    NamespaceMode { 0 Pod, 1 Container, 2 Node, 3 Target }
    SupplementalGroupsPolicy { 0 Merge, 1 Strict }
    MountPropagation { 0 Private, 1 HostToContainer, 2 Bidirectional }
    PodSandboxState { 0 Ready, 1 NotReady }
    ContainerState { 0 Created, 1 Running, 2 Exited, 3 Unknown }
}

/// Kind and name of a profile.
impl Message for SecurityProfile {
    fn put_fields(&self, to: &mut Vec<u8>) {
        match self {
            SecurityProfile::RuntimeDefault => {}
            SecurityProfile::Unconfined => Field::put(&1i32, 1, to),
            SecurityProfile::Localhost(name) => {
                Field::put(&2i32, 1, to);
                Field::put(name, 2, to);
            }
        }
    }

    fn take_field(&mut self, number: u32, value: Value<'_>) -> Option<()> {
        match (number, value) {
            (1, Value::Number(1)) => *self = SecurityProfile::Unconfined,
            (1, Value::Number(2)) => *self = SecurityProfile::Localhost(String::new()),
            (2, value) => {
                let mut name = String::new();
                Field::take(&mut name, value)?;
                *self = SecurityProfile::Localhost(name);
            }
            _ => {}
        }
        Some(())
    }
}

/// Nanoseconds since 1970.
pub(super) mod nanoseconds {
    use super::{Field, Timestamp, Value};

    pub(crate) fn put(time: &Timestamp, number: u32, to: &mut Vec<u8>) {
        Field::put(&i64::try_from(time.as_nanosecond()).unwrap_or_default(), number, to);
    }

    pub(crate) fn take(time: &mut Timestamp, value: Value<'_>) -> Option<()> {
        let mut nanoseconds = 0i64;
        Field::take(&mut nanoseconds, value)?;
        *time = Timestamp::from_nanosecond(i128::from(nanoseconds)).ok()?;
        Some(())
    }
}

/// Nanoseconds since 1970; 0 is "not yet".
pub(super) mod optional_nanoseconds {
    use super::{Timestamp, Value, nanoseconds};

    pub(crate) fn put(time: &Option<Timestamp>, number: u32, to: &mut Vec<u8>) {
        nanoseconds::put(&time.unwrap_or_default(), number, to);
    }

    pub(crate) fn take(time: &mut Option<Timestamp>, value: Value<'_>) -> Option<()> {
        let mut known = Timestamp::default();
        nanoseconds::take(&mut known, value)?;
        *time = (known != Timestamp::default()).then_some(known);
        Some(())
    }
}
