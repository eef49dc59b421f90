//! Entry point of the private decoders of WebSocket sessions for the fuzz targets in `fuzz/`; nothing else calls it.

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::{ClientMessage, Inputs, PROTOCOLS};

/// The server takes frames of up to 16 MiB, because some clients send a whole file in one, and reserves what a frame
/// announces. That is more than the allowance of a fuzz target.
const MAX_FRAME: usize = 1 << 20;

/// Decodes frames after the handshake, in every protocol of a session; and the same bytes as one message.
pub fn frames(data: &[u8]) {
    let message = Bytes::copy_from_slice(data);
    let config = WebSocketConfig::default().max_frame_size(Some(MAX_FRAME));
    for protocol in PROTOCOLS {
        let io = tokio::io::join(data, tokio::io::sink());
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).now_or_never();
        let (stdin, _) = mpsc::channel(1);
        let (sizes, _) = mpsc::channel(1);
        let inputs = Inputs { stdin: Some(stdin), sizes: Some(sizes) };
        // Memory never waits, and the channels are closed: this ends at once.
        let _ = inputs.take_all(socket.expect("memory never waits"), protocol).now_or_never();

        let Some(ClientMessage::Bytes(channel, bytes)) = protocol.read(&message) else { continue };
        // Channels beyond the letters of a base64 message have no number in text.
        if let Message::Binary(written) = protocol.message(channel, &bytes) {
            assert_eq!(protocol.read(&written), Some(ClientMessage::Bytes(channel, bytes)));
        }
    }
}
