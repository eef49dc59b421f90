//! The image service of a runtime behind a socket.

use async_trait::async_trait;

use super::Remote;
use super::calls::*;
use crate::*;

#[async_trait]
impl Images for Remote {
    async fn list_images(&self, filter: Option<&ImageSpec>) -> Result<Vec<Image>> {
        let filter = filter.map(|image| ImageRequest { image: Some(image.clone()) });
        let response: ListImagesResponse =
            self.call("/runtime.v1.ImageService/ListImages", &ImageFilterRequest { filter }).await?;
        Ok(response.images)
    }

    async fn image_status(&self, image: &ImageSpec) -> Result<Option<Image>> {
        let request = ImageRequest { image: Some(image.clone()) };
        let response: ImageStatusResponse =
            self.call("/runtime.v1.ImageService/ImageStatus", &request).await?;
        Ok(response.image)
    }

    /// The CRI reports no progress.
    async fn pull_image(
        &self,
        image: &ImageSpec,
        auth: Option<&AuthConfig>,
        sandbox_config: Option<&PodSandboxConfig>,
        _progress: &Progress,
    ) -> Result<String> {
        let request = PullImageRequest {
            image: image.clone(),
            auth: auth.cloned(),
            sandbox_config: sandbox_config.cloned(),
        };
        let response: Id = self.call("/runtime.v1.ImageService/PullImage", &request).await?;
        Ok(response.id)
    }

    async fn remove_image(&self, image: &ImageSpec) -> Result<()> {
        let request = ImageRequest { image: Some(image.clone()) };
        self.call::<_, Nothing>("/runtime.v1.ImageService/RemoveImage", &request).await.map(|_| ())
    }

    async fn image_fs_info(&self) -> Result<ImageFsInfo> {
        let response: ImageFsInfoResponse =
            self.call("/runtime.v1.ImageService/ImageFsInfo", &Nothing::default()).await?;
        Ok(ImageFsInfo {
            image_filesystems: response.images.into_iter().map(Into::into).collect(),
            container_filesystems: response.containers.into_iter().map(Into::into).collect(),
        })
    }
}
