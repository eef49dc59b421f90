//! Returns memory to the kernel.

use std::ffi::c_void;
use std::{fs, io};

use rustix::mm::{Advice, madvise};

/// Releases the pages of the program's own code: starting touches most of it, and little of that runs again. Pages that
/// are needed are read again from the page cache.
pub fn forget_code() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    for (start, end) in maps.lines().filter_map(|line| code(line, &program.to_string_lossy())) {
        let length = end.saturating_sub(start);
        // SAFETY: the mapping is private, backed by the program's file and not writable, so its pages are the file's:
        // dropping them changes nothing that can be read from them.
        unsafe { madvise(start as *mut c_void, length, Advice::LinuxDontNeed) }?;
    }
    Ok(())
}

/// The address range of a line of `/proc/self/maps`, if it is code of the program.
fn code(line: &str, program: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    let is_code = rest.starts_with("r-xp ") && rest.ends_with(program);
    let (start, end) = range.split_once('-').filter(|_| is_code)?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_and_nothing_else() {
        let code = |line| code(line, "/bin/corten");
        assert_eq!(code("1000-3000 r-xp 00832000 fe:00 5335298    /bin/corten"), Some((0x1000, 0x3000)));
        assert_eq!(code("1000-3000 r--p 00832000 fe:00 5335298    /bin/corten"), None);
        assert_eq!(code("1000-3000 rw-p 00832000 fe:00 5335298    /bin/corten"), None);
        assert_eq!(code("1000-3000 r-xp 00832000 fe:00 5335298    /lib/libc.so.6"), None);
        assert_eq!(code("1000-3000 rw-p 00000000 00:00 0 "), None);
    }

    #[test]
    fn released_code_still_runs() {
        let resident = || {
            let status = fs::read_to_string("/proc/self/statm").expect("there is one");
            let shared = status.split(' ').nth(2).and_then(|pages| pages.parse::<u64>().ok());
            shared.expect("it says how much of files is resident")
        };
        let before = resident();
        forget_code().expect("it works");
        assert!(resident() < before);
    }
}
