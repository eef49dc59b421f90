//! `/statusz` and `/flagz`: version, uptime and flags of this server, for people.

use crate::{Server, version};

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// The start time, uptime and version.
pub(super) fn page(server: &Server) -> String {
    let up = server.started_at.elapsed().as_secs();
    let started = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(up as i64);
    format!(
        "\napiserver statusz\n{WARNING}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nBinary version: {}.{}\n\
         Emulation version: {}.{}\nPaths: /flagz /healthz /livez /metrics /readyz /statusz /version\n",
        started.strftime("%a %b %e %H:%M:%S UTC %Y"),
        up / 3600,
        up / 60 % 60,
        up % 60,
        version::MAJOR,
        version::MINOR,
        version::MAJOR,
        version::MINOR,
    )
}

/// The flags as they were given or defaulted.
pub(super) fn flags(server: &Server) -> String {
    let lines: String = server.flags.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("\napiserver flagz\n{WARNING}\n{lines}")
}
