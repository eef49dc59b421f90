//! Metrics of kubelets in Prometheus' text format: two rounds, with an empty line between them.

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (first, second) = text.split_once("\n\n").unwrap_or((text, text));
    corten_apiserver::fuzz::metrics(first, second);
}
