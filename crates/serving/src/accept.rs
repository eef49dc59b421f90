//! The accept loop: limits connections, spawns a task for each, and never ends because of one failed accept.
//!
//! A connection over the limits is closed at once, so the clients that are connected keep being served.

use std::net::SocketAddr;
use std::time::Duration;

use corten_base::{ConnectionLimits, Connections};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The delay after a failed accept. The process is most likely out of descriptors, and open connections need time to end.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Accepts connections until the returned future is dropped. `connection` returns the future that serves a connection, or
/// `None` to close it. Connections that are open when the loop is dropped are served until they end.
pub async fn accept<C>(
    listener: TcpListener,
    limits: ConnectionLimits,
    connection: impl FnMut(TcpStream, SocketAddr) -> Option<C>,
) where
    C: Future<Output = ()> + Send + 'static,
{
    accept_until(listener, limits, std::future::pending(), Duration::ZERO, connection).await;
}

/// Accepts connections until `stop` is ready, then closes the listener and waits up to `drain` for open connections to
/// end. Connections have to observe the stop themselves.
pub async fn accept_until<C>(
    listener: TcpListener,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
    drain: Duration,
    mut connection: impl FnMut(TcpStream, SocketAddr) -> Option<C>,
) where
    C: Future<Output = ()> + Send + 'static,
{
    let connections = Connections::new(limits);
    // Every connection holds a sender, so the channel closes when the last one has ended.
    let (open, mut all_ended) = mpsc::channel::<()>(1);
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(err) => {
                    tracing::warn!(%err, "accept failed; retrying");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let Some(place) = connections.enter(address.ip()) else {
            tracing::debug!(%address, "too many connections; closing the new one");
            continue;
        };
        let Some(connection) = connection(stream, address) else { continue };
        let open = open.clone();
        tokio::spawn(async move {
            connection.await;
            drop((open, place));
        });
    }
    drop((listener, open));
    if tokio::time::timeout(drain, all_ended.recv()).await.is_err() {
        tracing::warn!("some connections did not end before the drain timeout");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    async fn bind() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// The first byte that the server sends, or `None` if it closes the connection.
    async fn first_byte(stream: &mut TcpStream) -> Option<u8> {
        tokio::time::timeout(DEADLINE, stream.read_u8()).await.expect("no byte before the deadline").ok()
    }

    #[tokio::test]
    async fn connections_over_the_limit_are_closed_and_the_others_served() {
        let (listener, address) = bind().await;
        let limits = ConnectionLimits { total: 8, per_address: 1 };
        let accepting = tokio::spawn(accept(listener, limits, |mut stream, _| {
            Some(async move {
                let _ = stream.write_u8(b'1').await;
                // Until the client closes it.
                let _ = stream.read_u8().await;
            })
        }));
        let mut first = TcpStream::connect(address).await.unwrap();
        assert_eq!(first_byte(&mut first).await, Some(b'1'));
        let mut second = TcpStream::connect(address).await.unwrap();
        assert_eq!(first_byte(&mut second).await, None, "the address has its one connection");
        accepting.abort();
    }

    #[tokio::test]
    async fn a_connection_without_a_future_is_closed() {
        let (listener, address) = bind().await;
        let accepting =
            tokio::spawn(accept(listener, ConnectionLimits::FEW, |_, _| None::<std::future::Ready<()>>));
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(first_byte(&mut stream).await, None);
        accepting.abort();
    }

    #[tokio::test]
    async fn stopping_waits_for_open_connections() {
        let (listener, address) = bind().await;
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { stopped.await.unwrap() };
        let mut accepting = tokio::spawn(accept_until(
            listener,
            ConnectionLimits::FEW,
            stopped,
            DEADLINE,
            |mut stream, _| {
                Some(async move {
                    let _ = stream.write_u8(b'1').await;
                    let _ = stream.read_u8().await;
                })
            },
        ));
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(first_byte(&mut stream).await, Some(b'1'));
        stop.send(()).unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), &mut accepting).await;
        assert!(early.is_err(), "a connection is still open");
        drop(stream);
        tokio::time::timeout(DEADLINE, accepting).await.expect("not drained before the deadline").unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
    }
}
