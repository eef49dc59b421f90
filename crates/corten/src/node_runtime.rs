//! What the pods of this process' node run in: the native runtime, or any other that serves the CRI on a socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use corten_base::Clock;
use corten_container::image::Store;
use corten_container::native::network::Network;
use corten_container::native::{self, Native};
use corten_container::registry::{Registries, RegistriesConfig};
use corten_container::remote::Remote;
use corten_container::{Images, Runtime};

/// Mirrors, credentials and trust, in the form of k3s' `registries.yaml`.
const REGISTRIES: &str = "/etc/corten/registries.yaml";

/// Both services of a runtime.
pub(crate) struct Containers {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) images: Arc<dyn Images>,
}

/// The runtime behind a socket. Its pods' network is its own affair.
pub(crate) fn remote(endpoint: &str, image_endpoint: Option<&str>) -> anyhow::Result<Containers> {
    let runtime = Arc::new(Remote::new(socket("--container-runtime-endpoint", endpoint)?));
    let images = match image_endpoint.filter(|other| *other != endpoint) {
        Some(other) => Arc::new(Remote::new(socket("--image-service-endpoint", other)?)),
        None => runtime.clone(),
    };
    Ok(Containers { runtime, images })
}

/// A socket by its path or by a URL of it.
fn socket<'a>(flag: &str, endpoint: &'a str) -> anyhow::Result<&'a str> {
    match endpoint.split_once("://") {
        Some(("unix", _)) => Ok(endpoint),
        None if endpoint.starts_with('/') => Ok(endpoint),
        _ => anyhow::bail!(
            "{flag}: {endpoint} is no socket; give one such as unix:///run/containerd/containerd.sock"
        ),
    }
}

/// The runtime of this process, with the images of the folder `images` of its data directory.
pub(crate) async fn native(
    data_dir: &Path,
    network: Arc<dyn Network>,
    handlers: BTreeMap<String, PathBuf>,
    clock: Clock,
) -> anyhow::Result<Containers> {
    let config = RegistriesConfig::read(Path::new(REGISTRIES));
    let native = Native::open(native::Options {
        data_dir: corten_container::folder(data_dir),
        network,
        registries: Registries::new(
            config.with_context(|| format!("reading {REGISTRIES}"))?.unwrap_or_default(),
        ),
        clock,
        seccomp_dir: data_dir.join("kubelet/seccomp"),
        handlers,
    });
    let native = native.await.context("opening the container runtime")?;
    let (store, folder) = (native.store().clone(), data_dir.join("images"));
    tokio::task::spawn_blocking(move || load(&store, &folder)).await.context("loading images")?;
    let runtime = Arc::new(native);
    Ok(Containers { runtime: runtime.clone(), images: runtime })
}

/// Takes in the archives of a folder. A bad one is no reason not to start.
fn load(store: &Store, folder: &Path) {
    let imported = match store.import_folder(folder) {
        Ok(imported) => imported,
        Err(error) => return tracing::warn!(folder = %folder.display(), %error, "images were not loaded"),
    };
    for file in imported {
        let archive = file.path.display();
        match file.images {
            Ok(images) => {
                let names: Vec<_> = images.into_iter().flat_map(|image| image.names).collect();
                tracing::info!(%archive, images = names.join(" "), "images were loaded");
            }
            Err(error) => tracing::warn!(%archive, %error, "images were not loaded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_sockets() {
        for good in ["unix:///run/containerd/containerd.sock", "/run/crio/crio.sock"] {
            assert_eq!(socket("--x", good).unwrap(), good);
        }
        for bad in ["tcp://127.0.0.1:2375", "containerd.sock", ""] {
            assert!(socket("--x", bad).is_err(), "{bad}");
        }
    }
}
