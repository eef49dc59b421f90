//! A minimal HTTP/1.1 client over TLS that gives tests access to the raw bytes.
//!
//! A test may send any bytes, also incomplete requests; other tests use real clients.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Deadline of every wait of a test.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// One connection to a server.
pub struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

/// The head of a response.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

/// The framing of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    None,
}

impl Connection {
    /// Connects and completes the TLS handshake; every later read fails after [`DEADLINE`].
    pub fn open(address: SocketAddr, tls: &Arc<ClientConfig>) -> io::Result<Connection> {
        Connection::open_within(DEADLINE, address, tls)
    }

    /// The same with another deadline for each step.
    pub(crate) fn open_within(
        patience: Duration,
        address: SocketAddr,
        tls: &Arc<ClientConfig>,
    ) -> io::Result<Connection> {
        let socket = TcpStream::connect_timeout(&address, patience)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        let name = ServerName::IpAddress(address.ip().into());
        let session = ClientConnection::new(tls.clone(), name).map_err(io::Error::other)?;
        Ok(Connection { stream: BufReader::new(StreamOwned::new(session, socket)) })
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Fills the buffer.
    pub fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(bytes)
    }

    /// Reads up to and including this end.
    pub fn read_until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        while !read.ends_with(end) {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            read.extend(byte);
        }
        Ok(read)
    }

    /// Reads the response of a server that stopped reading; for use after [`Connection::send`] has failed.
    pub(crate) fn salvage(&mut self) -> io::Result<Head> {
        let StreamOwned { conn, sock } = self.stream.get_mut();
        // The response ends when the server closes the connection, in one way or the other.
        while conn.read_tls(sock).is_ok_and(|count| count > 0) {
            conn.process_new_packets().map_err(io::Error::other)?;
        }
        let mut said = Vec::new();
        // An abrupt end is expected here.
        let _ = conn.reader().read_to_end(&mut said);
        Head::read(&mut said.as_slice())
    }

    /// The status line's code and the headers of the next response that is not an interim one.
    pub(crate) fn head(&mut self) -> io::Result<Head> {
        loop {
            let head = Head::read(&mut self.stream)?;
            if head.status >= 200 {
                return Ok(head);
            }
        }
    }

    /// The whole body that follows `head`.
    pub(crate) fn body(&mut self, head: &Head, method: &str) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        match head.framing(method) {
            Framing::None => {}
            Framing::Length(length) => {
                body.resize(length, 0);
                self.stream.read_exact(&mut body)?;
            }
            Framing::Chunked => {
                while let Some(mut chunk) = self.chunk()? {
                    body.append(&mut chunk);
                }
            }
        }
        Ok(body)
    }

    /// The next chunk of a chunked body, or `None` at its end.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = line(&mut self.stream)?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16)
            .map_err(|_| malformed(&line))?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self::line(&mut self.stream)?;
        Ok((size > 0).then_some(chunk))
    }

    /// Waits until the server closes the connection; false if it is still open at the deadline.
    pub fn ends(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }
}

impl Head {
    fn read(stream: &mut impl BufRead) -> io::Result<Head> {
        let line = line(stream)?;
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| malformed(&line))?;
        let mut headers = Vec::new();
        loop {
            let line = self::line(stream)?;
            if line.is_empty() {
                return Ok(Head { status, headers });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn framing(&self, method: &str) -> Framing {
        if method == "HEAD" || matches!(self.status, 204 | 304) {
            return Framing::None;
        }
        match self.header("content-length").and_then(|length| length.parse().ok()) {
            Some(length) => Framing::Length(length),
            None if self.header("transfer-encoding") == Some("chunked") => Framing::Chunked,
            None => Framing::None,
        }
    }

    pub(crate) fn keeps_open(&self) -> bool {
        !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {line:?}"))
}
