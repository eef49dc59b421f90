//! System calls that the standard library does not offer. The only unsafe code of the supervisor.
//!
//! All calls go through one variadic function, with numbers from one table per architecture.

mod identity;
mod messages;
mod mounts;
mod terminal;

use std::ffi::{CString, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub(crate) use identity::*;
pub(crate) use messages::*;
pub(crate) use mounts::*;
pub(crate) use terminal::*;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

macro_rules! numbers {
    ($($name:ident $x86_64:literal $aarch64:literal)*) => {
        #[cfg(target_arch = "x86_64")]
        mod number { $(pub(super) const $name: i64 = $x86_64;)* }
        #[cfg(target_arch = "aarch64")]
        mod number { $(pub(super) const $name: i64 = $aarch64;)* }
    };
}

numbers! {
    BRK 12 214
    CAPGET 125 90
    CAPSET 126 91
    CLONE 56 220
    CLOSE 3 57
    CLOSE_RANGE 436 436
    EXECVE 59 221
    EXIT_GROUP 231 94
    FCHDIR 81 50
    FCHOWNAT 260 54
    FCNTL 72 25
    GETCWD 79 17
    IOCTL 16 29
    KEYCTL 250 219
    KILL 62 129
    MMAP 9 222
    MOUNT 165 40
    MOUNT_SETATTR 442 442
    MOVE_MOUNT 429 429
    MUNMAP 11 215
    OPEN_TREE 428 428
    PIPE2 293 59
    PIVOT_ROOT 155 41
    PPOLL 271 73
    PRCTL 157 167
    PRLIMIT 302 261
    READ 0 63
    RECVMSG 47 212
    RESTART_SYSCALL 219 128
    RT_SIGACTION 13 134
    RT_SIGPROCMASK 14 135
    RT_SIGRETURN 15 139
    SECCOMP 317 277
    SENDMSG 46 211
    SETGROUPS 116 159
    SETHOSTNAME 170 161
    SETNS 308 268
    SETRESGID 119 149
    SETRESUID 117 147
    SETSID 112 157
    SETSOCKOPT 54 208
    SIGNALFD 289 74
    SOCKET 41 198
    SOCKETPAIR 53 199
    SYMLINKAT 266 36
    UMASK 95 166
    UMOUNT 166 39
    UNSHARE 272 97
    WAIT 61 260
}

pub(crate) const CLONE_NEWNS: u64 = 0x0002_0000;
pub(crate) const CLONE_NEWCGROUP: u64 = 0x0200_0000;
pub(crate) const CLONE_NEWPID: u64 = 0x2000_0000;
pub(crate) const MS_RDONLY: u64 = 1;
pub(crate) const MS_NOSUID: u64 = 2;
pub(crate) const MS_NODEV: u64 = 4;
pub(crate) const MS_NOEXEC: u64 = 8;
pub(crate) const MS_REMOUNT: u64 = 32;
pub(crate) const MS_BIND: u64 = 4096;
pub(crate) const MS_REC: u64 = 16384;
pub(crate) const MS_SHARED: u64 = 1 << 20;
pub(crate) const MS_SLAVE: u64 = 1 << 19;
pub(crate) const MS_PRIVATE: u64 = 1 << 18;
pub(crate) const SIGKILL: i32 = 9;
pub(crate) const POLLIN: i16 = 1;
pub(crate) const POLLOUT: i16 = 4;
pub(crate) const O_CLOEXEC: u64 = 0o2000000;

const SIGCHLD: u64 = 17;
const SIGPIPE: u64 = 13;
const SIGTERM: u64 = 15;
const AT_FDCWD: i64 = -100;
const AT_EMPTY_PATH: u64 = 0x1000;
const AT_RECURSIVE: u64 = 0x8000;

/// An argument of a call: a number, or an address that stays valid during the call.
type Argument = i64;

/// # Safety
/// Addresses among the arguments must be valid for the use that this call makes of them.
unsafe fn call(number: i64, arguments: [Argument; 6]) -> io::Result<i64> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: as the caller promises.
    let result = unsafe { syscall(number as c_long, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i64) }
}

/// Calls with numbers only.
fn plain(number: i64, arguments: [Argument; 6]) -> io::Result<i64> {
    // SAFETY: callers in this file pass no address.
    unsafe { call(number, arguments) }
}

fn address<T>(value: &T) -> Argument {
    std::ptr::from_ref(value) as Argument
}

fn address_mut<T>(value: &mut T) -> Argument {
    std::ptr::from_mut(value) as Argument
}

fn text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

fn owned(descriptor: i64) -> OwnedFd {
    // SAFETY: the kernel has just handed it to us.
    unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) }
}

/// Forks: returns 0 in the child. There is only ever one thread.
pub(crate) fn fork(namespaces: u64) -> io::Result<i32> {
    plain(number::CLONE, [(namespaces | SIGCHLD) as i64, 0, 0, 0, 0, 0]).map(|pid| pid as i32)
}

/// Forks a process with this process's parent, in the process namespace that was entered last: returns 0 in the new
/// process.
pub(crate) fn fork_sibling() -> io::Result<i32> {
    const CLONE_PARENT: u64 = 0x8000;
    fork(CLONE_PARENT)
}

pub(crate) fn exit(code: i32) -> ! {
    loop {
        // It does not return.
        let _ = plain(number::EXIT_GROUP, [i64::from(code), 0, 0, 0, 0, 0]);
    }
}

/// The next exited child, and its exit code in a shell's convention.
pub(crate) fn reap() -> Option<(i32, i32)> {
    const WITHOUT_WAITING: i64 = 1 | 0x4000_0000;
    let mut status = 0i32;
    // SAFETY: the status outlives the call.
    let pid = unsafe { call(number::WAIT, [-1, address_mut(&mut status), WITHOUT_WAITING, 0, 0, 0]) }.ok()?;
    let signal = status & 0x7f;
    (pid > 0).then_some((pid as i32, if signal == 0 { (status >> 8) & 0xff } else { 128 + signal }))
}

pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    plain(number::KILL, [i64::from(pid), i64::from(signal), 0, 0, 0, 0]).map(drop)
}

pub(crate) fn new_session() -> io::Result<()> {
    plain(number::SETSID, [0; 6]).map(drop)
}

pub(crate) fn unshare(namespaces: u64) -> io::Result<()> {
    plain(number::UNSHARE, [namespaces as i64, 0, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn enter(namespace: &OwnedFd, kind: u64) -> io::Result<()> {
    plain(number::SETNS, [i64::from(namespace.as_raw_fd()), kind as i64, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: the name outlives the call.
    unsafe { call(number::SETHOSTNAME, [name.as_ptr() as i64, name.len() as i64, 0, 0, 0, 0]) }.map(drop)
}

fn control(option: i64, value: u64) -> io::Result<()> {
    plain(number::PRCTL, [option, value as i64, 0, 0, 0, 0]).map(drop)
}

/// Replaces the session keyring of the parent, with the keys in it, by an empty one.
pub(crate) fn new_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: i64 = 1;
    match plain(number::KEYCTL, [JOIN_SESSION_KEYRING, 0, 0, 0, 0, 0]) {
        // A kernel without keyrings has no keys either.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        other => other.map(drop),
    }
}

/// Sets whether processes of the same user may access this one.
pub(crate) fn set_dumpable(dumpable: bool) -> io::Result<()> {
    const PR_SET_DUMPABLE: i64 = 4;
    control(PR_SET_DUMPABLE, u64::from(dumpable))
}

/// The kernel kills this process when its parent ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    const PR_SET_PDEATHSIG: i64 = 1;
    control(PR_SET_PDEATHSIG, SIGKILL as u64)
}

pub(crate) fn give_up_new_privileges() -> io::Result<()> {
    const PR_SET_NO_NEW_PRIVS: i64 = 38;
    control(PR_SET_NO_NEW_PRIVS, 1)
}

/// Capabilities survive the next change of the user.
pub(crate) fn keep_capabilities() -> io::Result<()> {
    const PR_SET_KEEPCAPS: i64 = 8;
    control(PR_SET_KEEPCAPS, 1)
}

pub(crate) fn drop_from_bounding(capability: u32) -> io::Result<()> {
    const PR_CAPBSET_DROP: i64 = 24;
    control(PR_CAPBSET_DROP, u64::from(capability))
}

/// Orphaned descendants become children of this process.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    const PR_SET_CHILD_SUBREAPER: i64 = 36;
    control(PR_SET_CHILD_SUBREAPER, 1)
}

pub(crate) fn set_name(name: &std::ffi::CStr) -> io::Result<()> {
    const PR_SET_NAME: i64 = 15;
    control(PR_SET_NAME, name.as_ptr() as u64)
}

/// The ambient set's own call.
pub(crate) fn raise_ambient(capability: u32) -> io::Result<()> {
    const PR_CAP_AMBIENT: i64 = 47;
    const RAISE: i64 = 2;
    plain(number::PRCTL, [PR_CAP_AMBIENT, RAISE, i64::from(capability), 0, 0, 0]).map(drop)
}

pub(crate) fn set_umask(mask: u32) {
    // It cannot fail.
    let _ = plain(number::UMASK, [i64::from(mask), 0, 0, 0, 0, 0]);
}

/// Executes another program.
pub(crate) fn execute(path: &str, args: &[String], env: &[String]) -> io::Error {
    let run = || -> io::Result<()> {
        let path = text(path)?;
        let args = args.iter().map(|arg| text(arg)).collect::<io::Result<Vec<_>>>()?;
        let env = env.iter().map(|entry| text(entry)).collect::<io::Result<Vec<_>>>()?;
        let pointers = |texts: &[CString]| {
            let all = texts.iter().map(|text| text.as_ptr());
            all.chain(std::iter::once(std::ptr::null())).collect::<Vec<_>>()
        };
        let (args, env) = (pointers(&args), pointers(&env));
        let arguments = [path.as_ptr() as i64, args.as_ptr() as i64, env.as_ptr() as i64, 0, 0, 0];
        // SAFETY: the lists end with null, and they and their texts outlive the call.
        unsafe { call(number::EXECVE, arguments) }.map(drop)
    };
    run().err().unwrap_or_else(|| io::Error::other("it came back"))
}

/// A descriptor that reports exited children and requests to terminate.
pub(crate) fn signals() -> io::Result<OwnedFd> {
    const NON_BLOCKING: i64 = 0o4000;
    let mask = 1u64 << (SIGCHLD - 1) | 1u64 << (SIGTERM - 1);
    set_mask(mask)?;
    // SAFETY: the mask outlives the call and has this size.
    unsafe { call(number::SIGNALFD, [-1, address(&mask), 8, NON_BLOCKING | O_CLOEXEC as i64, 0, 0]) }
        .map(owned)
}

fn set_mask(mask: u64) -> io::Result<()> {
    const SET: i64 = 2;
    // SAFETY: the mask outlives the call and has this size.
    unsafe { call(number::RT_SIGPROCMASK, [SET, address(&mask), 0, 8, 0, 0]) }.map(drop)
}

/// Resets signals to the defaults of a new process.
pub(crate) fn reset_signals() -> io::Result<()> {
    let default = [0u64; 4];
    // SAFETY: the action outlives the call; all zero is the default one.
    unsafe { call(number::RT_SIGACTION, [SIGPIPE as i64, address(&default), 0, 8, 0, 0]) }?;
    set_mask(0)
}

/// Marks every descriptor from `first` on as close-on-exec.
pub(crate) fn close_on_execute_from(first: RawFd) -> io::Result<()> {
    const CLOEXEC: i64 = 4;
    plain(number::CLOSE_RANGE, [i64::from(first), i64::from(u32::MAX), CLOEXEC, 0, 0, 0]).map(drop)
}

/// Closes every descriptor from 3 on, except for those in `kept`.
pub(crate) fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<RawFd> = kept.iter().copied().filter(|&descriptor| descriptor >= 3).collect();
    kept.sort_unstable();
    let mut first = 3i64;
    for last in kept.into_iter().map(|kept| i64::from(kept) - 1).chain([i64::from(u32::MAX)]) {
        if first <= last {
            plain(number::CLOSE_RANGE, [first, last, 0, 0, 0, 0])?;
        }
        first = last + 2;
    }
    Ok(())
}

pub(crate) fn change_directory(directory: &OwnedFd) -> io::Result<()> {
    plain(number::FCHDIR, [i64::from(directory.as_raw_fd()), 0, 0, 0, 0, 0]).map(drop)
}

/// Returns true if the working directory is below the root. The kernel marks other paths with a prefix.
pub(crate) fn working_directory_is_inside_root() -> io::Result<bool> {
    let mut path = [0u8; 4096];
    // SAFETY: there is room for as many bytes as are named.
    unsafe { call(number::GETCWD, [path.as_mut_ptr() as i64, path.len() as i64, 0, 0, 0, 0]) }?;
    Ok(path[0] == b'/')
}

/// A descriptor to wait for.
#[repr(C)]
pub(crate) struct Awaited {
    pub(crate) descriptor: RawFd,
    pub(crate) wanted: i16,
    pub(crate) found: i16,
}

pub(crate) fn wait_for(awaited: &mut [Awaited], milliseconds: Option<u64>) -> io::Result<()> {
    let timeout = milliseconds.map(|ms| [(ms / 1000) as i64, (ms % 1000 * 1_000_000) as i64]);
    let pointer = timeout.as_ref().map_or(0, address);
    let arguments = [awaited.as_mut_ptr() as i64, awaited.len() as i64, pointer, 0, 8, 0];
    // SAFETY: the list outlives the call and has this length; so does the timeout.
    match unsafe { call(number::PPOLL, arguments) } {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// A pipe: its read end and its write end.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0i32; 2];
    // SAFETY: there is room for both ends.
    unsafe { call(number::PIPE2, [address_mut(&mut ends), O_CLOEXEC as i64, 0, 0, 0, 0]) }?;
    Ok((owned(i64::from(ends[0])), owned(i64::from(ends[1]))))
}

pub(crate) fn set_non_blocking(descriptor: &OwnedFd) -> io::Result<()> {
    const GET: i64 = 3;
    const SET: i64 = 4;
    const NON_BLOCKING: i64 = 0o4000;
    let raw = i64::from(descriptor.as_raw_fd());
    let flags = plain(number::FCNTL, [raw, GET, 0, 0, 0, 0])?;
    plain(number::FCNTL, [raw, SET, flags | NON_BLOCKING, 0, 0, 0]).map(drop)
}

/// Number of bytes that can be read at once.
pub(crate) fn waiting_bytes(descriptor: BorrowedFd<'_>) -> io::Result<usize> {
    const WAITING: i64 = 0x541b;
    let mut count = 0i32;
    let raw = i64::from(descriptor.as_raw_fd());
    // SAFETY: the count outlives the call.
    unsafe { call(number::IOCTL, [raw, WAITING, address_mut(&mut count), 0, 0, 0]) }?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Replaces a descriptor, such as standard output, by a copy of another.
pub(crate) fn put_in_place(descriptor: &OwnedFd, place: RawFd) -> io::Result<()> {
    unsafe extern "C" {
        fn dup2(from: i32, to: i32) -> i32;
    }
    // SAFETY: numbers only; the replaced descriptor is meant to be closed.
    if unsafe { dup2(descriptor.as_raw_fd(), place) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Brings the loopback interface up.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    const AF_INET: i64 = 2;
    const DATAGRAM: i64 = 2;
    const GET_FLAGS: i64 = 0x8913;
    const SET_FLAGS: i64 = 0x8914;
    const UP: u16 = 1;
    #[repr(C)]
    struct Interface {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let socket = plain(number::SOCKET, [AF_INET, DATAGRAM | O_CLOEXEC as i64, 0, 0, 0, 0]).map(owned)?;
    let mut loopback = Interface { name: [0; 16], flags: 0, rest: [0; 22] };
    loopback.name[..2].copy_from_slice(b"lo");
    let raw = i64::from(socket.as_raw_fd());
    // SAFETY: the request is of the kernel's layout and outlives the call.
    unsafe { call(number::IOCTL, [raw, GET_FLAGS, address_mut(&mut loopback), 0, 0, 0]) }?;
    loopback.flags |= UP;
    // SAFETY: as above.
    unsafe { call(number::IOCTL, [raw, SET_FLAGS, address(&loopback), 0, 0, 0]) }.map(drop)
}

pub(crate) fn awaited(descriptor: &impl AsRawFd, wanted: i16) -> Awaited {
    Awaited { descriptor: descriptor.as_raw_fd(), wanted, found: 0 }
}

/// Reads the pending signals; returns true if one of them asks to terminate.
pub(crate) fn take_signals(signals: &OwnedFd) -> bool {
    use std::io::Read;
    let Ok(mut file) = signals.try_clone().map(std::fs::File::from) else { return false };
    let mut terminate = false;
    let mut information = [0; 128];
    while file.read_exact(&mut information).is_ok() {
        terminate |= u64::from(information[0]) == SIGTERM;
    }
    terminate
}
