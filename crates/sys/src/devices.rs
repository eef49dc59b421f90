//! The devices cgroup of version 2: a BPF program that the kernel runs whenever a device is opened or created.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Allowed devices and permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    pub block: bool,
    /// `None` is any.
    pub major: Option<u32>,
    pub minor: Option<u32>,
    pub make: bool,
    pub read: bool,
    pub write: bool,
}

/// Allows a cgroup these devices and no others.
pub fn allow_only(cgroup: &Path, allowed: &[Allowed]) -> io::Result<()> {
    let program = program(allowed);
    let folder = File::open(cgroup)?;
    let loaded = load(&program)?;
    attach(&loaded, &folder)
}

/// One instruction: operation, registers, offset, immediate.
type Instruction = [u8; 8];

fn instruction(operation: u8, target: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    let [o0, o1] = offset.to_le_bytes();
    let [i0, i1, i2, i3] = immediate.to_le_bytes();
    [operation, target | source << 4, o0, o1, i0, i1, i2, i3]
}

const LOAD_WORD: u8 = 0x61;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP_IF_NOT: u8 = 0x55;
const EXIT: u8 = 0x95;

/// The program returns 1 if one rule covers the whole access, and 0 otherwise.
fn program(allowed: &[Allowed]) -> Vec<Instruction> {
    // r2: type, r3: access, r4: major, r5: minor, loaded from the context in r1.
    let mut program = vec![
        instruction(LOAD_WORD, 2, 1, 0, 0),
        instruction(MOVE_REGISTER, 3, 2, 0, 0),
        instruction(AND, 2, 0, 0, 0xffff),
        instruction(SHIFT_RIGHT, 3, 0, 0, 16),
        instruction(LOAD_WORD, 4, 1, 4, 0),
        instruction(LOAD_WORD, 5, 1, 8, 0),
    ];
    for rule in allowed {
        let mut tests = vec![(2, if rule.block { 1 } else { 2 })];
        tests.extend(rule.major.map(|major| (4, major as i32)));
        tests.extend(rule.minor.map(|minor| (5, minor as i32)));
        let refused = i32::from(!rule.make) | i32::from(!rule.read) << 1 | i32::from(!rule.write) << 2;
        // The test of the access takes three instructions, the return two.
        let mut left = tests.len() + 3 + 2;
        for (register, value) in tests {
            left -= 1;
            program.push(instruction(JUMP_IF_NOT, register, 0, left as i16, value));
        }
        program.push(instruction(MOVE_REGISTER, 1, 3, 0, 0));
        program.push(instruction(AND, 1, 0, 0, refused));
        program.push(instruction(JUMP_IF_NOT, 1, 0, 2, 0));
        program.push(instruction(MOVE, 0, 0, 0, 1));
        program.push(instruction(EXIT, 0, 0, 0, 0));
    }
    program.push(instruction(MOVE, 0, 0, 0, 0));
    program.push(instruction(EXIT, 0, 0, 0, 0));
    program
}

const CGROUP_DEVICE: u32 = 15;
const ATTACH_TYPE: u32 = 6;
const ALLOW_MULTI: u32 = 2;
const PROG_LOAD: i64 = 5;
const PROG_ATTACH: i64 = 8;

#[cfg(target_arch = "x86_64")]
const BPF: i64 = 321;
#[cfg(target_arch = "aarch64")]
const BPF: i64 = 280;

unsafe extern "C" {
    fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
}

fn load(program: &[Instruction]) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        rest: [u64; 12],
    }
    let license = c"Apache";
    let load = Load {
        kind: CGROUP_DEVICE,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        rest: [0; 12],
    };
    // SAFETY: the request is of the kernel's layout and outlives the call with everything it points to.
    let descriptor = unsafe { syscall(BPF, PROG_LOAD, &raw const load, size_of::<Load>()) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just handed it to us.
    Ok(unsafe { File::from_raw_fd(descriptor as i32) })
}

fn attach(program: &File, cgroup: &File) -> io::Result<()> {
    let attach = [cgroup.as_raw_fd() as u32, program.as_raw_fd() as u32, ATTACH_TYPE, ALLOW_MULTI, 0, 0];
    // SAFETY: the request is of the kernel's layout and outlives the call.
    let done = unsafe { syscall(BPF, PROG_ATTACH, &raw const attach, size_of_val(&attach)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// A cgroup of version 2; removed when it is dropped.
    struct Cgroup(PathBuf);

    impl Cgroup {
        fn new() -> Cgroup {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            let mut unified = mounts.lines().filter(|line| line.split(' ').nth(2) == Some("cgroup2"));
            let root = unified.next().expect("version 2 is mounted").split(' ').nth(1).unwrap();
            let path = PathBuf::from(root).join(format!("corten-devices-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Cgroup(path)
        }

        /// Returns true if a script succeeds in the cgroup.
        fn runs(&self, script: &str) -> bool {
            let join = format!("echo $$ > {}/cgroup.procs && {script}", self.0.display());
            let status = Command::new("sh").args(["-c", &join]).stderr(std::process::Stdio::null()).status();
            status.unwrap().success()
        }
    }

    impl Drop for Cgroup {
        fn drop(&mut self) {
            fs::remove_dir(&self.0).unwrap();
        }
    }

    #[test]
    fn the_kernel_asks_the_program() {
        let cgroup = Cgroup::new();
        let scripts =
            ["head -c 1 /dev/zero >/dev/null", "echo x >/dev/null", "head -c 1 /dev/full >/dev/null"];
        assert_eq!(scripts.map(|script| cgroup.runs(script)), [true, true, true]);
        let null =
            Allowed { block: false, major: Some(1), minor: Some(3), make: true, read: true, write: true };
        let read_full = Allowed { minor: Some(7), make: false, write: false, ..null };
        allow_only(&cgroup.0, &[null, read_full]).unwrap();
        assert_eq!(scripts.map(|script| cgroup.runs(script)), [false, true, true]);
        assert!(!cgroup.runs("echo x 1<>/dev/full"), "only reading is allowed");
    }
}
