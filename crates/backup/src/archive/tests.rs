//! Archives come back as they were written; damaged and hostile ones are refused.

use jiff::Timestamp;

use super::*;
use crate::Passphrase;

const LIMIT: u64 = 64 << 20;

fn passphrase(text: &str) -> Passphrase {
    Passphrase::of_file(text.as_bytes().to_vec()).unwrap()
}

fn records() -> Vec<Record> {
    let file = |name: &str| Record::File { name: FileName::new(name).unwrap(), content: name.into() };
    let entry = |key: &str, value: &[u8], lease| {
        Record::Entry(Entry { key: key.into(), value: value.to_vec(), lease })
    };
    vec![
        file("ca.crt"),
        file("ca.key"),
        Record::Lease { id: 7, remaining_ms: 3_600_000 },
        entry("/registry/a", b"{}", 0),
        entry("/registry/b", &[7; 200_000], 7),
        entry("\u{ff}", &[0, 255], 0),
    ]
}

fn write(records: &[Record], passphrase: Option<&Passphrase>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Timestamp::UNIX_EPOCH, 42, passphrase).unwrap();
    for record in records.iter().cloned() {
        match record {
            Record::File { name, content } => writer.file(name, content).unwrap(),
            Record::Lease { id, remaining_ms } => writer.lease(id, remaining_ms).unwrap(),
            Record::Entry(entry) => writer.entry(&entry.key, &entry.value, entry.lease).unwrap(),
        }
    }
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    bytes
}

fn read(bytes: &[u8], passphrase: Option<&Passphrase>, limit: u64) -> Result<Vec<Record>, ArchiveError> {
    let mut archive = Archive::open(bytes, passphrase, limit)?;
    let mut records = Vec::new();
    while let Some(record) = archive.next_record()? {
        records.push(record);
    }
    Ok(records)
}

#[test]
fn an_archive_comes_back_as_it_was_written() {
    let secret = passphrase("correct horse");
    for passphrase in [None, Some(&secret)] {
        let bytes = write(&records(), passphrase);
        assert_eq!(read(&bytes, passphrase, LIMIT).unwrap(), records());
        let checked = verify(&bytes[..], passphrase, LIMIT).unwrap();
        assert_eq!((checked.entries, checked.header.revision), (3, 42));
        assert_eq!(checked.header.is_encrypted(), passphrase.is_some());
        assert_eq!(Header::parse(&bytes[..bytes.len().min(Header::BYTES)]).unwrap(), checked.header);
    }
    assert_eq!(read(&write(&[], None), None, LIMIT).unwrap(), []);
}

#[test]
fn every_damaged_byte_and_every_truncation_is_refused() {
    let bytes = write(&records(), None);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&damaged, None, LIMIT).is_err(), "byte {at} of {}", bytes.len());
        assert!(read(&bytes[..at], None, LIMIT).is_err(), "cut to {at}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(matches!(read(&longer, None, LIMIT), Err(ArchiveError::Damaged("data follow its end"))));
}

#[test]
fn a_sealed_archive_shows_nothing_and_cannot_be_changed() {
    let secret = passphrase("correct horse");
    let bytes = write(&records(), Some(&secret));
    let shows = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    assert!(!shows(b"/registry/") && !shows(b"ca.key") && shows(b"argon2id"));
    assert!(matches!(read(&bytes, None, LIMIT), Err(ArchiveError::PassphraseNeeded)));
    let wrong = passphrase("correct horse ");
    assert!(matches!(read(&bytes, Some(&wrong), LIMIT), Err(ArchiveError::Unsealed)));
    assert!(matches!(read(&write(&[], None), Some(&secret), LIMIT), Err(ArchiveError::NotEncrypted)));

    // With its checksum corrected, as an attacker would do it.
    let body = bytes.len() - 32;
    for at in [30, body / 2, body - 1] {
        let mut damaged = bytes[..body].to_vec();
        damaged[at] ^= 1;
        let digest = sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(&damaged));
        damaged.extend_from_slice(&digest);
        assert!(read(&damaged, Some(&secret), LIMIT).is_err(), "byte {at}");
    }
}

#[test]
fn a_bomb_is_refused_at_the_limit() {
    let bomb: Vec<Record> = (0..8)
        .map(|n| Record::Entry(Entry { key: n.to_string(), value: vec![0; 1 << 20], lease: 0 }))
        .collect();
    let bytes = write(&bomb, None);
    assert!(bytes.len() < 100_000, "it is compressed: {}", bytes.len());
    assert_eq!(read(&bytes, None, 9 << 20).unwrap().len(), 8);
    assert!(matches!(read(&bytes, None, 4 << 20), Err(ArchiveError::TooLarge(limit)) if limit == 4 << 20));
}

#[test]
fn records_that_no_writer_writes_are_refused() {
    let encoded = |records: &[Record]| {
        let mut body = Vec::new();
        records.iter().for_each(|record| record.write(&mut body).unwrap());
        body
    };
    let end = |counts| {
        let mut body = Vec::new();
        record::end(&mut body, counts).unwrap();
        body
    };
    let of = |entries| record::Counts { entries, ..Default::default() };
    let entry = |key: &str| Record::Entry(Entry { key: key.into(), value: Vec::new(), lease: 0 });
    let lease = Record::Lease { id: 1, remaining_ms: 1 };
    let named = |name: &str| {
        let length = u32::try_from(name.len()).unwrap().to_le_bytes();
        [&[1][..], &length, name.as_bytes(), &[0; 4]].concat()
    };
    let cases: &[(Vec<u8>, &str)] = &[
        ([encoded(&[entry("b"), entry("a")]), end(of(2))].concat(), "keys are not in order"),
        ([encoded(&[entry("a"), entry("a")]), end(of(2))].concat(), "keys are not in order"),
        ([encoded(&[entry("a"), lease]), end(of(1))].concat(), "records are not in order"),
        ([encoded(&[entry("a")]), end(of(2))].concat(), "numbers of its records"),
        ([end(of(0)), end(of(0))].concat(), "data follow its end"),
        (encoded(&[entry("a")]), "truncated"),
        (vec![9], "unknown kind"),
        ([&[3][..], &[0; 8], &u32::MAX.to_le_bytes()].concat(), "too long"),
        ([&[3][..], &[0; 8], &1_u32.to_le_bytes(), &[0xff]].concat(), "not text"),
        (named("../ca.key"), "invalid name"),
        (named("/etc/cron.d/x.key"), "invalid name"),
        (named(".key"), "invalid name"),
        (named("authorized_keys"), "invalid name"),
    ];
    for (body, why) in cases {
        let error = read(&with_body(body).unwrap(), None, LIMIT).unwrap_err().to_string();
        assert!(error.contains(why), "{error} is not: {why}");
    }
}

#[test]
fn a_header_has_bounds() {
    for (bytes, why) in [
        (&b"PK\x03\x04"[..], "not a backup"),
        (b"corten backup 1\n\xff\xff\xff\xff", "too long"),
        (b"corten backup 1\n\x02\0\0\0{}", "not as this version writes it"),
        (b"", "not a backup"),
    ] {
        let error = Header::parse(bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{error} is not: {why}");
    }
}
