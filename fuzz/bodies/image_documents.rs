//! Image indexes, manifests, configurations and references.

use corten_container::image::fuzz;

pub(crate) fn check(data: &[u8]) {
    fuzz::documents(data);
    if let Ok(text) = std::str::from_utf8(data) {
        fuzz::reference(text);
    }
}
