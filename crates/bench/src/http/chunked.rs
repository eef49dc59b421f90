//! A decoder of chunked bodies that arrive in arbitrary pieces. Extensions and trailers are skipped.

use std::io;

/// The state of a chunked body.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    remaining: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the hexadecimal size; whether a digit was seen.
    Size {
        digits: bool,
    },
    /// After the size, until the end of its line.
    Extension,
    Data,
    /// The line end after a chunk's data.
    DataEnd,
    /// In the trailers; whether the current line is empty so far.
    Trailer {
        empty: bool,
    },
    Done,
}

impl Chunked {
    pub(super) fn new() -> Chunked {
        Chunked { state: State::Size { digits: false }, remaining: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes from `input`, passes data to `sink`, and returns the number of bytes of this body.
    pub(super) fn feed(&mut self, input: &[u8], sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let available = input.len() - at;
                let take = usize::try_from(self.remaining).map_or(available, |left| left.min(available));
                sink(&input[at..at + take]);
                at += take;
                self.remaining -= take as u64;
                if self.remaining == 0 {
                    self.state = State::DataEnd;
                }
            } else {
                self.state = self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// The state after one byte of framing.
    fn step(&mut self, byte: u8) -> io::Result<State> {
        Ok(match (self.state, byte) {
            (State::Size { .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                self.remaining = self
                    .remaining
                    .checked_mul(16)
                    .map(|size| size + digit)
                    .ok_or_else(|| malformed("a chunk size is too large"))?;
                State::Size { digits: true }
            }
            (State::Size { digits: true } | State::Extension, b'\n') if self.remaining > 0 => State::Data,
            (State::Size { digits: true } | State::Extension, b'\n') => State::Trailer { empty: true },
            (State::Size { digits: true }, b'\r' | b' ' | b'\t' | b';') | (State::Extension, _) => {
                State::Extension
            }
            (State::Size { .. }, _) => return Err(malformed("a chunk does not start with its size")),
            (State::DataEnd, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size { digits: false },
            (State::DataEnd, _) => return Err(malformed("a chunk is longer than its size")),
            (State::Trailer { empty: true }, b'\n') => State::Done,
            (State::Trailer { empty }, b'\r') => State::Trailer { empty },
            (State::Trailer { .. }, b'\n') => State::Trailer { empty: true },
            (State::Trailer { .. }, _) => State::Trailer { empty: false },
            (state @ (State::Data | State::Done), _) => state,
        })
    }
}

fn malformed(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> io::Result<(Vec<u8>, bool, usize)> {
        let (mut decoder, mut out, mut used) = (Chunked::new(), Vec::new(), 0);
        for piece in pieces {
            used += decoder.feed(piece, &mut |data| out.extend_from_slice(data))?;
        }
        Ok((out, decoder.is_done(), used))
    }

    #[test]
    fn every_split_decodes_to_the_same_body() {
        let wire =
            b"4\r\nWiki\r\n5;name=\"x\"\r\npedia\r\nA \r\n in chunks\r\n000\r\nx-trailer: 1\r\n\r\nHTTP/1.1";
        let body = wire.len() - b"HTTP/1.1".len();
        for split in 0..=wire.len() {
            let (out, done, used) = decode(&[&wire[..split], &wire[split..]]).unwrap();
            assert_eq!((&out[..], done), (&b"Wikipedia in chunks"[..], true), "split at {split}");
            assert_eq!(used.min(body), body, "split at {split}");
        }
        let bytes: Vec<&[u8]> = wire[..body].chunks(1).collect();
        assert_eq!(decode(&bytes).unwrap(), (b"Wikipedia in chunks".to_vec(), true, body));
        assert_eq!(decode(&[wire]).unwrap().2, body, "what follows the body is left alone");
    }

    #[test]
    fn broken_framing_is_an_error() {
        for wire in [&b"\r\n"[..], b"x\r\n", b"1\r\nab\r\n", b"11111111111111111\r\n"] {
            assert!(decode(&[wire]).is_err(), "{wire:?}");
        }
        assert!(!decode(&[b"5\r\nab"]).unwrap().1, "an unfinished body is not done");
    }
}
