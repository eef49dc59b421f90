//! The disk of the kernel: files by system calls.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use corten_base::files;
use rustix::fs::{FallocateFlags, OFlags};

use super::{Disk, DiskFile, Open};

/// The size of one write of zeros: small enough that a commit does not wait for it long.
const STEP: u64 = 256 << 10;
/// The alignment of direct writes: the page size of common machines, or more.
const ALIGNMENT: u64 = 4 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Kernel;

impl Disk for Kernel {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn create_directory(&self, dir: &Path) -> io::Result<()> {
        files::private_directory(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|file| Ok(file?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(open != Open::Existing).truncate(open == Open::Empty);
        Ok(Box::new(files::open_private(&options, path)?))
    }

    fn create_zeroed(&self, path: &Path, size: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = files::open_private(options.read(true).write(true).create(true).truncate(true), path)?;
        // Allocates all blocks at once, if the file system supports it.
        let _ = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size);
        // With direct I/O if the file system supports it, to save a copy and memory.
        let flags = (OFlags::DIRECT | OFlags::NOFOLLOW).bits().cast_signed();
        let direct = OpenOptions::new().write(true).custom_flags(flags).open(path);
        if !direct.is_ok_and(|direct| write_zeros(&direct, size).is_ok()) {
            write_zeros(&file, size)?;
        }
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(dir)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, at)
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        File::try_lock(self)
    }
}

fn write_zeros(file: &File, size: u64) -> io::Result<()> {
    let room = vec![0; (STEP + ALIGNMENT) as usize];
    let zeros = &room[room.as_ptr().align_offset(ALIGNMENT as usize)..][..STEP as usize];
    let mut at = 0;
    while at < size {
        let step = STEP.min(size - at);
        FileExt::write_all_at(file, &zeros[..step as usize], at)?;
        at += step;
    }
    Ok(())
}
