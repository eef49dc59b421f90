//! A pod's supervisor: it holds the pod's namespaces, starts its containers, reaps them, writes down how they ended,
//! and pumps their output into logs. One for every pod, so it is small: one thread, no dependencies, nothing kept
//! that is on disk.
//!
//! It does what it is told over its socket and decides nothing: what a container may see and do was worked out by
//! whoever asks. It goes on when they are gone, and when it is gone, so are its containers.
//!
//! `corten-supervisor FOLDER`: the sandbox is read from standard input; the socket is made in the folder. A word
//! on standard output says that everything is ready, or why it is not.

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
        // The parent of the one that goes on.
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever started us may be gone.
            let _ = writeln!(io::stdout(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// `None` in the process that is only there to be waited for.
fn prepare() -> Result<Option<pod::Pod>, String> {
    let folder = std::env::args().nth(1).ok_or("which folder?")?;
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| format!("reading the sandbox: {error}"))?;
    let sandbox = Sandbox::get(&mut bytes.as_slice()).ok_or("the sandbox makes no sense")?;
    std::env::set_current_dir(&folder).map_err(|error| format!("changing to {folder}: {error}"))?;
    if kernel::fork(0).map_err(|error| format!("going into the background: {error}"))? != 0 {
        return Ok(None);
    }
    let pod = setup::pod(&sandbox)?;
    setup::say_ready()?;
    Ok(Some(pod))
}
