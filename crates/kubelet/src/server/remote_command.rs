//! Exec and attach sessions, over any protocol.
//!
//! The channels of a session are the same for all of them: [`Client`]. A session whose client is gone ends, and its
//! command is killed.

pub(super) mod status;

use bytes::{Bytes, BytesMut};
use corten_container::{Reader, Session, Streaming, Terminal, Writer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::redirect;
use status::Outcome;

/// The size of a piece that is read from a container.
const PIECE: usize = 32 * 1024;

/// The streams of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Streams {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// A stream to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Stdout,
    Stderr,
    /// The exit status, which comes last.
    Status,
}

/// The client's end of a session, over any protocol.
pub(super) struct Client {
    /// Closed when the client has closed its input.
    pub(super) stdin: mpsc::Receiver<Bytes>,
    /// Columns and rows of the client's terminal.
    pub(super) sizes: mpsc::Receiver<(u16, u16)>,
    /// Closed when the client is gone.
    pub(super) out: mpsc::Sender<(Channel, Bytes)>,
    /// True if the client reads the exit status as a `Status`, rather than as an error text.
    pub(super) reads_status: bool,
}

/// The work of a session.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Exec(Vec<String>),
    Attach,
}

/// Runs a session to its end.
pub(super) async fn run(
    work: Work,
    streams: Streams,
    begun: corten_container::Result<Streaming<Session>>,
    mut client: Client,
) {
    let gone = client.out.clone();
    let outcome = tokio::select! {
        outcome = carry(&work, streams, begun, &mut client) => outcome,
        () = gone.closed() => return,
    };
    let text = if client.reads_status { Some(outcome.to_json()) } else { outcome.to_text() };
    if let Some(text) = text {
        // The client may have left just now.
        let _ = client.out.send((Channel::Status, text.into())).await;
    }
}

async fn carry(
    work: &Work,
    streams: Streams,
    begun: corten_container::Result<Streaming<Session>>,
    client: &mut Client,
) -> Outcome {
    let begun = match begun {
        Ok(Streaming::Direct(session)) => Ok(session),
        Ok(Streaming::Redirect(url)) => redirect::session(&url, streams).await,
        Err(error) => Err(error),
    };
    let session = match begun {
        Ok(session) => session,
        Err(error) => return Outcome::of(work, Err(error.to_string())),
    };
    let Session { stdin, stdout, stderr, terminal, exit } = session;
    let Client { stdin: typed, sizes, out, .. } = client;
    let ended = async {
        let outputs = async {
            tokio::join!(show(stdout, Channel::Stdout, out), show(stderr, Channel::Stderr, out));
        };
        let ((), code) = tokio::join!(outputs, exit);
        code
    };
    let code = tokio::select! {
        code = ended => code,
        never = serve_input(stdin, typed, terminal, sizes) => match never {},
    };
    Outcome::of(work, code.map_err(|error| error.to_string()))
}

/// Sends a container's output to the client, to its end.
async fn show(from: Option<Reader>, channel: Channel, out: &mpsc::Sender<(Channel, Bytes)>) {
    let Some(mut from) = from else { return };
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        match from.read_buf(&mut piece).await {
            // Reading a terminal that is gone fails: that is its end too.
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if out.send((channel, piece.freeze())).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Passes on the client's input and terminal sizes, for good.
async fn serve_input(
    stdin: Option<Writer>,
    typed: &mut mpsc::Receiver<Bytes>,
    terminal: Option<Box<dyn Terminal>>,
    sizes: &mut mpsc::Receiver<(u16, u16)>,
) -> std::convert::Infallible {
    let feed = async {
        let Some(mut stdin) = stdin else { return };
        while let Some(bytes) = typed.recv().await {
            if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
                return;
            }
        }
        // It may be closed already.
        let _ = stdin.shutdown().await;
    };
    let resize = async {
        while let Some((columns, rows)) = sizes.recv().await {
            if let Some(terminal) = &terminal
                && let Err(error) = terminal.resize(columns, rows)
            {
                tracing::debug!(err = %error, "cannot resize terminal");
            }
        }
    };
    tokio::join!(feed, resize);
    std::future::pending().await
}
