//! Servers on machines and in pods that answer with their name and the client's address.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::Machine;

/// Their port for TCP and UDP.
pub const PORT: u16 = 8080;
/// The port of their TCP echo server.
pub const ECHO: u16 = 8081;
/// Long enough for packets that arrive at all.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Long enough to conclude that nothing arrives.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(700);

/// The name of the server that answered, and the client's address that it saw.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    pub who: String,
    pub seen: IpAddr,
}

impl Answer {
    fn parse(text: &str) -> io::Result<Answer> {
        let parts = text.split_once(' ').and_then(|(who, seen)| Some((who, seen.trim().parse().ok()?)));
        let (who, seen) = parts.ok_or_else(|| io::Error::other(format!("{text:?} is no answer")))?;
        Ok(Answer { who: who.to_owned(), seen })
    }
}

/// A long-lived connection.
pub struct LongConnection(TcpStream);

impl LongConnection {
    /// Sends some bytes and waits for the echo.
    #[track_caller]
    pub fn works(&mut self) {
        let mut back = [0; 4];
        let sent = self.0.write_all(b"ping").and_then(|()| self.0.read_exact(&mut back));
        sent.expect("the connection lasts");
        assert_eq!(&back, b"ping");
    }
}

impl Machine {
    /// Starts servers of this name, for all protocols, until the process exits.
    #[track_caller]
    pub fn serve(&self, who: &str) {
        let any = |port| SocketAddr::from(([0u16; 8], port));
        let (streams, echoes, datagrams) = self.run(|| {
            let bound =
                (TcpListener::bind(any(PORT)), TcpListener::bind(any(ECHO)), UdpSocket::bind(any(PORT)));
            (bound.0.expect("a port"), bound.1.expect("a port"), bound.2.expect("a port"))
        });
        let (name, other) = (who.to_owned(), who.to_owned());
        std::thread::spawn(move || {
            while let Ok((mut stream, from)) = streams.accept() {
                // The client may already be gone.
                let _ = write!(stream, "{name} {}", from.ip().to_canonical());
            }
        });
        std::thread::spawn(move || {
            while let Ok((length, from)) = datagrams.recv_from(&mut [0; 64]) {
                let answer = format!("{other} {}", from.ip().to_canonical());
                let _ = (length, datagrams.send_to(answer.as_bytes(), from));
            }
        });
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = echoes.accept() {
                std::thread::spawn(move || {
                    stream.try_clone().map(|mut from| io::copy(&mut from, &mut stream))
                });
            }
        });
    }

    /// The answer of the server at an address.
    pub fn ask(&self, to: SocketAddr) -> io::Result<Answer> {
        self.ask_within(to, REPLY_TIMEOUT)
    }

    /// Returns true if no server answers in time.
    pub fn is_blocked_from(&self, to: SocketAddr) -> bool {
        self.ask_within(to, SILENCE_TIMEOUT).is_err()
    }

    fn ask_within(&self, to: SocketAddr, patience: Duration) -> io::Result<Answer> {
        let mut stream = self.run(|| TcpStream::connect_timeout(&to, patience))?;
        stream.set_read_timeout(Some(patience))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Answer::parse(&text)
    }

    /// The answer to a datagram.
    pub fn ask_udp(&self, to: SocketAddr) -> io::Result<Answer> {
        let answer = self.exchange(to, b"?")?;
        Answer::parse(&String::from_utf8_lossy(&answer))
    }

    /// Sends a datagram and waits for a response.
    pub fn exchange(&self, to: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = self.run(|| UdpSocket::bind(any))?;
        socket.set_read_timeout(Some(SILENCE_TIMEOUT))?;
        socket.connect(to)?;
        socket.send(question)?;
        let mut buffer = [0; 1500];
        let length = socket.recv(&mut buffer)?;
        Ok(buffer[..length].to_vec())
    }

    /// A connection to an [`ECHO`] that stays open.
    #[track_caller]
    pub fn connect(&self, to: SocketAddr) -> LongConnection {
        let stream = self.run(|| TcpStream::connect_timeout(&to, REPLY_TIMEOUT)).expect("a server listens");
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).expect("patience can be set");
        LongConnection(stream)
    }

    /// The first line of an HTTP response.
    pub fn http(&self, to: SocketAddr) -> io::Result<String> {
        let mut stream = self.run(|| TcpStream::connect_timeout(&to, REPLY_TIMEOUT))?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        write!(stream, "GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    }

    /// The addresses of a name, from a DNS server.
    pub fn resolve(&self, server: IpAddr, name: &str, ipv6: bool) -> io::Result<Vec<IpAddr>> {
        let mut question = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.trim_end_matches('.').split('.') {
            question.push(u8::try_from(label.len()).map_err(io::Error::other)?);
            question.extend(label.as_bytes());
        }
        question.extend([0, 0, if ipv6 { 28 } else { 1 }, 0, 1]);
        let answer = self.exchange(SocketAddr::new(server, 53), &question)?;
        let count = u16::from_be_bytes([answer[6], answer[7]]);
        let mut rest = &answer[question.len()..];
        let mut found = Vec::new();
        for _ in 0..count {
            // A compressed name is two bytes; then type, class, time to live and length.
            let length = usize::from(u16::from_be_bytes([rest[10], rest[11]]));
            let data = &rest[12..12 + length];
            match <[u8; 4]>::try_from(data).map(IpAddr::from) {
                Ok(address) => found.push(address),
                Err(_) => found.extend(<[u8; 16]>::try_from(data).map(IpAddr::from)),
            }
            rest = &rest[12 + length..];
        }
        Ok(found)
    }
}
