//! Container log files, and the queries for them: the query is the first line, the file the rest.

pub(crate) fn check(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (query, file) = data.split_at(end);
    let Ok(query) = std::str::from_utf8(query) else { return };
    corten_kubelet::server::fuzz::log_lines(query, file.get(1..).unwrap_or_default());
}
