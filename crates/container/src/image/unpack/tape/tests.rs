use std::io::Write;

use super::*;

const MANY: u64 = 1000;

/// A header, and the padding of the last block of its content.
fn header(kind: u8, path: &str, size: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().linkflag = [kind];
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn entry(kind: u8, path: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(kind, path, content.len() as u64);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// A record of an extended header, with its length.
fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

/// Counts the bytes that are read.
struct Counted<R>(R, u64);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1 += read as u64;
        Ok(read)
    }
}

/// The error of reading an archive, and how many bytes were read.
fn refused(archive: impl Read) -> (String, u64) {
    let mut archive = Archive::new(Counted(archive, 0), MANY);
    loop {
        match archive.next() {
            Ok(Some(_)) => {}
            Ok(None) => return (String::new(), archive.from.1),
            Err(error) => return (error.to_string(), archive.from.1),
        }
    }
}

#[test]
fn oversized_headers_are_refused_unread() {
    for kind in *b"xLK" {
        let huge = io::Cursor::new(header(kind, "x", 1 << 40)).chain(io::repeat(b'a'));
        let (why, read) = refused(huge);
        assert!(why.contains("too large"), "{}: {why}", char::from(kind));
        assert_eq!(read, BLOCK as u64, "{}", char::from(kind));
    }
}

#[test]
fn entries_are_counted_whatever_they_are() {
    for kind in *b"05xgLK" {
        let one = entry(kind, "x", b"");
        let endless = io::Cursor::new(one.repeat(1 + usize::try_from(MANY).unwrap()));
        let (why, _) = refused(endless);
        assert!(why.contains("more entries"), "{}: {why}", char::from(kind));
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let mut endless = Header::new_gnu();
    endless.set_size(u64::MAX);
    endless.set_mode(0);
    endless.set_cksum();
    assert!(refused(&endless.as_bytes()[..]).0.contains("endless"));
    let large = entry(b'x', "", record("size", &u64::MAX.to_string()).as_bytes());
    assert!(refused([large, header(b'0', "a", 0)].concat().as_slice()).0.contains("endless"));
    let short = header(b'0', "a", 1024);
    assert!(refused(short.as_slice()).0.contains("no end"));
}

#[test]
fn extended_headers_that_make_no_sense_are_refused() {
    let long = record("path", &"a".repeat(LONGEST_PATH + 1));
    for text in [
        "0 a=b\n",
        "3 a=b\n",
        "99 a=b\n",
        "99999999999999999999999 a=b\n",
        "-6 a=b\n",
        "6 a b\n",
        "6 a=bc",
        "7 path=\n",
        "no length",
        &record("path", "a\0b"),
        &record("size", "-1"),
        &record("size", "99999999999999999999"),
        &record("GNU.sparse.major", "1"),
        &long,
    ] {
        let archive = [entry(b'x', "", text.as_bytes()), entry(b'0', "a", b"")].concat();
        assert_ne!(refused(archive.as_slice()).0, "", "{text:?}");
    }
}

#[test]
fn of_several_extended_headers_before_an_entry_the_last_counts() {
    let attribute = |value: &str| entry(b'x', "", record("SCHILY.xattr.user.a", value).as_bytes());
    let mut bytes = entry(b'x', "", record("path", "first").as_bytes());
    (0..100).for_each(|i| bytes.extend(attribute(&format!("{i}"))));
    bytes.extend(entry(b'0', "own", b""));
    let found = Archive::new(bytes.as_slice(), MANY).next().unwrap().unwrap();
    assert_eq!(found.path, b"own");
    assert_eq!(found.attributes, [("user.a".to_owned(), b"99".to_vec())], "they do not add up");
}

#[test]
fn a_sparse_file_is_no_larger_than_its_map_and_its_map_has_an_end() {
    let sparse = |parts: &[(u64, u64)], size: u64, stored: u64, extended: bool| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNUSparse);
        header.set_size(stored);
        header.set_mode(0o644);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.set_real_size(size);
        gnu.set_is_extended(extended);
        for (place, (at, length)) in gnu.sparse.iter_mut().zip(parts) {
            place.set_offset(*at);
            place.set_length(*length);
        }
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let good = [sparse(&[(1024, 3)], 4096, 3, false), b"abc".to_vec(), vec![0; 509]].concat();
    let mut archive = Archive::new(good.as_slice(), MANY);
    let entry = archive.next().unwrap().unwrap();
    let map = entry.sparse.unwrap();
    assert_eq!((map.parts.as_slice(), map.size), (&[(1024, 3)][..], 4096));
    for (parts, size, stored) in [
        (&[(0, 10)][..], 10, 9),
        (&[(0, 10), (5, 5)], 20, 15),
        (&[(10, 10)], 15, 10),
        (&[(u64::MAX, 10)], u64::MAX, 10),
    ] {
        assert_ne!(refused(sparse(parts, size, stored, false).as_slice()).0, "", "{parts:?}");
    }
    let mut more = GnuExtSparseHeader::new();
    more.set_is_extended(true);
    for (index, place) in more.sparse.iter_mut().enumerate() {
        place.set_offset(u64::MAX / 2);
        place.set_length(0);
        assert!(index < 21);
    }
    let endless = more.as_bytes().repeat(MOST_PARTS / 21 + 2);
    let mut flood = io::Cursor::new(sparse(&[], u64::MAX, 0, true)).chain(endless.as_slice());
    let mut bytes = Vec::new();
    flood.read_to_end(&mut bytes).unwrap();
    assert!(refused(bytes.as_slice()).0.contains("a sparse file that cannot be"));
}

#[test]
fn headers_are_interpreted_as_by_go() {
    let long = format!("{}/long", "d".repeat(150));
    let extended = [record("path", "from/pax"), record("uid", "3000000"), record("SCHILY.xattr.user.a", "b")];
    let archive = [
        entry(b'g', "", record("path", "ignored").as_bytes()),
        entry(b'L', "././@LongLink", format!("{long}\0").as_bytes()),
        entry(b'0', "short", b"content"),
        entry(b'x', "", extended.concat().as_bytes()),
        entry(b'0', "short", b"more"),
        // A size without content.
        header(b'1', "link", 700),
        entry(0, "old/", b""),
        entry(b'0', "last", b""),
    ]
    .concat();
    let mut archive = Archive::new(archive.as_slice(), MANY);
    let mut next = || {
        let entry = archive.next().unwrap()?;
        let mut content = String::new();
        archive.content().read_to_string(&mut content).unwrap();
        Some((entry, content))
    };
    let (first, content) = next().unwrap();
    assert_eq!((first.path, content.as_str()), (long.into_bytes(), "content"));
    let (second, content) = next().unwrap();
    assert_eq!(
        (second.path.as_slice(), second.owner.0, content.as_str()),
        (&b"from/pax"[..], 3_000_000, "more")
    );
    assert_eq!(second.attributes, [("user.a".to_owned(), b"b".to_vec())]);
    assert_eq!(next().unwrap().0.kind, EntryType::Link);
    assert_eq!(next().unwrap().0.kind, EntryType::Directory);
    assert_eq!(next().unwrap().0.path, b"last");
    assert!(next().is_none());
}

#[test]
fn any_bytes_are_read_or_refused() {
    let mut good = [entry(b'x', "", record("path", "p").as_bytes()), entry(b'0', "a", b"text")].concat();
    good.write_all(&[0; 1024]).unwrap();
    for at in 0..good.len() {
        for byte in [0, b'7', 0xff] {
            let mut damaged = good.clone();
            damaged[at] = byte;
            refused(damaged.as_slice());
        }
        refused(&good[..at]);
    }
}
