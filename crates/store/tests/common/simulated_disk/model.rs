//! The model of a disk: the files and names that a process sees, and those that a power loss leaves.
//!
//! After a power loss, every sector has its contents after some of the writes since the last sync, every file its size after some
//! of them, and every change of a name since the last sync of its directory happened or not. A kill leaves everything, but it is
//! still not synced.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::common::Chance;

const SECTOR: usize = 512;

pub(crate) type Inode = usize;

/// One change of a disk.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Directory(PathBuf),
    Create(PathBuf),
    Write { inode: Inode, at: usize, bytes: Arc<[u8]> },
    Resize { inode: Inode, size: usize },
    Rename { from: PathBuf, to: PathBuf },
    Remove(PathBuf),
    SyncFile(Inode),
    FailedSync(Inode),
    SyncDirectory(PathBuf),
}

/// The part of the unsynced changes that survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The process was killed: all of them, still unsynced.
    Process,
    /// The power failed: none, all, or some of them.
    PowerWithout,
    PowerWithAll,
    PowerWithSome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File(Inode),
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Arc<Vec<u8>>,
    synced: Arc<Vec<u8>>,
    /// The changes that lead from `synced` to `bytes`.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Arc<[u8]> },
    Resize(usize),
}

/// An atomic change of names in a directory.
#[derive(Clone, Debug)]
struct Renaming {
    directory: PathBuf,
    label: String,
    names: Vec<(PathBuf, Option<Node>)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    files: Vec<File>,
    names: BTreeMap<PathBuf, Node>,
    synced: BTreeMap<PathBuf, Node>,
    pending: Vec<Renaming>,
}

impl Model {
    /// A disk with one empty directory.
    pub(crate) fn with_directory(root: &Path) -> Model {
        let names = BTreeMap::from([(root.to_owned(), Node::Directory)]);
        Model { files: Vec::new(), synced: names.clone(), names, pending: Vec::new() }
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.names.contains_key(path)
    }

    pub(crate) fn find(&self, path: &Path) -> Option<Inode> {
        match self.names.get(path) {
            Some(Node::File(inode)) => Some(*inode),
            Some(Node::Directory) | None => None,
        }
    }

    pub(crate) fn list(&self, directory: &Path) -> Vec<String> {
        let names = self.names.keys().filter(|path| path.parent() == Some(directory));
        names.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    pub(crate) fn bytes(&self, inode: Inode) -> &[u8] {
        &self.files[inode].bytes
    }

    /// The bytes of all files that have a name.
    pub(crate) fn used(&self) -> u64 {
        let size = |node: &Node| match node {
            Node::File(inode) => self.files[*inode].bytes.len() as u64,
            Node::Directory => 0,
        };
        self.names.values().map(size).sum()
    }

    /// The names and sizes of all files.
    pub(crate) fn sizes(&self) -> BTreeMap<&Path, usize> {
        let files = self.names.keys().filter_map(|path| Some((&**path, self.find(path)?)));
        files.map(|(path, inode)| (path, self.files[inode].bytes.len())).collect()
    }

    /// True if a power loss would change something.
    pub(crate) fn has_unsynced(&self) -> bool {
        !self.pending.is_empty() || self.files.iter().any(|file| !file.pending.is_empty())
    }

    /// True if a power loss could undo changes of names.
    pub(crate) fn has_unsynced_names(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The kind of a file: its name without the revision.
    pub(crate) fn kind(&self, inode: Inode) -> String {
        let named = self.names.iter().find(|(_, node)| **node == Node::File(inode));
        named.map_or("removed file".into(), |(path, _)| kind(path))
    }

    /// The last change that a sync of a directory makes durable, apart from those of temporary files, which come and go.
    pub(crate) fn change(&self, directory: &Path) -> &str {
        let is_here = |change: &&Renaming| change.directory == directory && !change.label.is_empty();
        self.pending.iter().rfind(is_here).map_or("nothing", |change| &change.label)
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::Directory(path) => self.rename("create directory".into(), &[(path, Some(Node::Directory))]),
            Step::Create(path) => {
                self.files.push(File::default());
                let node = Node::File(self.files.len() - 1);
                self.rename(label("create", path), &[(path, Some(node))]);
            }
            Step::Write { inode, at, bytes } => {
                let file = &mut self.files[*inode];
                let change = Change::Write { at: *at, bytes: bytes.clone() };
                change.apply(Arc::make_mut(&mut file.bytes));
                file.pending.push(change);
            }
            Step::Resize { inode, size } => {
                let file = &mut self.files[*inode];
                Arc::make_mut(&mut file.bytes).resize(*size, 0);
                file.pending.push(Change::Resize(*size));
            }
            Step::Rename { from, to } => {
                let node = self.names.get(from).copied();
                self.rename(label("create", to), &[(from, None), (to, node)]);
            }
            Step::Remove(path) => self.rename(label("remove", path), &[(path, None)]),
            Step::SyncFile(inode) => self.files[*inode].sync(),
            // The kernel reports the error once, and takes the pages for written.
            Step::FailedSync(inode) => self.files[*inode].pending.clear(),
            Step::SyncDirectory(directory) => {
                let (synced, pending) =
                    std::mem::take(&mut self.pending).into_iter().partition(|c| c.directory == *directory);
                self.pending = pending;
                let synced: Vec<Renaming> = synced;
                synced.iter().for_each(|change| change.apply(&mut self.synced));
            }
        }
    }

    fn rename(&mut self, label: String, names: &[(&PathBuf, Option<Node>)]) {
        let directory = names[0].0.parent().map(Path::to_owned).unwrap_or_default();
        let names = names.iter().map(|(path, node)| ((*path).clone(), *node)).collect();
        let change = Renaming { directory, label, names };
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    /// The disk after a loss.
    pub(crate) fn after(&self, loss: Loss, chance: &mut Chance) -> Model {
        let kept = match loss {
            Loss::Process => return self.clone(),
            Loss::PowerWithout => Kept::Nothing,
            Loss::PowerWithAll => Kept::Everything,
            Loss::PowerWithSome => Kept::Some(chance),
        };
        self.after_power_loss(kept)
    }

    fn after_power_loss(&self, mut kept: Kept<'_>) -> Model {
        let mut names = self.synced.clone();
        for change in &self.pending {
            if kept.of(2) == 1 {
                change.apply(&mut names);
            }
        }
        // A file whose directory is lost is lost with it.
        let directories = names.clone();
        let has_parent = |path: &Path| path.parent().is_some_and(|parent| directories.contains_key(parent));
        names.retain(|path, _| self.is_root(path) || has_parent(path));
        let files = self.files.iter().map(|file| File::synced(file.survivor(&mut kept))).collect();
        Model { files, synced: names.clone(), names, pending: Vec::new() }
    }

    fn is_root(&self, path: &Path) -> bool {
        self.names.keys().next().is_some_and(|root| root == path)
    }
}

/// The decision about each unsynced change.
enum Kept<'a> {
    Nothing,
    Everything,
    Some(&'a mut Chance),
}

impl Kept<'_> {
    /// A number below `count`: the number of changes that reached the disk.
    fn of(&mut self, count: usize) -> usize {
        match self {
            Kept::Nothing => 0,
            Kept::Everything => count - 1,
            Kept::Some(chance) => chance.below(count as u64) as usize,
        }
    }
}

impl Renaming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        for (path, node) in &self.names {
            match node {
                Some(node) => names.insert(path.clone(), *node),
                None => names.remove(path),
            };
        }
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::Write { at, bytes } => {
                to.resize(to.len().max(at + bytes.len()), 0);
                to[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Change::Resize(size) => to.resize(*size, 0),
        }
    }

    /// Applies the change to those sectors that have it.
    fn apply_to_sectors(&self, to: &mut [u8], mut has: impl FnMut(usize) -> bool) {
        match self {
            Change::Write { at, bytes } => {
                let end = at + bytes.len();
                for sector in at / SECTOR..end.div_ceil(SECTOR) {
                    let (from, until) = ((sector * SECTOR).max(*at), ((sector + 1) * SECTOR).min(end));
                    if has(sector) {
                        to[from..until].copy_from_slice(&bytes[from - at..until - at]);
                    }
                }
            }
            Change::Resize(size) => {
                for sector in size / SECTOR..to.len().div_ceil(SECTOR) {
                    let (from, until) = ((sector * SECTOR).max(*size), ((sector + 1) * SECTOR).min(to.len()));
                    if has(sector) {
                        to[from..until].fill(0);
                    }
                }
            }
        }
    }

    fn size_after(&self, size: usize) -> usize {
        match self {
            Change::Write { at, bytes } => size.max(at + bytes.len()),
            Change::Resize(size) => *size,
        }
    }
}

impl File {
    fn synced(bytes: Arc<Vec<u8>>) -> File {
        File { synced: bytes.clone(), bytes, pending: Vec::new() }
    }

    fn sync(&mut self) {
        let synced = Arc::make_mut(&mut self.synced);
        self.pending.drain(..).for_each(|change| change.apply(synced));
    }

    /// The contents after a power loss.
    fn survivor(&self, kept: &mut Kept<'_>) -> Arc<Vec<u8>> {
        if self.pending.is_empty() {
            return self.synced.clone();
        }
        let changes = self.pending.len() + 1;
        let sizes: Vec<usize> = std::iter::once(self.synced.len())
            .chain(self.pending.iter().scan(self.synced.len(), |size, change| {
                *size = change.size_after(*size);
                Some(*size)
            }))
            .collect();
        let mut bytes = Vec::clone(&self.synced);
        bytes.resize(sizes.iter().copied().max().unwrap_or(0), 0);
        let mut reached: HashMap<usize, usize> = HashMap::new();
        for (index, change) in self.pending.iter().enumerate() {
            change.apply_to_sectors(&mut bytes, |sector| {
                index < *reached.entry(sector).or_insert_with(|| kept.of(changes))
            });
        }
        bytes.resize(sizes[kept.of(changes)], 0);
        Arc::new(bytes)
    }
}

/// The label of a change; empty for a temporary file.
fn label(change: &str, path: &Path) -> String {
    let kind = kind(path);
    if kind.ends_with(".tmp") { String::new() } else { format!("{change} {kind}") }
}

/// The name of a file without its revision.
fn kind(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.chars().filter(|c| !c.is_ascii_digit() && *c != '-').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(at: usize, byte: u8, count: usize) -> Step {
        Step::Write { inode: 0, at, bytes: vec![byte; count].into() }
    }

    #[test]
    fn a_power_loss_keeps_what_was_synced_and_any_part_of_the_rest() {
        let (root, file) = (PathBuf::from("/disk"), PathBuf::from("/disk/a"));
        let mut model = Model::with_directory(&root);
        let mut chance = Chance::new(1);
        model.apply(&Step::Create(file.clone()));
        model.apply(&write(0, 1, 2 * SECTOR));
        model.apply(&Step::SyncFile(0));
        assert!(!model.after(Loss::PowerWithout, &mut chance).exists(&file), "its directory is not synced");
        model.apply(&Step::SyncDirectory(root));
        assert!(!model.has_unsynced());
        model.apply(&write(0, 2, 2 * SECTOR));
        model.apply(&write(SECTOR, 3, 2 * SECTOR));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let after = model.after(Loss::PowerWithSome, &mut chance);
            seen.insert(after.bytes(0).iter().step_by(SECTOR).copied().collect::<Vec<_>>());
        }
        // The second sector has any of three contents, the third is absent, zeros or written.
        assert_eq!(seen.len(), 2 * 3 * 3, "{seen:?}");
        let without = model.after(Loss::PowerWithout, &mut chance);
        assert_eq!(without.bytes(0), [1; 2 * SECTOR]);
        assert_eq!(model.after(Loss::PowerWithAll, &mut chance).bytes(0), model.bytes(0));
        assert!(model.after(Loss::Process, &mut chance).has_unsynced());
    }
}
