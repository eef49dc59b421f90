//! Entry point of the private decoders of kubelets' metrics for the fuzz targets in `fuzz/`; nothing else calls it.

use super::exposition;
use super::points::{Batch, Points};

/// Two rounds of what a kubelet's `/metrics/resource` says, and the usage between them.
pub fn metrics(first: &str, second: &str) {
    let mut points = Points::default();
    for text in [first, second] {
        let mut batch = Batch::default();
        exposition::read("node", text, &mut batch);
        points.take(batch, false);
    }
    let containers = points.of_pod("default", "p").unwrap_or_default();
    for used in points.of_node("node").into_iter().chain(containers.into_iter().map(|(_, used)| used)) {
        let usage = used.tree();
        assert!(usage.str_at(&["cpu"]).is_some() && usage.str_at(&["memory"]).is_some(), "{usage:?}");
    }
}
