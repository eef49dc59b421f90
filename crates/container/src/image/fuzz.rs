//! Entry points of the private decoders of images for the fuzz targets in `fuzz/`; nothing else calls them.

use std::io;

use super::archive::Saved;
use super::limits::Bounded;
use super::manifest::document;
use super::store::index_in;
use super::unpack::{Archive, decompressed};
use super::{Config, Limits, Manifest, Platform, Reference};

/// A layer, packed or not: every header, extended header, sparse map and content of its archive.
pub fn layer(data: &[u8]) {
    let limits = Limits {
        unpacked_bytes: 1 << 20,
        ratio: 0,
        window_bytes: 1 << 20,
        entries: 1000,
        ..Limits::default()
    };
    let Ok(stream) = decompressed(data, &limits) else { return };
    let budget = limits.budget(data.len() as u64, limits.deadline());
    let mut archive = Archive::new(Bounded::new(stream, budget), limits.entries);
    while let Ok(Some(entry)) = archive.next() {
        assert!(!entry.path.contains(&0), "a path that the kernel would cut");
        if let Some(sparse) = &entry.sparse {
            assert!(sparse.parts.iter().all(|(at, length)| at + length <= sparse.size));
        }
        if io::copy(&mut archive.content(), &mut io::sink()).is_err() {
            break;
        }
    }
}

/// An index, a manifest, a configuration, and the list of images in a Docker archive.
pub fn documents(data: &[u8]) {
    if let Some(index) = index_in(data, "") {
        let _ = index.choose(&Platform::here());
        check(&index);
    }
    if let Ok(manifest) = document::<Manifest>(data, "a manifest") {
        check(&manifest);
    }
    if let Ok(config) = document::<Config>(data, "a configuration") {
        assert_eq!(config.chain_ids().len(), config.rootfs.diff_ids.len());
        check(&config);
    }
    let _ = document::<Vec<Saved>>(data, "a list of images");
}

/// A document that decodes is written in a form that decodes to the same document.
fn check<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let text = serde_json::to_vec(value).expect("a document is JSON");
    assert_eq!(&document::<T>(&text, "a document").expect("a document that was written is read"), value);
}

/// A reference to an image.
pub fn reference(text: &str) {
    if let Ok(reference) = text.parse::<Reference>() {
        let written = reference.to_string();
        assert_eq!(written.parse::<Reference>().expect("a reference that was written is read"), reference);
    }
}
