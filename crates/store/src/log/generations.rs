//! The files of a store: only this module names, lists, creates and removes them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use parking_lot::RwLock;

use super::{
    file::{LogFile, START},
    load::Tolerance,
    spare::Spare,
};
use crate::{
    Damage, Error, Revision, Sealing,
    disk::{Disk, DiskFile},
};

const LOG: &str = "log";
const SNAPSHOT: &str = "snapshot";
const SPARE: &str = "spare";
/// The suffix of temporary files, which the next open removes.
const UNFINISHED: &str = ".tmp";

/// A log, and the snapshot at its base revision once that is written.
pub(crate) struct Generation {
    pub(super) log: LogFile,
    pub(super) snapshot: OnceLock<LogFile>,
}

/// The generations of a store, oldest first.
pub(crate) struct Generations {
    dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    /// `None` once the store is closed.
    list: RwLock<Option<Vec<Arc<Generation>>>>,
    pub(crate) sealing: Arc<dyn Sealing>,
}

impl Generations {
    /// Lists the files of a directory, without reading them.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        sealing: Arc<dyn Sealing>,
        tolerance: &mut Tolerance,
    ) -> Result<Generations, Error> {
        let mut logs = BTreeMap::new();
        let mut snapshots = BTreeMap::new();
        for name in disk.list(dir).map_err(Error::file(dir))? {
            if name.ends_with(UNFINISHED) {
                remove(&*disk, &dir.join(name))?;
            } else if let Some((kind, base)) = parse(&name) {
                let files = if kind == LOG { &mut logs } else { &mut snapshots };
                files.insert(base, name);
            }
        }
        let mut list = Vec::new();
        for (base, name) in logs {
            let Some(log) = tolerance.take(open(&*disk, dir, &name, base))? else { continue };
            let snapshot = match snapshots.remove(&base) {
                Some(name) => tolerance.take(open(&*disk, dir, &name, base))?,
                None => None,
            };
            list.push(Arc::new(Generation {
                log,
                snapshot: snapshot.map_or_else(OnceLock::new, OnceLock::from),
            }));
        }
        let loaded = list.iter().rev().find(|generation| generation.snapshot.get().is_some());
        let loaded = loaded.map_or(0, |generation| generation.log.base);
        for (base, file) in snapshots {
            if base < loaded {
                // Its generation was being removed when the power failed.
                remove(&*disk, &dir.join(file))?;
            } else {
                tolerance.accept_or_fail(Damage::Log { file: name(LOG, base), at: 0 })?;
            }
        }
        Ok(Generations { dir: dir.into(), disk, list: RwLock::new(Some(list)), sealing })
    }

    pub(super) fn all(&self) -> Result<Vec<Arc<Generation>>, Error> {
        self.list.read().clone().ok_or(Error::Closed)
    }

    /// The bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        let list = self.list.read();
        let files = list.iter().flatten().flat_map(|generation| {
            std::iter::once(generation.log.end()).chain(generation.snapshot.get().map(LogFile::end))
        });
        files.sum()
    }

    /// The revisions after which the oldest and the newest generation begin.
    pub(crate) fn bases(&self) -> Result<(Revision, Revision), Error> {
        let list = self.all()?;
        let base = |generation: Option<&Arc<Generation>>| generation.map_or(0, |found| found.log.base);
        Ok((base(list.first()), base(list.last())))
    }

    /// Starts a generation after a revision.
    pub(super) fn begin(&self, base: Revision) -> Result<Arc<Generation>, Error> {
        self.begin_with(self.create(LOG, base)?)
    }

    /// Starts a generation after a revision, in a prepared file.
    pub(super) fn begin_in(
        &self,
        file: Box<dyn DiskFile>,
        path: &Path,
        base: Revision,
    ) -> Result<Arc<Generation>, Error> {
        self.begin_with(LogFile::begin(file, path, &name(LOG, base), base)?)
    }

    /// Continues in the log of a revision, without its snapshot.
    pub(super) fn continue_in(&self, base: Revision) -> Result<(), Error> {
        let log = open(&*self.disk, &self.dir, &name(LOG, base), base)?;
        self.push(log).map(|_| ())
    }

    /// The spare file for the next log.
    pub(super) fn spare(&self, bytes: u64) -> Spare {
        Spare::new(Arc::clone(&self.disk), self.dir.join(format!("{SPARE}{UNFINISHED}")), bytes)
    }

    fn begin_with(&self, log: LogFile) -> Result<Arc<Generation>, Error> {
        self.push(self.finish(log)?)
    }

    fn push(&self, log: LogFile) -> Result<Arc<Generation>, Error> {
        let generation = Arc::new(Generation { log, snapshot: OnceLock::new() });
        self.list.write().as_mut().ok_or(Error::Closed)?.push(Arc::clone(&generation));
        Ok(generation)
    }

    /// Creates a snapshot's file, which is then passed to [`Generations::complete`].
    pub(super) fn create_snapshot(&self, base: Revision) -> Result<LogFile, Error> {
        self.create(SNAPSHOT, base)
    }

    /// Adds a snapshot to its generation, which then loads without the generations before it.
    pub(super) fn complete(&self, snapshot: LogFile) -> Result<(), Error> {
        let snapshot = self.finish(snapshot)?;
        let generations = self.all()?;
        if let Some(generation) = generations.iter().find(|generation| generation.log.base == snapshot.base) {
            // There is at most one snapshot of a generation at a time.
            let _ = generation.snapshot.set(snapshot);
        }
        Ok(())
    }

    /// Removes the generations that contain only compacted history.
    pub(crate) fn prune(&self, compacted: Revision) -> Result<(), Error> {
        let gone: Vec<Arc<Generation>> = {
            let mut list = self.list.write();
            let list = list.as_mut().ok_or(Error::Closed)?;
            let enough = |generation: &Arc<Generation>| {
                generation.log.base <= compacted && generation.snapshot.get().is_some()
            };
            let first = list.iter().rposition(enough).unwrap_or(0);
            list.drain(..first).collect()
        };
        self.remove(&gone)
    }

    /// Removes all generations from the list and returns them; the caller removes their files.
    pub(super) fn take_all(&self) -> Result<Vec<Arc<Generation>>, Error> {
        self.list.write().as_mut().map(std::mem::take).ok_or(Error::Closed)
    }

    pub(super) fn remove(&self, gone: &[Arc<Generation>]) -> Result<(), Error> {
        for file in
            gone.iter().flat_map(|generation| generation.snapshot.get().into_iter().chain([&generation.log]))
        {
            remove(&*self.disk, file.path())?;
        }
        if gone.is_empty() { Ok(()) } else { self.sync() }
    }

    /// The free space of the disk; unlimited if the file system does not tell it.
    pub(super) fn free_bytes(&self) -> u64 {
        self.disk.free_bytes(&self.dir).unwrap_or(u64::MAX)
    }

    /// True if the files that a load needs begin before a revision.
    pub(super) fn is_loaded_from_before(&self, revision: Revision) -> bool {
        let list = self.list.read();
        let list = list.as_deref().unwrap_or_default();
        let loaded = list.iter().rfind(|generation| generation.snapshot.get().is_some()).or(list.first());
        loaded.is_some_and(|generation| generation.log.base < revision)
    }

    /// The bytes of the logs since the last snapshot, and of that snapshot.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let list = self.list.read();
        let mut logs = 0;
        for generation in list.iter().flatten().rev() {
            logs += generation.log.end() - START;
            if let Some(snapshot) = generation.snapshot.get() {
                return (logs, snapshot.end());
            }
        }
        (logs, 0)
    }

    pub(crate) fn close(&self) {
        *self.list.write() = None;
    }

    fn create(&self, kind: &str, base: Revision) -> Result<LogFile, Error> {
        let name = name(kind, base);
        LogFile::create(&*self.disk, &self.dir.join(format!("{name}{UNFINISHED}")), &name, base)
    }

    /// Gives a file whose contents are on disk its final name.
    fn finish(&self, mut file: LogFile) -> Result<LogFile, Error> {
        let path = self.dir.join(&*file.name);
        file.rename(&*self.disk, path)?;
        self.sync()?;
        Ok(file)
    }

    fn sync(&self) -> Result<(), Error> {
        self.disk.sync_directory(&self.dir).map_err(Error::sync(&self.dir))
    }
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<(), Error> {
    disk.remove(path).map_err(Error::file(path))
}

fn open(disk: &dyn Disk, dir: &Path, name: &str, base: Revision) -> Result<LogFile, Error> {
    let file = LogFile::open(disk, &dir.join(name), name)?;
    if file.base != base {
        return Err(Damage::Log { file: name.into(), at: 0 }.into());
    }
    Ok(file)
}

fn name(kind: &str, base: Revision) -> String {
    format!("{kind}-{base:020}")
}

fn parse(file: &str) -> Option<(&str, Revision)> {
    let (kind, base) = file.split_once('-')?;
    let base = base.parse().ok()?;
    ([LOG, SNAPSHOT].contains(&kind) && name(kind, base) == file).then_some((kind, base))
}
