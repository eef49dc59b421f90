//! The interface to the pod network, which connects a sandbox's network namespace.

use async_trait::async_trait;

use crate::{PodSandboxConfig, Result};

/// The sandbox to connect.
#[derive(Debug, Clone, Copy)]
pub struct PodNetwork<'a> {
    pub sandbox_id: &'a str,
    /// A path of the network namespace, valid as long as the sandbox lives.
    pub namespace: &'a str,
    pub config: &'a PodSandboxConfig,
}

#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Connects a sandbox and returns its addresses, the primary one first.
    async fn attach(&self, pod: PodNetwork<'_>) -> Result<Vec<String>>;
    /// Releases the resources of `attach`. The namespace may be gone; a second call succeeds.
    async fn detach(&self, pod: PodNetwork<'_>) -> Result<()>;
    /// Checks that a sandbox is still connected, if the network supports it.
    async fn check(&self, _pod: PodNetwork<'_>) -> Result<()> {
        Ok(())
    }
    /// The reason for which pods cannot be connected now, if any.
    async fn not_ready(&self) -> Option<String>;
    fn set_pod_cidr(&self, pod_cidr: &str);
}

/// Pods with a loopback interface only.
#[derive(Debug, Default)]
pub struct LoopbackOnly;

#[async_trait]
impl Network for LoopbackOnly {
    async fn attach(&self, _pod: PodNetwork<'_>) -> Result<Vec<String>> {
        Ok(vec!["127.0.0.1".to_owned()])
    }

    async fn detach(&self, _pod: PodNetwork<'_>) -> Result<()> {
        Ok(())
    }

    async fn not_ready(&self) -> Option<String> {
        None
    }

    fn set_pod_cidr(&self, _pod_cidr: &str) {}
}
