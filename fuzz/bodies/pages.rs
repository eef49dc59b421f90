//! Pages that the API server proxies from pods, whose links it rewrites: the first byte chooses the coding, the second
//! how large the pieces are.

pub(crate) fn check(data: &[u8]) {
    let [choice, size, page @ ..] = data else { return };
    let coding = [None, Some("gzip"), Some("deflate")][usize::from(*choice) % 3];
    let size = if *size == 0 { usize::MAX } else { usize::from(*size) };
    corten_apiserver::fuzz::page(coding, size, page);
}
