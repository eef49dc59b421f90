//! Terminals.

use super::*;

/// Prepares a terminal: unlocks it, sets its size, and opens its other side.
pub(crate) fn prepare_terminal(master: &OwnedFd, columns: u16, rows: u16) -> io::Result<OwnedFd> {
    const UNLOCK: i64 = 0x4004_5431;
    const PEER: i64 = 0x5441;
    const SIZE: i64 = 0x5414;
    const READ_WRITE_NO_CONTROL: i64 = 0o2 | 0o400 | O_CLOEXEC as i64;
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
    Ok(peer)
}

/// Makes the terminal on standard input the controlling terminal of this session.
pub(crate) fn take_terminal() -> io::Result<()> {
    const CONTROL: i64 = 0x540e;
    plain(number::IOCTL, [0, CONTROL, 0, 0, 0, 0]).map(drop)
}
