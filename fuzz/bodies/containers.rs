//! Seccomp profiles, and the users of an image. Of the latter the first
//! line is the image's `USER`, the lines up to an empty one its `/etc/passwd`, and the rest its `/etc/group`.

use corten_container::native::fuzz;

pub(crate) fn check(data: &[u8]) {
    fuzz::seccomp_profile(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (user, files) = text.split_once('\n').unwrap_or((text, ""));
    let (passwd, group) = files.split_once("\n\n").unwrap_or((files, ""));
    fuzz::accounts(user, passwd, group);
}
