//! Entry point of the private decoders of proxied pages for the fuzz targets in `fuzz/`; nothing else calls it.

use bytes::Bytes;

use super::{Coding, Page, Place, Rewriting};

/// A page in one of the codings, in pieces of a size.
pub fn page(coding: Option<&str>, size: usize, data: &[u8]) {
    let place = Place { prefix: "/p".to_owned(), host: "pod:80".to_owned(), asked: "here".to_owned() };
    let Some(coding) = Coding::of(coding) else { return };
    let mut rewriting = Rewriting { coding, page: Page::new(place) };
    for piece in data.chunks(size.max(1)) {
        if rewriting.next(Some(&Bytes::copy_from_slice(piece))).is_none() {
            return;
        }
    }
    let _ = rewriting.next(None);
}
