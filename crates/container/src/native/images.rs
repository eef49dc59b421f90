//! The image service of the native runtime.

use async_trait::async_trait;

use super::stats::disk_usage;
use super::*;
use crate::image::Named;
use crate::{AuthConfig, FilesystemUsage, Image, ImageFsInfo, ImageSpec, Images, PodSandboxConfig, Progress};

#[async_trait]
impl Images for Native {
    async fn list_images(&self, filter: Option<&ImageSpec>) -> Result<Vec<Image>> {
        let found = match filter {
            Some(filter) => self.0.store.find(&filter.image)?.into_iter().collect(),
            None => self.0.store.images()?,
        };
        Ok(found.into_iter().map(image).collect())
    }

    async fn image_status(&self, spec: &ImageSpec) -> Result<Option<Image>> {
        Ok(self.0.store.find(&spec.image)?.map(image))
    }

    async fn pull_image(
        &self,
        spec: &ImageSpec,
        auth: Option<&AuthConfig>,
        _sandbox_config: Option<&PodSandboxConfig>,
        progress: &Progress,
    ) -> Result<String> {
        let record = self.0.options.registries.pull(&self.0.store, &spec.image, auth, progress).await?;
        Ok(record.id.to_string())
    }

    async fn remove_image(&self, spec: &ImageSpec) -> Result<()> {
        let (native, name) = (self.clone(), spec.image.clone());
        blocking(move || Ok(native.0.store.remove(&name)?)).await
    }

    async fn image_fs_info(&self) -> Result<ImageFsInfo> {
        let native = self.clone();
        blocking(move || {
            let root = native.0.store.root();
            let usage = |folders: &[&str]| {
                let used = folders.iter().map(|folder| disk_usage(&root.join(folder)));
                let (used_bytes, inodes_used) =
                    used.fold((0, 0), |(b, i), (bytes, inodes)| (b + bytes, i + inodes));
                FilesystemUsage {
                    timestamp: native.0.options.clock.now(),
                    mountpoint: root.to_string_lossy().into_owned(),
                    used_bytes,
                    inodes_used,
                }
            };
            Ok(ImageFsInfo {
                image_filesystems: vec![usage(&["blobs", "layers"])],
                container_filesystems: vec![usage(&["containers"])],
            })
        })
        .await
    }
}

fn image(found: Named) -> Image {
    let record = found.record;
    let user = record.process.user.split(':').next().unwrap_or_default().to_owned();
    let uid = user.parse::<i64>().ok();
    Image {
        spec: ImageSpec::new(record.id.to_string()),
        id: record.id.to_string(),
        repo_tags: found.tags,
        repo_digests: found.digests,
        size: record.size,
        username: if uid.is_some() { String::new() } else { user },
        uid,
        pinned: false,
    }
}
