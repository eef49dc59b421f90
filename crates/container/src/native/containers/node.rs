//! Devices of the node for containers.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use corten_sys::wire;

use crate::{Device, Error, Result};

/// Entries of `/dev` that every container has of its own.
const OWN: [&str; 8] = ["pts", "shm", "mqueue", "fd", "console", "stdin", "stdout", "stderr"];

/// The requested devices with their permissions. A folder stands for all devices in it.
pub(super) fn devices(asked: &[Device]) -> Result<Vec<(wire::Device, String)>> {
    let mut found = Vec::new();
    for device in asked {
        let path = Path::new(&device.host_path);
        let data = fs::metadata(path);
        let data = data.map_err(|error| Error::internal(format!("device {:?}", device.host_path), error))?;
        if data.is_dir() {
            let all = below(path, &device.container_path);
            found.extend(all.into_iter().map(|one| (one, device.permissions.clone())));
        } else {
            let described = describe(path, &device.container_path)
                .ok_or_else(|| Error::InvalidArgument(format!("{:?} is not a device", device.host_path)))?;
            found.push((described, device.permissions.clone()));
        }
    }
    Ok(found)
}

/// Every device of the node.
pub(super) fn all_devices() -> Vec<(wire::Device, String)> {
    below(Path::new("/dev"), "/dev").into_iter().map(|device| (device, "rwm".to_owned())).collect()
}

fn below(folder: &Path, target: &str) -> Vec<wire::Device> {
    let mut devices = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let target = format!("{}/{name}", target.trim_end_matches('/'));
        let own = folder == Path::new("/dev") && OWN.contains(&name.as_str());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !own => devices.extend(below(&entry.path(), &target)),
            Ok(kind) if !kind.is_symlink() && !own => devices.extend(describe(&entry.path(), &target)),
            _ => {}
        }
    }
    devices
}

fn describe(path: &Path, target: &str) -> Option<wire::Device> {
    let data = fs::metadata(path).ok()?;
    let kind = data.file_type();
    (kind.is_char_device() || kind.is_block_device()).then(|| wire::Device {
        path: target.to_owned(),
        mode: data.mode(),
        major: rustix::fs::major(data.rdev()),
        minor: rustix::fs::minor(data.rdev()),
        uid: data.uid(),
        gid: data.gid(),
    })
}
