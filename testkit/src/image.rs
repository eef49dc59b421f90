//! An image for tests that run containers: nothing but busybox, as it is on this machine.

/// What tests call it by.
const NAME: &str = "docker.io/library/busybox:latest";

/// An archive of the image, as `docker save` writes one.
pub fn busybox_archive() -> Vec<u8> {
    image_archive(NAME, &["sh"])
}

/// The same under another name, to run something else unless told.
pub fn image_archive(name: &str, command: &[&str]) -> Vec<u8> {
    corten_container::image::busybox_archive(&[name], command).expect("busybox is installed")
}
