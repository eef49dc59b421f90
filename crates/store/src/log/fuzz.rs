//! Entry points of the log's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use std::path::Path;
use std::sync::Arc;

use super::file::{LogFile, START};
use super::frame::Builder;
use super::generations::Generations;
use super::history;
use super::load::{Tolerance, load};
use super::record::Record;
use crate::Error;
use crate::disk::Kernel;
use crate::sealing::Plain;
use crate::witness::Marks;

/// The number of records in a frame.
const RECORDS: usize = 4;

/// Loads a store from an empty directory, into which the records in `data` are written as the frames of a log, or of a
/// snapshot and a log. `damage` is a place in the file and the bits that are flipped there.
///
/// # Panics
///
/// If a record is not written as it was read, or a store that accepted a loss does not load afterwards.
pub fn load_records(dir: &Path, data: &[u8], is_snapshot: bool, damage: (u16, u8)) -> Result<(), Error> {
    let generations = Generations::open(Arc::new(Kernel), dir, Arc::new(Plain), &mut Tolerance::new(false))?;
    let log = generations.begin(0)?;
    if is_snapshot {
        let snapshot = generations.create_snapshot(0)?;
        write(&snapshot, data, damage)?;
        generations.complete(snapshot)?;
    } else {
        write(&log.log, data, damage)?;
    }
    drop(generations);

    // Refused or loaded, the strict way; then with the losses that an operator accepts.
    let _ = reload(dir, false);
    match reload(dir, true) {
        Err(Error::Corrupt(_)) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn reload(dir: &Path, accept_loss: bool) -> Result<(), Error> {
    let mut tolerance = Tolerance::new(accept_loss);
    let generations = Generations::open(Arc::new(Kernel), dir, Arc::new(Plain), &mut tolerance)?;
    let loaded = load(&generations, Marks::default(), 0, &mut tolerance)?;
    let _ = history::events(&generations, "", 0, loaded.state.revision, 100);
    let _ = history::undo(&generations, "", 0, loaded.state.revision);
    Ok(())
}

fn write(file: &LogFile, data: &[u8], (place, bits): (u16, u8)) -> Result<(), Error> {
    let mut builder = Builder::default();
    let mut at = START;
    let records = records(data);
    for frame in records.chunks(RECORDS) {
        let mut last = 0;
        for record in frame {
            if let Record::Write(write) = record {
                last = write.revision;
            }
            builder.push(record);
        }
        let sealed = builder.seal(file.place(at), last);
        let mut sealed = sealed.to_vec();
        let index = usize::from(place).wrapping_sub(usize::try_from(at).unwrap_or_default());
        if let Some(byte) = sealed.get_mut(index) {
            *byte ^= bits;
        }
        file.write(&sealed, at).map_err(Error::file(file.path()))?;
        at += sealed.len() as u64;
        builder.clear();
    }
    // What cannot be a record lies behind the frames, as the remains of a write that failed.
    file.write(data, at).map_err(Error::file(file.path()))
}

fn records(data: &[u8]) -> Vec<Record<'_>> {
    let mut rest = data;
    let mut records = Vec::new();
    while let Some(record) = Record::decode(&mut rest) {
        let mut written = Vec::new();
        record.encode(&mut written);
        assert!(data[..data.len() - rest.len()].ends_with(&written), "{record:?}");
        records.push(record);
    }
    records
}
