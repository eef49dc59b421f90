//! Entry point of SPDY's private decoders for the fuzz targets in `fuzz/`; nothing else calls it.

use futures_util::FutureExt;

use super::frames::{Incoming, Outgoing, read, write};
use super::headers::{Packer, Unpacker};

/// The frames of a connection. A stream that was opened opens the same way again.
pub fn frames(mut data: &[u8]) {
    let mut unpacker = Unpacker::new();
    // Reading from memory never waits.
    while let Some(Ok(Some(frame))) = read(&mut data, &mut unpacker).now_or_never() {
        let Incoming::Opened { id, headers, .. } = frame else { continue };
        let mut packer = Packer::new().expect("the dictionary fits");
        let written =
            write(&Outgoing::Open { id, headers: headers.clone() }, &mut packer).expect("headers are packed");
        let again = read(&mut written.as_slice(), &mut Unpacker::new()).now_or_never();
        let again = again.expect("memory never waits").expect("a frame that was written is read");
        assert_eq!(again, Some(Incoming::Opened { id, headers, ended: false }));
    }
}
