//! Entry points of the native runtime's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use super::plan::user::{Accounts, identity};
use super::seccomp;
use crate::ContainerSecurityContext;
use crate::image::Process;

/// A seccomp profile, compiled.
pub fn seccomp_profile(data: &[u8]) {
    if let Ok(filter) = seccomp::from_json(data, 1 << 21) {
        let _ = (filter.program(), filter.described());
    }
}

/// The `/etc/passwd` and `/etc/group` of an image, and the user that it names. A user that is found has an ID that the
/// kernel takes.
pub fn accounts(user: &str, passwd: &str, group: &str) {
    let accounts = Accounts { passwd: passwd.to_owned(), group: group.to_owned() };
    let image = Process { user: user.to_owned(), ..Process::default() };
    let by_name =
        ContainerSecurityContext { run_as_username: user.to_owned(), ..ContainerSecurityContext::default() };
    for context in [ContainerSecurityContext::default(), by_name] {
        if let Ok(found) = identity(&context, &image, &accounts) {
            assert!(u32::try_from(found.user.uid).is_ok() && u32::try_from(found.user.gid).is_ok());
        }
    }
}
