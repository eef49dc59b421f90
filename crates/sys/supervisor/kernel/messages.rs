//! Sockets that pass descriptors.

use super::*;

/// Two connected sockets that preserve message boundaries.
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

/// A control message with up to four descriptors, in the kernel's layout.
#[repr(C, align(8))]
struct Passed {
    length: usize,
    level: i32,
    kind: i32,
    descriptors: [RawFd; 4],
}

const HEADER: usize = 16;
const RIGHTS: (i32, i32) = (1, 1);
const CREDENTIALS: (i32, i32) = (1, 2);

/// Sends bytes and up to four descriptors; returns the number of bytes sent.
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

/// Has the kernel add the sender's process id to every message to this socket.
pub(crate) fn name_senders(socket: &OwnedFd) -> io::Result<()> {
    const SOL_SOCKET: i64 = 1;
    const SO_PASSCRED: i64 = 16;
    let (on, raw) = (1i32, i64::from(socket.as_raw_fd()));
    // SAFETY: the value outlives the call and has this size.
    unsafe { call(number::SETSOCKOPT, [raw, SOL_SOCKET, SO_PASSCRED, address(&on), 4, 0]) }.map(drop)
}

/// Receives bytes and up to four descriptors, without blocking.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    passed: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    receive_from(socket, bytes, passed).map(|(received, _)| received)
}

/// Like [`receive`], with the sender's process id if the socket reports it. At the end there is no sender.
pub(crate) fn receive_from(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    passed: &mut Vec<OwnedFd>,
) -> io::Result<(usize, Option<i32>)> {
    const WITHOUT_WAITING: i64 = 0x40 | 0x4000_0000;
    let part = [bytes.as_mut_ptr() as i64, bytes.len() as i64];
    // Room for a sender and four descriptors, each with a header.
    let mut control = [0u64; 8];
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: address(&part),
        part_count: 1,
        control: address_mut(&mut control),
        control_length: size_of_val(&control),
        flags: 0,
    };
    let arguments = [i64::from(socket.as_raw_fd()), address_mut(&mut message), WITHOUT_WAITING, 0, 0, 0];
    // SAFETY: the message and everything it points to outlive the call, with room for what is received.
    let received = unsafe { call(number::RECVMSG, arguments) }?;
    let mut sender = None;
    let control: Vec<u8> =
        control.iter().flat_map(|word| word.to_ne_bytes()).take(message.control_length).collect();
    let mut rest = control.as_slice();
    while let Some((length, level_and_kind)) = header(rest) {
        let numbers = rest[HEADER..length]
            .chunks_exact(4)
            .map(|four| i32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
        match level_and_kind {
            RIGHTS => passed.extend(numbers.map(|descriptor| owned(i64::from(descriptor)))),
            CREDENTIALS => sender = numbers.take(1).next(),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    Ok((received as usize, sender))
}

/// The length of the first control message with its header, and its type.
fn header(control: &[u8]) -> Option<(usize, (i32, i32))> {
    let (length, rest) = control.split_first_chunk()?;
    let (level, rest) = rest.split_first_chunk()?;
    let kind = rest.first_chunk()?;
    let length = usize::from_ne_bytes(*length);
    let control = (HEADER..=control.len()).contains(&length);
    control.then_some((length, (i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind))))
}
