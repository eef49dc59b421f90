//! Calls into the kernel that the standard library does not offer. The only unsafe code of the supervisor.
//!
//! Everything goes through one variadic function, with numbers from one table per architecture.

use std::ffi::{CString, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

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
    CAPGET 125 90
    CAPSET 126 91
    CLONE 56 220
    CLOSE_RANGE 436 436
    EXECVE 59 221
    EXIT_GROUP 231 94
    FCHOWNAT 260 54
    FCNTL 72 25
    IOCTL 16 29
    KILL 62 129
    MKDIRAT 258 34
    MKNODAT 259 33
    MOUNT 165 40
    MOUNT_SETATTR 442 442
    MOVE_MOUNT 429 429
    OPENAT2 437 437
    OPEN_TREE 428 428
    PIPE2 293 59
    PIVOT_ROOT 155 41
    PPOLL 271 73
    PRCTL 157 167
    PRLIMIT 302 261
    RECVMSG 47 212
    RT_SIGACTION 13 134
    RT_SIGPROCMASK 14 135
    SECCOMP 317 277
    SENDMSG 46 211
    SETGROUPS 116 159
    SETHOSTNAME 170 161
    SETNS 308 268
    SETRESGID 119 149
    SETRESUID 117 147
    SETSID 112 157
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
pub(crate) const SIGKILL: i32 = 9;
pub(crate) const POLLIN: i16 = 1;
pub(crate) const POLLOUT: i16 = 4;
pub(crate) const O_PATH: u64 = 0o10000000;
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
/// Addresses among the arguments must be valid for what this call does with them.
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

/// Goes on in a new process as in this one: 0 in the child. There is only ever one thread.
pub(crate) fn fork(namespaces: u64) -> io::Result<i32> {
    plain(number::CLONE, [(namespaces | SIGCHLD) as i64, 0, 0, 0, 0, 0]).map(|pid| pid as i32)
}

pub(crate) fn exit(code: i32) -> ! {
    loop {
        // It does not return.
        let _ = plain(number::EXIT_GROUP, [i64::from(code), 0, 0, 0, 0, 0]);
    }
}

/// The next child that ended, and its exit code as a shell would say it.
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

pub(crate) fn control(option: i32, value: u64) -> io::Result<i64> {
    plain(number::PRCTL, [i64::from(option), value as i64, 0, 0, 0, 0])
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

pub(crate) fn mount(source: &str, target: &str, kind: &str, flags: u64, options: &str) -> io::Result<()> {
    let (source, target, kind, options) = (text(source)?, text(target)?, text(kind)?, text(options)?);
    let pointer = |text: &CString| if text.is_empty() { 0 } else { text.as_ptr() as i64 };
    let arguments = [pointer(&source), pointer(&target), pointer(&kind), flags as i64, pointer(&options), 0];
    // SAFETY: the texts outlive the call; absent ones are null, as the kernel allows.
    unsafe { call(number::MOUNT, arguments) }.map(drop)
}

pub(crate) fn detach(target: &str) -> io::Result<()> {
    const MNT_DETACH: i64 = 2;
    let target = text(target)?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::UMOUNT, [target.as_ptr() as i64, MNT_DETACH, 0, 0, 0, 0]) }.map(drop)
}

/// The current folder becomes the root; the old root lies on top of it until it is detached.
pub(crate) fn pivot_root_here() -> io::Result<()> {
    let here = text(".")?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::PIVOT_ROOT, [here.as_ptr() as i64, here.as_ptr() as i64, 0, 0, 0, 0]) }.map(drop)
}

/// A copy of what is mounted at a path, to be attached elsewhere.
pub(crate) fn copy_mount(path: &str, recursive: bool) -> io::Result<OwnedFd> {
    const OPEN_TREE_CLONE: u64 = 1;
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | if recursive { AT_RECURSIVE } else { 0 };
    let path = text(path)?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::OPEN_TREE, [AT_FDCWD, path.as_ptr() as i64, flags as i64, 0, 0, 0]) }.map(owned)
}

pub(crate) fn attach_mount(copy: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    const BOTH_EMPTY: i64 = 0x4 | 0x40;
    let nothing = text("")?;
    let (from, to) = (i64::from(copy.as_raw_fd()), i64::from(target.as_raw_fd()));
    let pointer = nothing.as_ptr() as i64;
    // SAFETY: the text outlives the call.
    unsafe { call(number::MOVE_MOUNT, [from, pointer, to, pointer, BOTH_EMPTY, 0]) }.map(drop)
}

/// Makes a mount and everything below it read-only.
pub(crate) fn make_read_only(target: &OwnedFd) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let attributes = [MOUNT_ATTR_RDONLY, 0, 0, 0];
    let nothing = text("")?;
    let flags = (AT_EMPTY_PATH | AT_RECURSIVE) as i64;
    let arguments = [
        i64::from(target.as_raw_fd()),
        nothing.as_ptr() as i64,
        flags,
        address(&attributes),
        size_of_val(&attributes) as i64,
        0,
    ];
    // SAFETY: text and attributes outlive the call, and the size is theirs.
    unsafe { call(number::MOUNT_SETATTR, arguments) }.map(drop)
}

/// Opens a path as if `root` were the root: no link leads out.
pub(crate) fn open_within(root: &OwnedFd, path: &str, flags: u64) -> io::Result<OwnedFd> {
    const RESOLVE_IN_ROOT: u64 = 0x10;
    let how = [flags | O_CLOEXEC, 0, RESOLVE_IN_ROOT];
    let path = text(path)?;
    let arguments =
        [i64::from(root.as_raw_fd()), path.as_ptr() as i64, address(&how), size_of_val(&how) as i64, 0, 0];
    // SAFETY: text and instructions outlive the call, and the size is theirs.
    unsafe { call(number::OPENAT2, arguments) }.map(owned)
}

pub(crate) fn make_folder_at(folder: &OwnedFd, name: &str) -> io::Result<()> {
    let name = text(name)?;
    let arguments = [i64::from(folder.as_raw_fd()), name.as_ptr() as i64, 0o755, 0, 0, 0];
    // SAFETY: the text outlives the call.
    unsafe { call(number::MKDIRAT, arguments) }.map(drop)
}

/// Makes a file or device; the mode says which.
pub(crate) fn make_node_at(
    folder: &OwnedFd,
    name: &str,
    mode: u32,
    major: u32,
    minor: u32,
) -> io::Result<()> {
    let (major, minor) = (u64::from(major), u64::from(minor));
    let device = ((major & 0xfff) << 8) | (minor & 0xff) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32);
    let name = text(name)?;
    let arguments =
        [i64::from(folder.as_raw_fd()), name.as_ptr() as i64, i64::from(mode), device as i64, 0, 0];
    // SAFETY: the text outlives the call.
    unsafe { call(number::MKNODAT, arguments) }.map(drop)
}

pub(crate) fn change_owner_at(folder: &OwnedFd, name: &str, uid: u32, gid: u32) -> io::Result<()> {
    let name = text(name)?;
    let arguments =
        [i64::from(folder.as_raw_fd()), name.as_ptr() as i64, i64::from(uid), i64::from(gid), 0, 0];
    // SAFETY: the text outlives the call.
    unsafe { call(number::FCHOWNAT, arguments) }.map(drop)
}

pub(crate) fn make_link_at(target: &str, folder: &OwnedFd, name: &str) -> io::Result<()> {
    let (target, name) = (text(target)?, text(name)?);
    let arguments = [target.as_ptr() as i64, i64::from(folder.as_raw_fd()), name.as_ptr() as i64, 0, 0, 0];
    // SAFETY: the texts outlive the call.
    unsafe { call(number::SYMLINKAT, arguments) }.map(drop)
}

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

/// The capabilities that this process may have.
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

/// Confines this process, and everything it becomes, to what the program allows.
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

/// Becomes another program.
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

/// A descriptor that tells of children that ended, and of requests to terminate.
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

/// Signals as a fresh process expects them.
pub(crate) fn reset_signals() -> io::Result<()> {
    let default = [0u64; 4];
    // SAFETY: the action outlives the call; all zero is the default one.
    unsafe { call(number::RT_SIGACTION, [SIGPIPE as i64, address(&default), 0, 8, 0, 0]) }?;
    set_mask(0)
}

/// Makes every descriptor from `first` on close when another program is run.
pub(crate) fn close_on_execute_from(first: RawFd) -> io::Result<()> {
    const CLOEXEC: i64 = 4;
    plain(number::CLOSE_RANGE, [i64::from(first), i64::from(u32::MAX), CLOEXEC, 0, 0, 0]).map(drop)
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

/// A pipe: where to read, where to write.
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

/// Two connected sockets that keep messages apart.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    const AF_UNIX: i64 = 1;
    const SEQPACKET: i64 = 5;
    let mut ends = [0i32; 2];
    // SAFETY: there is room for both ends.
    unsafe {
        call(number::SOCKETPAIR, [AF_UNIX, SEQPACKET | O_CLOEXEC as i64, 0, address_mut(&mut ends), 0, 0])
    }?;
    Ok((owned(i64::from(ends[0])), owned(i64::from(ends[1]))))
}

#[repr(C)]
struct Message {
    name: u64,
    name_length: u64,
    parts: Argument,
    part_count: usize,
    control: Argument,
    control_length: usize,
    flags: u64,
}

/// A header and up to four descriptors, as the kernel lays them out.
#[repr(C, align(8))]
struct Passed {
    length: usize,
    level: i32,
    kind: i32,
    descriptors: [RawFd; 4],
}

const HEADER: usize = 16;
const RIGHTS: (i32, i32) = (1, 1);

/// Sends bytes and up to four descriptors; how many bytes went.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], passed: &[OwnedFd]) -> io::Result<usize> {
    const QUIETLY_WITHOUT_WAITING: i64 = 0x4000 | 0x40;
    let part = [bytes.as_ptr() as i64, bytes.len() as i64];
    let mut control =
        Passed { length: HEADER + 4 * passed.len(), level: RIGHTS.0, kind: RIGHTS.1, descriptors: [-1; 4] };
    for (slot, descriptor) in control.descriptors.iter_mut().zip(passed) {
        *slot = descriptor.as_raw_fd();
    }
    let has = !passed.is_empty();
    let message = Message {
        name: 0,
        name_length: 0,
        parts: address(&part),
        part_count: 1,
        control: if has { address(&control) } else { 0 },
        control_length: if has { control.length.next_multiple_of(8) } else { 0 },
        flags: 0,
    };
    let arguments = [i64::from(socket.as_raw_fd()), address(&message), QUIETLY_WITHOUT_WAITING, 0, 0, 0];
    // SAFETY: the message and everything it points to outlive the call.
    unsafe { call(number::SENDMSG, arguments) }.map(|sent| sent as usize)
}

/// Receives bytes and up to four descriptors, without waiting.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    passed: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    const WITHOUT_WAITING: i64 = 0x40 | 0x4000_0000;
    let part = [bytes.as_mut_ptr() as i64, bytes.len() as i64];
    let mut control = Passed { length: 0, level: 0, kind: 0, descriptors: [-1; 4] };
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: address(&part),
        part_count: 1,
        control: address_mut(&mut control),
        control_length: size_of::<Passed>(),
        flags: 0,
    };
    let arguments = [i64::from(socket.as_raw_fd()), address_mut(&mut message), WITHOUT_WAITING, 0, 0, 0];
    // SAFETY: the message and everything it points to outlive the call, with room for what is received.
    let received = unsafe { call(number::RECVMSG, arguments) }?;
    if message.control_length > HEADER && (control.level, control.kind) == RIGHTS {
        let count = control.length.saturating_sub(HEADER) / 4;
        passed.extend(control.descriptors.iter().take(count).map(|&descriptor| owned(i64::from(descriptor))));
    }
    Ok(received as usize)
}

/// A new terminal: its master, and its other side.
pub(crate) fn open_terminal(columns: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    const UNLOCK: i64 = 0x4004_5431;
    const PEER: i64 = 0x5441;
    const SIZE: i64 = 0x5414;
    const READ_WRITE_NO_CONTROL: i64 = 0o2 | 0o400 | O_CLOEXEC as i64;
    let master = OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/ptmx")?);
    let raw = i64::from(master.as_raw_fd());
    let unlocked = 0i32;
    // SAFETY: the argument outlives the call.
    unsafe { call(number::IOCTL, [raw, UNLOCK, address(&unlocked), 0, 0, 0]) }?;
    let peer = plain(number::IOCTL, [raw, PEER, READ_WRITE_NO_CONTROL, 0, 0, 0]).map(owned)?;
    if columns > 0 && rows > 0 {
        let size = [rows, columns, 0, 0];
        // SAFETY: the size outlives the call.
        unsafe { call(number::IOCTL, [raw, SIZE, address(&size), 0, 0, 0]) }?;
    }
    Ok((master, peer))
}

/// The terminal on standard input controls this session.
pub(crate) fn take_terminal() -> io::Result<()> {
    const CONTROL: i64 = 0x540e;
    plain(number::IOCTL, [0, CONTROL, 0, 0, 0, 0]).map(drop)
}

/// Puts a descriptor in the place of another, such as standard output.
pub(crate) fn put_in_place(descriptor: &OwnedFd, place: RawFd) -> io::Result<()> {
    unsafe extern "C" {
        fn dup2(from: i32, to: i32) -> i32;
    }
    // SAFETY: numbers only; whatever was in the place is meant to go.
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

/// Takes the signals that were waited for; whether one of them asks to terminate.
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
