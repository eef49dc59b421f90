//! A proxied page that unpacks to a thousand times its size is rewritten in bounded memory.

#[path = "../../api/tests/bounds/allocations.rs"]
mod allocations;

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};

#[test]
fn a_compressed_page_does_not_fill_the_memory() {
    let page = vec![b' '; 64 << 20];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&page).unwrap();
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
    deflate.write_all(&page).unwrap();
    for (coding, packed) in [("gzip", gzip.finish().unwrap()), ("deflate", deflate.finish().unwrap())] {
        let held = allocations::peak(|| corten_apiserver::fuzz::page(Some(coding), packed.len(), &packed));
        let allowed = allocations::allowance(packed.len());
        assert!(held <= allowed, "{coding}: {held} bytes held, not {allowed}, for {} of input", packed.len());
    }
}
