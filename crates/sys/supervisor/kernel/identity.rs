//! Identity and privileges of a process.

use super::*;

pub(crate) fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the list outlives the call and has this length.
    unsafe { call(number::SETGROUPS, [groups.len() as i64, groups.as_ptr() as i64, 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn set_user(uid: u32, gid: u32) -> io::Result<()> {
    let (uid, gid) = (i64::from(uid), i64::from(gid));
    plain(number::SETRESGID, [gid, gid, gid, 0, 0, 0])?;
    plain(number::SETRESUID, [uid, uid, uid, 0, 0, 0]).map(drop)
}

const CAPABILITIES: [u32; 2] = [0x2008_0522, 0];

/// The permitted capabilities of this process.
pub(crate) fn permitted() -> io::Result<u64> {
    let header = CAPABILITIES;
    let mut sets = [0u32; 6];
    // SAFETY: header and sets are of the version's layout and outlive the call.
    unsafe { call(number::CAPGET, [address(&header), address_mut(&mut sets), 0, 0, 0, 0]) }?;
    Ok(u64::from(sets[1]) | u64::from(sets[4]) << 32)
}

pub(crate) fn set_capabilities(effective: u64, permitted: u64, inheritable: u64) -> io::Result<()> {
    let (header, low, high) = (CAPABILITIES, |set: u64| set as u32, |set: u64| (set >> 32) as u32);
    let sets = [
        low(effective),
        low(permitted),
        low(inheritable),
        high(effective),
        high(permitted),
        high(inheritable),
    ];
    // SAFETY: header and sets are of the version's layout and outlive the call.
    unsafe { call(number::CAPSET, [address(&header), address(&sets), 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn set_limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = [soft, hard];
    // SAFETY: the limit outlives the call.
    unsafe { call(number::PRLIMIT, [0, i64::from(resource), address(&limit), 0, 0, 0]) }.map(drop)
}

/// Restricts this process, and the programs it executes, to the system calls that the filter allows.
pub(crate) fn confine(program: &[u64], flags: u32) -> io::Result<()> {
    #[repr(C)]
    struct Filter {
        length: u16,
        instructions: *const u64,
    }
    const SET_FILTER: i64 = 1;
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = Filter { length, instructions: program.as_ptr() };
    // SAFETY: the filter and its instructions outlive the call.
    unsafe { call(number::SECCOMP, [SET_FILTER, i64::from(flags), address(&filter), 0, 0, 0]) }.map(drop)
}

/// Restricts this process to the system calls that waiting for children and reaping them needs.
pub(crate) fn confine_to_waiting() -> io::Result<()> {
    const LOAD: u64 = 0x20;
    const EQUAL: u64 = 0x15;
    const RETURN: u64 = 0x06;
    const ALLOW: u64 = 0x7fff_0000;
    const NOT_PERMITTED: u64 = 0x0005_0001;
    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u64 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u64 = 0xc000_00b7;
    let allowed = [
        number::PPOLL,
        number::READ,
        number::FCNTL,
        number::CLOSE,
        number::WAIT,
        number::BRK,
        number::MMAP,
        number::MUNMAP,
        number::RT_SIGRETURN,
        number::RESTART_SYSCALL,
        number::EXIT_GROUP,
    ];
    // An instruction: its code, the jumps if it holds and if not, and its operand.
    let instruction = |code: u64, holds: u64, otherwise: u64, operand: u64| {
        code | holds << 16 | otherwise << 24 | operand << 32
    };
    let count = allowed.len() as u64;
    let mut program = vec![
        instruction(LOAD, 0, 0, 4),
        instruction(EQUAL, 0, count + 1, ARCHITECTURE),
        instruction(LOAD, 0, 0, 0),
    ];
    program.extend((0..count).zip(allowed).map(|(at, call)| instruction(EQUAL, count - at, 0, call as u64)));
    program.push(instruction(RETURN, 0, 0, NOT_PERMITTED));
    program.push(instruction(RETURN, 0, 0, ALLOW));
    confine(&program, 0)
}
