//! WebSocket frames and the messages of sessions in them, as clients of exec, attach and port-forward send them.

pub(crate) fn check(data: &[u8]) {
    corten_kubelet::server::fuzz::websocket_frames(data);
}
