//! The folder of a layer that is being unpacked, and the layers below it.
//!
//! Paths are resolved in the merged view, as a container would see it, but every step is taken without following
//! a link: a link is read and its target resolved here.

use super::*;

pub(super) struct Tree {
    root: OwnedFd,
    below: Vec<OwnedFd>,
    /// The folder that was used last; archives are ordered by folder.
    last: Option<(PathBuf, OwnedFd)>,
    /// The bytes that may still be written.
    budget: Arc<Budget>,
}

/// An entry in the topmost layer that has one at a place.
enum Found {
    Nothing,
    Folder { here: bool, owner: (u32, u32), mode: Mode },
    Link(PathBuf),
    Other,
}

/// The mode of folders that the archive implies and does not describe.
const FOLDER: Mode = Mode::from_bits_retain(0o755);
const WHITEOUT: Dev = 0;
const LONGEST_CHASE: usize = 40;

impl Tree {
    pub(super) fn open(root: &Path, below: &[PathBuf], budget: Arc<Budget>) -> io::Result<Tree> {
        let open = |path: &Path| {
            rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        let below = below.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
        Ok(Tree { root: open(root)?, below, last: None, budget })
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// A folder of this layer, created if it is missing.
    pub(super) fn folder(&mut self, path: &Path) -> io::Result<OwnedFd> {
        if let Some((last, folder)) = &self.last
            && last == path
        {
            return folder.try_clone();
        }
        let real = self.resolve(path)?;
        let folder = open_beneath(&self.root, &real, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.last = Some((path.to_owned(), folder.try_clone()?));
        Ok(folder)
    }

    /// The resolved path of a folder; every folder on the way is created in this layer.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut real = PathBuf::new();
        let mut ahead: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == ".." {
                real.pop();
                continue;
            }
            let next = real.join(&part);
            match self.inspect(&next)? {
                Found::Link(target) => {
                    links += 1;
                    if links > LONGEST_CHASE {
                        return Err(malformed("links that go around"));
                    }
                    if target.is_absolute() {
                        real = PathBuf::new();
                    }
                    let parts = target.components().rev().filter_map(|component| match component {
                        Component::Normal(part) => Some(part.to_owned()),
                        Component::ParentDir => Some("..".into()),
                        _ => None,
                    });
                    ahead.extend(parts);
                    continue;
                }
                Found::Folder { here: true, .. } => {}
                Found::Folder { here: false, owner, mode } => {
                    rustix::fs::mkdirat(&self.root, &next, FOLDER)?;
                    attributes(&self.root, next.as_os_str(), owner, Some(mode))?;
                }
                Found::Nothing | Found::Other => {
                    self.clear(&open_beneath(&self.root, &real, OFlags::RDONLY)?, &part)?;
                    rustix::fs::mkdirat(&self.root, &next, FOLDER)?;
                    // Independent of the umask.
                    rustix::fs::chmodat(&self.root, &next, FOLDER, AtFlags::empty())?;
                }
            }
            real = next;
            check_depth(&real)?;
        }
        Ok(real)
    }

    fn inspect(&self, path: &Path) -> io::Result<Found> {
        for (depth, layer) in std::iter::once(&self.root).chain(&self.below).enumerate() {
            let Ok(file) = open_beneath(layer, path, OFlags::PATH | OFlags::NOFOLLOW) else { continue };
            let stat = rustix::fs::fstat(&file)?;
            return Ok(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Found::Folder {
                    here: depth == 0,
                    owner: (stat.st_uid, stat.st_gid),
                    mode: Mode::from_raw_mode(stat.st_mode & 0o7777),
                },
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(&file, "", Vec::new())?;
                    Found::Link(PathBuf::from(OsString::from_vec(target.into_bytes())))
                }
                FileType::CharacterDevice if stat.st_rdev == WHITEOUT => Found::Nothing,
                _ => Found::Other,
            });
        }
        Ok(Found::Nothing)
    }

    /// Hides the entry of this name in the layers below.
    pub(super) fn hide(&mut self, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
        self.clear(folder, name)?;
        self.last = None;
        Ok(rustix::fs::mknodat(folder, name, FileType::CharacterDevice, Mode::empty(), WHITEOUT)?)
    }

    pub(super) fn make_folder(&mut self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let kind = there.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
        if kind == Some(FileType::Directory) {
            return Ok(());
        }
        self.last = None;
        self.clear(parent, name)?;
        rustix::fs::mkdirat(parent, name, FOLDER)?;
        if kind == Some(FileType::CharacterDevice) {
            // It replaces a hidden entry, which must not appear again.
            let folder = open_beneath(parent, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY)?;
            rustix::fs::fsetxattr(&folder, OPAQUE, b"y", XattrFlags::empty())?;
        }
        Ok(())
    }

    /// Removes an entry, so that a new one can be created.
    pub(super) fn clear(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(rustix::io::Errno::ISDIR) => fs::remove_dir_all(path_of(folder).join(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates another name for a file of this layer, or a copy of one below.
    pub(super) fn link(
        &mut self,
        from: &Path,
        target: &OsStr,
        folder: &OwnedFd,
        name: &OsStr,
    ) -> io::Result<()> {
        self.clear(folder, name)?;
        let from = self.resolve(from)?.join(target);
        match rustix::fs::linkat(&self.root, &from, folder, name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => self.copy_up(&from, folder, name),
            other => other.map_err(Into::into),
        }
    }

    /// Only the content of regular files is read. Other entries are created anew: an image may contain a device node,
    /// and opening it would open the device of the node.
    fn copy_up(&self, from: &Path, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let found = self
            .below
            .iter()
            .find_map(|layer| open_beneath(layer, from, OFlags::PATH | OFlags::NOFOLLOW).ok());
        let found = found.ok_or_else(|| malformed("a link to what is not there"))?;
        let stat = rustix::fs::fstat(&found)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        let mut is_link = false;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                self.budget.spend(u64::try_from(stat.st_size).unwrap_or_default())?;
                let mut content = File::open(path_of(&found))?;
                io::copy(&mut content, &mut new_file(folder, name)?)?;
            }
            FileType::Symlink => {
                is_link = true;
                let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
                rustix::fs::symlinkat(target, folder, name)?;
            }
            kind @ (FileType::CharacterDevice | FileType::BlockDevice) if stat.st_rdev != WHITEOUT => {
                rustix::fs::mknodat(folder, name, kind, Mode::empty(), stat.st_rdev)?;
            }
            kind @ FileType::Fifo => rustix::fs::mknodat(folder, name, kind, Mode::empty(), 0)?,
            _ => return Err(malformed("a link to what is not there")),
        }
        attributes(folder, name, (stat.st_uid, stat.st_gid), (!is_link).then_some(mode))?;
        set_time(folder, name, u64::try_from(stat.st_mtime).unwrap_or_default())
    }

    /// Sets a folder's time, if it still exists.
    pub(super) fn set_folder_time(&self, path: &Path, seconds: u64) -> io::Result<()> {
        let Some(name) = path.file_name() else { return Ok(()) };
        let real = self.resolve(path.parent().unwrap_or(Path::new("")))?;
        let parent = open_beneath(&self.root, &real, OFlags::RDONLY | OFlags::DIRECTORY)?;
        match set_time(&parent, name, seconds) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            set => set,
        }
    }
}

pub(super) fn new_file(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?))
}

/// Opens an entry below a folder, without following any link on the way.
fn open_beneath(folder: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // The last component may still be a link, for callers that only inspect it.
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

pub(super) fn attributes(
    folder: &impl AsFd,
    name: &OsStr,
    owner: (u32, u32),
    mode: Option<Mode>,
) -> io::Result<()> {
    let (uid, gid) = (rustix::fs::Uid::from_raw(owner.0), rustix::fs::Gid::from_raw(owner.1));
    rustix::fs::chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if let Some(mode) = mode {
        rustix::fs::chmodat(folder, name, mode, AtFlags::empty())?;
    }
    Ok(())
}
