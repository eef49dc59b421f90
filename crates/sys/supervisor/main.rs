//! A pod's supervisor: it holds the pod's namespaces, starts its containers, reaps them, records their exits and writes
//! their output to logs. One runs for every pod, so it is small: one thread, no dependencies, and nothing in memory
//! that is on disk.
//!
//! It carries out the requests on its socket and decides nothing: the runtime computes the privileges of a container.
//! It keeps running when the runtime exits, and its containers end with it.
//!
//! `corten-supervisor FOLDER`: the sandbox is read from standard input; the socket is created in the folder. A message
//! on standard output reports that the sandbox is ready, or the error.

mod child;
mod connection;
mod console;
mod kernel;
mod log;
mod masks;
mod pod;
mod root;
#[path = "../src/rooted.rs"]
#[expect(unreachable_pub, reason = "public in the library, which it is part of too")]
mod rooted;
mod running;
mod setup;
#[path = "../src/wire.rs"]
#[expect(unreachable_pub, reason = "public in the library, which it is part of too")]
mod wire;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use wire::{Sandbox, Wire};

fn main() -> ExitCode {
    match prepare() {
        Ok(Some(mut pod)) => {
            pod.run();
            ExitCode::SUCCESS
        }
        // The parent of the supervisor.
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            // Fails if the runtime is gone.
            let _ = writeln!(io::stdout(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// `None` in the parent, which exits at once.
fn prepare() -> Result<Option<pod::Pod>, String> {
    let folder = std::env::args().nth(1).ok_or("which folder?")?;
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| format!("cannot read the sandbox plan: {error}"))?;
    let sandbox = Sandbox::get(&mut bytes.as_slice()).ok_or("invalid sandbox configuration")?;
    std::env::set_current_dir(&folder).map_err(|error| format!("cannot change to {folder}: {error}"))?;
    if kernel::fork(0).map_err(|error| format!("cannot fork into the background: {error}"))? != 0 {
        return Ok(None);
    }
    let pod = setup::pod(&sandbox)?;
    setup::report_ready()?;
    Ok(Some(pod))
}
