//! Checks kernel flags if `protectKernelDefaults` is set. Never changes them.

use std::path::Path;

use corten_api::Value;

/// Upstream's expected values.
const EXPECTED: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Kernel flags that have other values than expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[{0}]")]
pub(crate) struct KernelFlagsError(String);

/// Checks the kernel flags if the configuration says so.
pub(crate) fn check(configuration: &Value) -> Result<(), KernelFlagsError> {
    match configuration.bool_at(&["protectKernelDefaults"]) {
        Some(true) => complaints(Path::new("/proc/sys")),
        _ => Ok(()),
    }
}

fn complaints(root: &Path) -> Result<(), KernelFlagsError> {
    let wrong = EXPECTED.iter().filter_map(|(flag, expected)| {
        let actual = std::fs::read_to_string(root.join(flag)).unwrap_or_default();
        let (actual, expected) = (actual.trim().to_owned(), *expected);
        (actual != expected).then(|| {
            format!("invalid kernel flag: {flag}, expected value: {expected}, actual value: {actual}")
        })
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(KernelFlagsError(wrong.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_flag_is_checked() {
        let root = tempfile::tempdir().unwrap();
        for (flag, value) in EXPECTED {
            let file = root.path().join(flag);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{value}\n")).unwrap();
        }
        assert_eq!(complaints(root.path()), Ok(()));
        std::fs::write(root.path().join("kernel/panic"), "0\n").unwrap();
        let told = "[invalid kernel flag: kernel/panic, expected value: 10, actual value: 0]";
        assert_eq!(complaints(root.path()).unwrap_err().to_string(), told);
    }
}
