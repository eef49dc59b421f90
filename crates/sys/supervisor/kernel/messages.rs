//! Sockets that pass descriptors along.

use super::*;

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
