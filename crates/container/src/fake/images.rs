//! The fake's images.

use async_trait::async_trait;

use super::Fake;
use super::state::names;
use crate::*;

#[async_trait]
impl Images for Fake {
    async fn list_images(&self, filter: Option<&ImageSpec>) -> Result<Vec<Image>> {
        self.record_call("list_images", filter.map_or("", |filter| &filter.image))?;
        let state = self.state.lock();
        let wanted = |image: &&Image| filter.is_none_or(|filter| names(image, &filter.image));
        Ok(state.images.iter().filter(wanted).cloned().collect())
    }

    async fn image_status(&self, image: &ImageSpec) -> Result<Option<Image>> {
        self.record_call("image_status", &image.image)?;
        Ok(self.state.lock().image(&image.image).cloned())
    }

    async fn pull_image(
        &self,
        image: &ImageSpec,
        _auth: Option<&AuthConfig>,
        _sandbox_config: Option<&PodSandboxConfig>,
        progress: &Progress,
    ) -> Result<String> {
        self.record_call("pull_image", &image.image)?;
        let mut state = self.state.lock();
        let name = &image.image;
        let found = state.registry.iter().find(|image| names(image, name)).cloned();
        let Some(found) = found else {
            return Err(Error::NotFound(format!("failed to resolve reference {name:?}: {name}: not found")));
        };
        progress.report(PullProgress {
            bytes: found.size,
            total_bytes: found.size,
            layers: 1,
            total_layers: 1,
        });
        let id = found.id.clone();
        state.images.retain(|image| image.id != id);
        state.images.push(found);
        Ok(id)
    }

    async fn remove_image(&self, image: &ImageSpec) -> Result<()> {
        self.record_call("remove_image", &image.image)?;
        self.state.lock().images.retain(|known| !names(known, &image.image));
        Ok(())
    }

    async fn image_fs_info(&self) -> Result<ImageFsInfo> {
        self.record_call("image_fs_info", "")?;
        let usage = FilesystemUsage {
            timestamp: self.clock.now(),
            mountpoint: "/var/lib/corten".to_owned(),
            used_bytes: self.state.lock().images.iter().map(|image| image.size).sum(),
            inodes_used: 0,
        };
        Ok(ImageFsInfo { image_filesystems: vec![usage.clone()], container_filesystems: vec![usage] })
    }
}
