//! The sockets: DNS queries over UDP and TCP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corten_base::ConnectionLimits;
use corten_serving::accept::accept;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::dns::{Dns, Immediate, Received};
use crate::forward::Over;

const LARGEST: usize = 65535;
/// The idle timeout of a connection.
const IDLE: Duration = Duration::from_secs(10);
/// Limits for each address, so that one pod cannot use up all connections.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 1024, per_address: 64 };
/// The datagrams that are answered before other tasks get their turn.
const BATCH: usize = 64;

/// Bound sockets of one address, which do not serve yet.
pub struct Bound {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Bound {
    /// Binds UDP and TCP sockets. A port of 0 selects one that is free for both.
    pub async fn bind(address: IpAddr, port: u16) -> io::Result<Bound> {
        let tcp = TcpListener::bind((address, port)).await?;
        let udp = UdpSocket::bind((address, tcp.local_addr()?.port())).await?;
        Ok(Bound { udp, tcp })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Serves the clients that `accepts` returns true for, until the returned future is dropped.
    pub async fn serve(self, dns: Arc<Dns>, accepts: ClientFilter) {
        let (udp, tcp) = (Arc::new(self.udp), self.tcp);
        tokio::join!(datagrams(udp, dns.clone(), accepts.clone()), connections(tcp, dns, accepts));
    }
}

/// Returns true for clients that get responses, by their address.
pub type ClientFilter = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// The filter that accepts all clients.
pub fn all_clients() -> ClientFilter {
    Arc::new(|_| true)
}

async fn datagrams(socket: Arc<UdpSocket>, dns: Arc<Dns>, accepts: ClientFilter) {
    let mut buffer = vec![0; LARGEST];
    loop {
        if let Err(err) = socket.readable().await {
            tracing::error!(%err, "cannot receive DNS queries over UDP; stopped");
            return;
        }
        for _ in 0..BATCH {
            match socket.try_recv_from(&mut buffer) {
                Ok((_, client)) if !accepts(client.ip()) => {}
                Ok((length, client)) => datagram(&socket, &dns, &buffer[..length], client).await,
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => break,
                // The ICMP error of an earlier response to a client that is gone, most likely: it affects no other query.
                Err(err) => tracing::debug!(%err, "cannot receive DNS query"),
            }
        }
        tokio::task::yield_now().await;
    }
}

async fn datagram(socket: &Arc<UdpSocket>, dns: &Arc<Dns>, message: &[u8], client: SocketAddr) {
    let received = Received { over: Over::Udp, ipv6: client.is_ipv6(), at: Instant::now() };
    match dns.answer_from_memory(message, received) {
        Immediate::Ignore => {}
        Immediate::Reply(reply) => send(socket, &reply, client).await,
        Immediate::Pending(pending) => {
            let (socket, dns) = (socket.clone(), dns.clone());
            tokio::spawn(async move {
                let reply = dns.answer_pending(pending).await;
                send(&socket, &reply, client).await;
            });
        }
    }
}

async fn send(socket: &UdpSocket, reply: &[u8], client: SocketAddr) {
    if let Err(err) = socket.send_to(reply, client).await {
        tracing::debug!(%client, %err, "cannot send DNS response");
    }
}

async fn connections(listener: TcpListener, dns: Arc<Dns>, accepts: ClientFilter) {
    accept(listener, CONNECTIONS, |stream, client| {
        let dns = dns.clone();
        accepts(client.ip()).then_some(async move {
            if let Err(err) = connection(stream, client, &dns).await {
                tracing::debug!(%client, %err, "connection ended");
            }
        })
    })
    .await;
}

/// Serves the queries of a TCP connection one after the other. Queries and responses follow their lengths.
async fn connection(mut stream: TcpStream, client: SocketAddr, dns: &Arc<Dns>) -> io::Result<()> {
    loop {
        let Ok(length) = timeout(IDLE, stream.read_u16()).await else { return Ok(()) };
        let length = match length {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            length => length?,
        };
        let mut message = vec![0; usize::from(length)];
        timeout(IDLE, stream.read_exact(&mut message)).await??;
        let received = Received { over: Over::Tcp, ipv6: client.is_ipv6(), at: Instant::now() };
        let reply = match dns.answer_from_memory(&message, received) {
            Immediate::Ignore => return Ok(()),
            Immediate::Reply(reply) => reply,
            Immediate::Pending(pending) => dns.answer_pending(pending).await,
        };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes(), reply.as_slice()].concat();
        timeout(IDLE, stream.write_all(&framed)).await??;
    }
}
