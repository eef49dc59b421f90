//! SPDY frames and their compressed headers, as clients of exec, attach and port-forward send them.

pub(crate) fn check(data: &[u8]) {
    corten_kubelet::server::fuzz::spdy_frames(data);
}
