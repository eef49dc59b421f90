//! Finds damage in SQLite's write-ahead log that SQLite itself would take for a torn tail.
//!
//! Every transaction is synced before the next one is written. So if, beyond the frame where SQLite
//! stops, there is a commit frame with a valid frame behind it, then the stopping place was synced
//! once, and acknowledged writes are about to be dropped. A frame is valid if its checksum follows
//! from the one stored in the frame before it.
//!
//! Reads only, before SQLite opens the file. Does not see damage within the last transaction, nor in
//! the log's header: the witness does.

use std::{
    fs::File,
    io::{BufReader, ErrorKind, Read},
    path::Path,
};

use crate::Error;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The number of the first frame SQLite will drop although it was acknowledged.
pub(super) fn first_lost_frame(path: &Path) -> Result<Option<u64>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(path)(error)),
    };
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut header = [0; HEADER];
    if !fill(&mut reader, &mut header, path)? {
        return Ok(None);
    }
    let Some(log) = Log::parse(&header) else {
        return Ok(None);
    };
    let mut scan = Scan::new(log);
    let mut frame = vec![0; FRAME_HEADER + scan.log.page_size];
    while fill(&mut reader, &mut frame, path)? {
        if let Some(lost) = scan.frame(&frame) {
            return Ok(Some(lost));
        }
    }
    Ok(None)
}

/// Whether the buffer could be filled; the rest of a file that ends within it is no frame.
fn fill(reader: &mut impl Read, buffer: &mut [u8], path: &Path) -> Result<bool, Error> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Error::file(path)(error)),
    }
}

type Sum = (u32, u32);

struct Log {
    big_endian: bool,
    page_size: usize,
    salts: [u8; 8],
    sum: Sum,
}

impl Log {
    fn parse(header: &[u8; HEADER]) -> Option<Log> {
        let magic = word(header, 0);
        let page_size = word(header, 8) as usize;
        if magic & !1 != 0x377f_0682 || !(512..=65536).contains(&page_size) {
            return None;
        }
        let mut salts = [0; 8];
        salts.copy_from_slice(&header[16..24]);
        let mut log = Log { big_endian: magic & 1 == 1, page_size, salts, sum: (0, 0) };
        log.sum = log.checksum((0, 0), &header[..24]);
        (log.sum == (word(header, 24), word(header, 28))).then_some(log)
    }

    fn checksum(&self, (mut low, mut high): Sum, bytes: &[u8]) -> Sum {
        for pair in bytes.chunks_exact(8) {
            let (first, second) = if self.big_endian {
                (word(pair, 0), word(pair, 4))
            } else {
                (word(pair, 0).swap_bytes(), word(pair, 4).swap_bytes())
            };
            low = low.wrapping_add(first).wrapping_add(high);
            high = high.wrapping_add(second).wrapping_add(low);
        }
        (low, high)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

struct Scan {
    log: Log,
    /// The checksum stored in the frame before, or the header.
    before: Sum,
    before_commits: bool,
    number: u64,
    /// The first frame whose checksum does not follow: SQLite stops here.
    stopped: Option<u64>,
}

impl Scan {
    fn new(log: Log) -> Self {
        let before = log.sum;
        Scan { log, before, before_commits: false, number: 0, stopped: None }
    }

    fn frame(&mut self, frame: &[u8]) -> Option<u64> {
        self.number += 1;
        let (header, page) = frame.split_at(FRAME_HEADER);
        let stored = (word(header, 16), word(header, 20));
        let same_log = header[8..16] == self.log.salts;
        let follows = same_log && {
            let sum = self.log.checksum(self.before, &header[..8]);
            self.log.checksum(sum, page) == stored
        };
        match self.stopped {
            None if !follows => self.stopped = Some(self.number),
            Some(lost) if follows && self.before_commits => return Some(lost),
            _ => {}
        }
        self.before = stored;
        self.before_commits = same_log && word(header, 4) != 0;
        None
    }
}
