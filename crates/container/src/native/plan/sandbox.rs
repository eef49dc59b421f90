//! A pod's sandbox.

use corten_sys::wire;

use crate::{NamespaceMode, PodSandboxConfig};

const CLONE_NEWUTS: u32 = 0x0400_0000;
const CLONE_NEWIPC: u32 = 0x0800_0000;
const CLONE_NEWNET: u32 = 0x4000_0000;

/// Supervisors are killed last when memory runs out.
const OOM_SCORE_ADJ: i32 = -998;

pub(crate) fn plan(config: &PodSandboxConfig, cgroups: Vec<String>) -> wire::Sandbox {
    let options = &config.linux.security_context.namespace_options;
    let own_network = options.network != NamespaceMode::Node;
    let own_ipc = options.ipc != NamespaceMode::Node;
    let mut namespaces = 0;
    if own_network {
        // A pod on the node's network also has the node's host name.
        namespaces |= CLONE_NEWNET | CLONE_NEWUTS;
    }
    if own_ipc {
        namespaces |= CLONE_NEWIPC;
    }
    wire::Sandbox {
        namespaces,
        shares_processes: options.pid == NamespaceMode::Pod,
        hostname: if own_network { config.hostname.clone() } else { String::new() },
        sysctls: config.linux.sysctls.clone().into_iter().collect(),
        cgroups,
        oom_score_adj: OOM_SCORE_ADJ,
        shared_memory: if own_ipc { "mode=1777,size=65536k".to_owned() } else { String::new() },
    }
}
