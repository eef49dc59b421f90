//! The seam to the pod network: who connects a sandbox's network namespace to the world.

use async_trait::async_trait;

use crate::{PodSandboxConfig, Result};

/// A sandbox that is to be connected.
#[derive(Debug, Clone, Copy)]
pub struct PodNetwork<'a> {
    pub sandbox_id: &'a str,
    /// A path that opens the network namespace, for as long as the sandbox lives.
    pub namespace: &'a str,
    pub config: &'a PodSandboxConfig,
}

#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Connects a sandbox; its addresses, the primary one first.
    async fn attach(&self, pod: PodNetwork<'_>) -> Result<Vec<String>>;
    /// Gives back what `attach` took. The namespace may be gone; doing it twice is fine.
    async fn detach(&self, pod: PodNetwork<'_>) -> Result<()>;
    /// Whether a sandbox is still connected as it was, if that can be told.
    async fn check(&self, _pod: PodNetwork<'_>) -> Result<()> {
        Ok(())
    }
    /// Why pods cannot be connected now, if they cannot.
    async fn not_ready(&self) -> Option<String>;
    fn set_pod_cidr(&self, pod_cidr: &str);
}

/// Pods that reach nobody but themselves.
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
