//! Image layers: tar archives with PAX headers, long names and sparse files, plain, in gzip and in zstd.

pub(crate) fn check(data: &[u8]) {
    corten_container::image::fuzz::layer(data);
}
