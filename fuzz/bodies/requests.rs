//! Requests to the API server: the path with its query is the first line, the value of a header the rest.

pub(crate) fn check(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (path, header) = data.split_at(end);
    let Ok(path) = std::str::from_utf8(path) else { return };
    corten_apiserver::fuzz::request(path, header.get(1..).unwrap_or_default());
}
