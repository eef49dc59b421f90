//! The container runtime of this process' node: the built-in one, or another that serves the CRI on a socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use corten_base::Clock;
use corten_container::image::{self, Store};
use corten_container::native::network::Network;
use corten_container::native::{self, Native};
use corten_container::registry::{Registries, RegistriesConfig};
use corten_container::remote::Remote;
use corten_container::{Images, Runtime};

/// Registry mirrors, credentials and CAs, in the format of k3s' `registries.yaml`.
const REGISTRIES: &str = "/etc/corten/registries.yaml";

/// Both CRI services of a runtime.
pub(crate) struct Containers {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) images: Arc<dyn Images>,
}

/// A CRI runtime behind a socket. It sets up the network of its pods itself.
pub(crate) fn remote(endpoint: &str, image_endpoint: Option<&str>) -> anyhow::Result<Containers> {
    let runtime = Arc::new(Remote::new(socket("--container-runtime-endpoint", endpoint)?));
    let images = match image_endpoint.filter(|other| *other != endpoint) {
        Some(other) => Arc::new(Remote::new(socket("--image-service-endpoint", other)?)),
        None => runtime.clone(),
    };
    Ok(Containers { runtime, images })
}

/// Checks that an endpoint is the path or the URL of a Unix socket.
fn socket<'a>(flag: &str, endpoint: &'a str) -> anyhow::Result<&'a str> {
    match endpoint.split_once("://") {
        Some(("unix", _)) => Ok(endpoint),
        None if endpoint.starts_with('/') => Ok(endpoint),
        _ => anyhow::bail!(
            "{flag}: {endpoint} is not a Unix socket; give one such as unix:///run/containerd/containerd.sock"
        ),
    }
}

/// The built-in runtime, with the images in the folder `images` of the data directory.
pub(crate) async fn native(
    data_dir: &Path,
    network: Arc<dyn Network>,
    handlers: BTreeMap<String, PathBuf>,
    image_limits: image::Limits,
    clock: Clock,
) -> anyhow::Result<Containers> {
    let config = RegistriesConfig::read(Path::new(REGISTRIES));
    let native = Native::open(native::Options {
        data_dir: corten_container::folder(data_dir),
        network,
        registries: Registries::new(
            config.with_context(|| format!("cannot read {REGISTRIES}"))?.unwrap_or_default(),
        ),
        clock,
        seccomp_dir: data_dir.join("kubelet/seccomp"),
        handlers,
        image_limits,
    });
    let native = native.await.context("cannot open the container runtime")?;
    let (store, folder) = (native.store().clone(), data_dir.join("images"));
    tokio::task::spawn_blocking(move || load(&store, &folder)).await.context("cannot load images")?;
    let runtime = Arc::new(native);
    Ok(Containers { runtime: runtime.clone(), images: runtime })
}

/// Imports the image archives of a folder. A bad archive is logged and skipped.
fn load(store: &Store, folder: &Path) {
    let imported = match store.import_folder(folder) {
        Ok(imported) => imported,
        Err(err) => return tracing::warn!(folder = %folder.display(), %err, "cannot import images"),
    };
    for file in imported {
        let archive = file.path.display();
        match file.images {
            Ok(images) => {
                let names: Vec<_> = images.into_iter().flat_map(|image| image.names).collect();
                tracing::info!(%archive, images = names.join(" "), "imported images");
            }
            Err(err) => tracing::warn!(%archive, %err, "cannot import images"),
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
