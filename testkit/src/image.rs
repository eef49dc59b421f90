//! The image of tests that run containers: this machine's static busybox and nothing else.

/// The name of the image.
const NAME: &str = "docker.io/library/busybox:latest";

/// An archive of the image, as `docker save` writes one.
pub fn busybox_archive() -> Vec<u8> {
    corten_container::image::busybox_archive(&[NAME], &["sh"]).expect("a static busybox is installed")
}
