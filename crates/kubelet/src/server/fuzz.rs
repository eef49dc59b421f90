//! Entry points of the server's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

pub use super::logs::fuzz::log_lines;
pub use super::spdy::fuzz::frames as spdy_frames;
pub use super::websocket::fuzz::frames as websocket_frames;
