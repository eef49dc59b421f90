//! The sockets: questions over UDP and TCP, and the figures over HTTP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corten_base::{ConnectionLimits, Connections};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::dns::{Came, Dns, Now};
use crate::forward::Over;

const LARGEST: usize = 65535;
/// How long a connection may say nothing.
const IDLE: Duration = Duration::from_secs(10);
const CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 1024, per_address: 64 };
/// What is answered in one go before others get their turn.
const BATCH: usize = 64;

/// Sockets at one address, bound and not yet listened to.
pub struct Bound {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Bound {
    /// A port of 0 picks one that is free for both.
    pub async fn at(address: IpAddr, port: u16) -> io::Result<Bound> {
        let tcp = TcpListener::bind((address, port)).await?;
        let udp = UdpSocket::bind((address, tcp.local_addr()?.port())).await?;
        Ok(Bound { udp, tcp })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Answers whoever may ask, for as long as it is not dropped.
    pub async fn serve(self, dns: Arc<Dns>, may_ask: MayAsk) {
        let (udp, tcp) = (Arc::new(self.udp), self.tcp);
        tokio::join!(datagrams(udp, dns.clone(), may_ask.clone()), connections(tcp, dns, may_ask));
    }
}

/// Who is answered, by address.
pub type MayAsk = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Everybody who reaches the address.
pub fn anybody() -> MayAsk {
    Arc::new(|_| true)
}

async fn datagrams(socket: Arc<UdpSocket>, dns: Arc<Dns>, may_ask: MayAsk) {
    let mut buffer = vec![0; LARGEST];
    loop {
        if let Err(error) = socket.readable().await {
            tracing::warn!(%error, "no more questions can be received");
            return;
        }
        for _ in 0..BATCH {
            match socket.try_recv_from(&mut buffer) {
                Ok((_, asker)) if !may_ask(asker.ip()) => {}
                Ok((length, asker)) => datagram(&socket, &dns, &buffer[..length], asker).await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Somebody who asked is gone: the kernel tells it here, and it concerns no other question.
                Err(error) => tracing::debug!(%error, "a question could not be received"),
            }
        }
        tokio::task::yield_now().await;
    }
}

async fn datagram(socket: &Arc<UdpSocket>, dns: &Arc<Dns>, message: &[u8], asker: SocketAddr) {
    let came = Came { over: Over::Udp, ipv6: asker.is_ipv6(), at: Instant::now() };
    match dns.answer_now(message, came) {
        Now::Silence => {}
        Now::Reply(reply) => send(socket, &reply, asker).await,
        Now::Later(later) => {
            let (socket, dns) = (socket.clone(), dns.clone());
            tokio::spawn(async move {
                let reply = dns.answer_later(later).await;
                send(&socket, &reply, asker).await;
            });
        }
    }
}

async fn send(socket: &UdpSocket, reply: &[u8], asker: SocketAddr) {
    if let Err(error) = socket.send_to(reply, asker).await {
        tracing::debug!(%asker, %error, "an answer could not be sent");
    }
}

async fn connections(listener: TcpListener, dns: Arc<Dns>, may_ask: MayAsk) {
    let room = Connections::new(CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((_, asker)) if !may_ask(asker.ip()) => {}
            Ok((stream, asker)) => {
                // One pod cannot keep the others from asking.
                let Some(place) = room.enter(asker.ip()) else { continue };
                let dns = dns.clone();
                tokio::spawn(async move {
                    if let Err(error) = connection(stream, asker, &dns).await {
                        tracing::debug!(%asker, %error, "connection ended");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// One question after the other, each after its length, and the answers likewise.
async fn connection(mut stream: TcpStream, asker: SocketAddr, dns: &Arc<Dns>) -> io::Result<()> {
    loop {
        let Ok(length) = timeout(IDLE, stream.read_u16()).await else { return Ok(()) };
        let length = match length {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            length => length?,
        };
        let mut message = vec![0; usize::from(length)];
        timeout(IDLE, stream.read_exact(&mut message)).await??;
        let came = Came { over: Over::Tcp, ipv6: asker.is_ipv6(), at: Instant::now() };
        let reply = match dns.answer_now(&message, came) {
            Now::Silence => return Ok(()),
            Now::Reply(reply) => reply,
            Now::Later(later) => dns.answer_later(later).await,
        };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes(), reply.as_slice()].concat();
        timeout(IDLE, stream.write_all(&framed)).await??;
    }
}
