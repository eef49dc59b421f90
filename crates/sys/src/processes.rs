//! Programs that this process runs and that must not outlive it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Makes the kernel send SIGTERM to the program when the thread that starts it ends, as it does when this process is killed.
/// So the program is started by a thread that waits for it.
pub fn end_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let set = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have ended before.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(set) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            end_with_parent(command.arg("1000"));
            command.spawn().expect("sleep starts")
        });
        let mut child = started.join().expect("the thread ends");
        let status = child.wait().expect("a child");
        assert!(!status.success(), "{status}");
    }
}
