//! Header compression of SPDY: names and values, deflated with a dictionary that both ends know.
//!
//! One compressor and one decompressor serve a whole connection, in the order of its frames.

use std::collections::HashMap;
use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The words of the protocol's dictionary, each preceded by its length there.
const WORDS: &str = "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|\
    accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|\
    content-language|content-length|content-location|content-md5|content-range|content-type|date|\
    etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|\
    if-unmodified-since|last-modified|location|max-forwards|pragma|proxy-authenticate|\
    proxy-authorization|range|referer|retry-after|server|te|trailer|transfer-encoding|upgrade|\
    user-agent|vary|via|warning|www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|\
    public|set-cookie|keep-alive|origin";
/// The rest of the dictionary: numbers and phrases.
const PHRASES: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 No\
    n-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized40\
    3 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan F\
    eb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunk\
    ed,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text\
    /javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
/// The maximum size of the decompressed headers of one stream.
const MAX_HEADERS: usize = 64 * 1024;

pub(super) type Headers = HashMap<String, String>;

fn dictionary() -> Vec<u8> {
    let mut out = Vec::with_capacity(1423);
    for word in WORDS.split('|') {
        out.extend((word.len() as u32).to_be_bytes());
        out.extend(word.as_bytes());
    }
    out.extend(PHRASES.as_bytes());
    out
}

pub(super) struct Packer(Compress);

impl Packer {
    pub(super) fn new() -> io::Result<Packer> {
        let mut compress = Compress::new(Compression::best(), true);
        compress.set_dictionary(&dictionary()).map_err(io::Error::other)?;
        Ok(Packer(compress))
    }

    pub(super) fn pack(&mut self, headers: &Headers) -> io::Result<Vec<u8>> {
        let mut block = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend((text.len() as u32).to_be_bytes());
            block.extend(text.as_bytes());
        }
        let before = self.0.total_in();
        let mut out = Vec::with_capacity(block.len() + 256);
        loop {
            let taken = (self.0.total_in() - before) as usize;
            self.0.compress_vec(&block[taken..], &mut out, FlushCompress::Sync).map_err(io::Error::other)?;
            if out.len() < out.capacity() {
                return Ok(out);
            }
            out.reserve(256);
        }
    }
}

pub(super) struct Unpacker(Decompress);

impl Unpacker {
    pub(super) fn new() -> Unpacker {
        Unpacker(Decompress::new(true))
    }

    pub(super) fn unpack(&mut self, packed: &[u8]) -> io::Result<Headers> {
        let block = self.inflate(packed)?;
        parse(&block).ok_or_else(|| io::Error::other("headers make no sense"))
    }

    fn inflate(&mut self, packed: &[u8]) -> io::Result<Vec<u8>> {
        let before = self.0.total_in();
        let mut out = Vec::with_capacity(1024);
        loop {
            let taken = (self.0.total_in() - before) as usize;
            let had = out.len();
            match self.0.decompress_vec(&packed[taken..], &mut out, FlushDecompress::Sync) {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(io::Error::other)?;
                    continue;
                }
                Err(error) => return Err(io::Error::other(error)),
                Ok(Status::StreamEnd) => return Ok(out),
                Ok(_) => {}
            }
            let taken_now = (self.0.total_in() - before) as usize;
            if taken_now == packed.len() && out.len() < out.capacity() {
                return Ok(out);
            }
            if out.len() > MAX_HEADERS || (out.len() == had && taken_now == taken && had < out.capacity()) {
                return Err(io::Error::other("headers are too long"));
            }
            out.reserve(1024);
        }
    }
}

fn parse(block: &[u8]) -> Option<Headers> {
    let mut rest = block;
    let count = number(&mut rest)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let (name, value) = (text(&mut rest)?, text(&mut rest)?);
        headers.insert(name, value);
    }
    Some(headers)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*bytes))
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = number(rest)? as usize;
    let (bytes, after) = rest.split_at_checked(length)?;
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    *rest = after;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_complete() {
        // The checksum that every implementation of the protocol has.
        let checksum = Compress::new(Compression::best(), true).set_dictionary(&dictionary()).unwrap();
        assert_eq!((dictionary().len(), checksum), (1423, 0xe3c6_a7c2));
    }

    #[test]
    fn headers_survive_a_round_trip() {
        let (mut packer, mut unpacker) = (Packer::new().unwrap(), Unpacker::new());
        let of = |pairs: &[(&str, &str)]| -> Headers {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let long = "x".repeat(9000);
        for headers in [
            of(&[("streamtype", "error"), ("port", "80"), ("requestid", "0")]),
            of(&[("streamtype", "data"), ("port", "80"), ("requestid", "0")]),
            of(&[]),
            of(&[("a", &long)]),
        ] {
            let packed = packer.pack(&headers).unwrap();
            assert_eq!(unpacker.unpack(&packed).unwrap(), headers);
        }
        assert!(Unpacker::new().unpack(b"nonsense").is_err());
    }
}
