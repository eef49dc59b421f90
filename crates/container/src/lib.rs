//! Containers: the CRI as a Rust trait, the runtimes behind it, and images.
//!
//! [`Runtime`] and [`Images`] are the CRI's two services. The kubelet holds an `Arc<dyn Runtime>` and an
//! `Arc<dyn Images>` and never depends on the implementation behind them:
//!
//! - [`native`]: namespaces, cgroups and overlayfs of this machine; needs nothing installed;
//! - [`remote`]: the CRI over a socket, for containerd, CRI-O and others;
//! - [`fake`]: in memory, controlled by a test.
//!
//! [`image`] is the image store of the native runtime and of `corten image`; [`registry`] pulls images into it.
//!
//! Types have the CRI's names and meanings, in plain Rust: an absent message is an `Option` or a default, a
//! time is a `Timestamp`, an enum is an enum. Windows is not supported.
//!
//! # A pod's life
//!
//! ```
//! # async fn example(runtime: &dyn corten_container::Runtime, images: &dyn corten_container::Images)
//! # -> Result<(), corten_container::Error> {
//! use corten_container::*;
//! use std::time::Duration;
//!
//! let mut events = runtime.events();
//! let pod = PodSandboxConfig {
//!     metadata: PodSandboxMetadata { name: "web".into(), namespace: "default".into(), ..Default::default() },
//!     log_directory: "/var/log/pods/default_web_0".into(),
//!     ..Default::default()
//! };
//! let sandbox = runtime.run_pod_sandbox(&pod, "").await?;
//!
//! let image = ImageSpec::new("busybox:latest");
//! let image_ref = images.pull_image(&image, None, Some(&pod), &Progress::ignored()).await?;
//!
//! let config = ContainerConfig {
//!     metadata: ContainerMetadata { name: "main".into(), attempt: 0 },
//!     image: ImageSpec::new(image_ref),
//!     command: vec!["sleep".into(), "10".into()],
//!     log_path: "main/0.log".into(),
//!     ..Default::default()
//! };
//! let container = runtime.create_container(&sandbox, &config, &pod).await?;
//! runtime.start_container(&container).await?;
//!
//! // Nothing is polled: every change of a container is one event, in order.
//! while let Ok(event) = events.recv().await {
//!     if event.container_id == container && event.kind == ContainerEventKind::Stopped {
//!         break;
//!     }
//! }
//! assert_eq!(runtime.container_status(&container).await?.exit_code, 0);
//! runtime.stop_container(&container, Duration::from_secs(30)).await?;
//! runtime.remove_container(&container).await?;
//! runtime.stop_pod_sandbox(&sandbox).await?;
//! runtime.remove_pod_sandbox(&sandbox).await
//! # }
//! ```
//!
//! Stopping and removing are idempotent, as the CRI requires: a missing container counts as stopped and removed.

mod cri;
pub mod fake;
pub mod image;
pub mod native;
pub mod registry;
pub mod remote;

pub use cri::*;

/// The directory of a node's images and containers, within the data directory.
pub fn folder(data_dir: &std::path::Path) -> std::path::PathBuf {
    data_dir.join("runtime")
}

/// Runs blocking work on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::internal("blocking task failed", error)),
    }
}
