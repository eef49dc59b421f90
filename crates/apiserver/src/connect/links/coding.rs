//! The content codings of pages, decoded and encoded piece by piece.

use std::io::{self, Write};
use std::mem;

use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzDecoder, GzEncoder};

pub(super) enum Coding {
    Plain,
    Gzip(GzDecoder<Vec<u8>>, GzEncoder<Vec<u8>>),
    Deflate(DeflateDecoder<Vec<u8>>, DeflateEncoder<Vec<u8>>),
}

impl Coding {
    /// The coding with this name, if it is supported.
    pub(super) fn of(name: Option<&str>) -> Option<Coding> {
        let level = Compression::fast();
        match name.unwrap_or_default() {
            "" => Some(Coding::Plain),
            "gzip" => Some(Coding::Gzip(GzDecoder::new(Vec::new()), GzEncoder::new(Vec::new(), level))),
            "deflate" => {
                let decoder = DeflateDecoder::new(Vec::new());
                Some(Coding::Deflate(decoder, DeflateEncoder::new(Vec::new(), level)))
            }
            _ => None,
        }
    }

    /// The text of a piece, or with `None` the rest at the end.
    pub(super) fn decode(&mut self, piece: Option<&[u8]>) -> io::Result<Vec<u8>> {
        match self {
            Coding::Plain => Ok(piece.unwrap_or_default().to_vec()),
            Coding::Gzip(decoder, _) => {
                piece.map_or(Ok(()), |piece| decoder.write_all(piece))?;
                decoder.flush()?;
                Ok(mem::take(decoder.get_mut()))
            }
            Coding::Deflate(decoder, _) => {
                piece.map_or(Ok(()), |piece| decoder.write_all(piece))?;
                decoder.flush()?;
                Ok(mem::take(decoder.get_mut()))
            }
        }
    }

    /// Encodes text and flushes it, so that the client gets it without delay.
    pub(super) fn encode(&mut self, text: &[u8], last: bool) -> io::Result<Vec<u8>> {
        if text.is_empty() && !last {
            return Ok(Vec::new());
        }
        match self {
            Coding::Plain => Ok(text.to_vec()),
            Coding::Gzip(_, encoder) => {
                encoder.write_all(text)?;
                if last { encoder.try_finish() } else { encoder.flush() }?;
                Ok(mem::take(encoder.get_mut()))
            }
            Coding::Deflate(_, encoder) => {
                encoder.write_all(text)?;
                if last { encoder.try_finish() } else { encoder.flush() }?;
                Ok(mem::take(encoder.get_mut()))
            }
        }
    }
}
