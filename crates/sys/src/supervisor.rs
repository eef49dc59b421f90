//! Starts supervisors from a program image in memory.
//!
//! Every pod's supervisor runs the same pages, and none of them is a file that a container could reach or an
//! upgrade could remove.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, SealFlags};

use crate::wire::{Sandbox, Wire};

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/supervisor"));

/// The program in memory; supervisors can be started as long as it lives.
#[derive(Debug)]
pub struct Program(File);

impl Program {
    pub fn load() -> io::Result<Program> {
        let memory =
            rustix::fs::memfd_create("corten-supervisor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut file = File::from(memory);
        file.write_all(PROGRAM)?;
        // Sealed: no process that gets the descriptor can change the program.
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Ok(Program(file))
    }

    /// Starts a supervisor, which creates `socket` in the folder, and waits until it is ready. Blocks.
    pub fn start(&self, folder: &Path, sandbox: &Sandbox) -> io::Result<()> {
        let program = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let mut starter = Command::new(program)
            .arg(folder)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // The supervisor waits for its input before it does anything.
        let allowed = crate::limits::restore_for(starter.id());
        let mut bytes = Vec::new();
        sandbox.put(&mut bytes);
        let (input, output) = (starter.stdin.take(), starter.stdout.take());
        let sent = allowed.and_then(|()| input.map_or(Ok(()), |mut input| input.write_all(&bytes)));
        let mut message = String::new();
        let received = output.map_or(Ok(0), |mut output| output.read_to_string(&mut message));
        starter.wait()?;
        match message.trim() {
            "ready" => Ok(()),
            "" => Err(sent
                .and(received)
                .err()
                .unwrap_or_else(|| io::Error::other("the supervisor exited without a message"))),
            why => Err(io::Error::other(why.to_owned())),
        }
    }
}
