//! Started containers and processes: their streams and state.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::child::{Streams, While};
use crate::kernel;
use crate::log::{self, Output};
use crate::wire::{Container, Exit};

/// A request: its connection and its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId {
    pub(crate) connection: u64,
    pub(crate) number: u32,
}

/// A start without an outcome yet.
pub(crate) struct Starting {
    pub(crate) request_id: RequestId,
    status: OwnedFd,
    /// The process that was forked. Its messages are trusted; those of its successor may come from a container.
    starter: i32,
    terminal: Option<OwnedFd>,
    /// The process that succeeds the forked one, once it is known.
    process: Option<i32>,
    /// True if the successor was reported, which happens once.
    goes_on: bool,
    /// The error, if the start failed. It is answered when the process is gone, and its mounts with it.
    pub(crate) failure: Option<String>,
}

/// The message with a terminal. A message that begins neither with this nor with [`PROCESS`] is the error of the start.
pub(crate) const TERMINAL: &[u8] = b"\0terminal";

/// The prefix of the message with the process id of the successor.
pub(crate) const PROCESS: &[u8] = b"\0process ";

/// The outcome of a start.
pub(crate) enum Outcome {
    Pending,
    Started(Option<OwnedFd>),
    Failed(String),
}

impl Starting {
    pub(crate) fn new(request_id: RequestId, status: OwnedFd, starter: i32) -> Starting {
        Starting { request_id, status, starter, terminal: None, process: None, goes_on: false, failure: None }
    }

    pub(crate) fn awaited(&self) -> kernel::Awaited {
        kernel::awaited(&self.status, kernel::POLLIN)
    }

    /// The successor of the forked process, if it is newly known.
    pub(crate) fn take_process(&mut self) -> Option<i32> {
        self.process.take()
    }

    pub(crate) fn outcome(&mut self) -> Outcome {
        if self.failure.is_some() {
            return Outcome::Pending;
        }
        let mut text = [0; 4096];
        loop {
            let mut passed = Vec::new();
            let received = kernel::receive_from(self.status.as_fd(), &mut text, &mut passed);
            // Processes that the container may trace have the socket too. They can report a failure, and nothing else.
            let trusted = |sender| sender == Some(self.starter) && !self.goes_on;
            match received {
                Ok((0, None)) => return Outcome::Started(self.terminal.take()),
                // A terminal was passed; the outcome is still to come.
                Ok((length, sender)) if trusted(sender) && text[..length] == *TERMINAL => {
                    self.terminal = passed.pop();
                }
                Ok((length, sender)) if trusted(sender) && text[..length].starts_with(PROCESS) => {
                    let number = std::str::from_utf8(&text[PROCESS.len()..length]).ok();
                    self.process = number.and_then(|number| number.parse().ok());
                    self.goes_on = true;
                }
                Ok((length, _)) => {
                    return Outcome::Failed(String::from_utf8_lossy(&text[..length]).into_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Outcome::Pending,
                Err(error) => return Outcome::Failed(error.to_string()),
            }
        }
    }
}

/// A process that joined a container.
pub(crate) struct Joined {
    pub(crate) pid: i32,
    pub(crate) request_id: RequestId,
    pub(crate) starting: Option<Starting>,
}

/// A container that was started and has not exited.
pub(crate) struct Running {
    pub(crate) id: String,
    pub(crate) pid: i32,
    pub(crate) starting: Option<Starting>,
    /// The file in which the program that starts it writes the process id, if there is such a program.
    pub(crate) pid_file: Option<String>,
    /// The request that waits for that program.
    pub(crate) launching: Option<RequestId>,
    pub(crate) cgroups: Vec<String>,
    outputs: Vec<Output>,
    /// The write end of its input: a pipe, or the terminal.
    input: Option<OwnedFd>,
    input_once: bool,
    has_terminal: bool,
    log: Option<File>,
    log_path: String,
    folder: String,
    cgroup_folders: Vec<String>,
    oom_counter: (String, String),
}

impl Running {
    /// Creates its streams; the other ends are for the process.
    pub(crate) fn prepare(plan: &Container) -> Result<(Running, Streams), String> {
        let log = match plan.log.as_str() {
            "" => None,
            path => Some(log::open(path).during(|| format!("cannot open the log {path:?}"))?),
        };
        let mut running = Running {
            id: plan.id.clone(),
            pid: 0,
            starting: None,
            pid_file: None,
            launching: None,
            cgroups: plan.cgroups.clone(),
            outputs: Vec::new(),
            input: None,
            input_once: plan.stdin_once,
            has_terminal: plan.process.terminal,
            log,
            log_path: plan.log.clone(),
            folder: plan.folder.clone(),
            cgroup_folders: plan.cgroup_folders.clone(),
            oom_counter: plan.oom_counter.clone(),
        };
        if plan.process.terminal {
            return Ok((running, Streams::Terminal));
        }
        let pipe = || kernel::pipe().during(|| "cannot create a pipe".to_owned());
        let ((out, out_end), (err, err_end)) = (pipe()?, pipe()?);
        running.outputs = vec![Output::new(out, "stdout"), Output::new(err, "stderr")];
        let input_end = if plan.stdin {
            let (input_end, input) = pipe()?;
            running.input = Some(input);
            input_end
        } else {
            File::open("/dev/null").map(OwnedFd::from).during(|| "cannot open /dev/null".to_owned())?
        };
        Ok((running, Streams::Pipes([input_end, out_end, err_end])))
    }

    /// Called when its starting process runs; with a terminal, this is its master.
    pub(crate) fn connected(&mut self, terminal: Option<OwnedFd>) -> io::Result<()> {
        self.starting = None;
        if let Some(terminal) = terminal {
            self.outputs = vec![Output::new(terminal.try_clone()?, "stdout")];
            self.input = Some(terminal);
        }
        Ok(())
    }

    /// The process that another program has started, if it has.
    pub(crate) fn launched(&self) -> Option<i32> {
        let text = fs::read_to_string(self.pid_file.as_ref()?).ok()?;
        text.trim().parse().ok().filter(|pid| *pid > 0)
    }

    /// Records that it runs.
    pub(crate) fn started(&self) -> io::Result<()> {
        let started = format!("{} {}\n", self.pid, now());
        fs::write(format!("{}/started", self.folder), started)
    }

    /// Copies output from now on; returns the write end of its input, if it has one.
    pub(crate) fn attach(&mut self, sinks: [OwnedFd; 2]) -> io::Result<Option<OwnedFd>> {
        for (output, sink) in self.outputs.iter_mut().zip(sinks) {
            kernel::set_non_blocking(&sink)?;
            output.attach(sink);
        }
        if self.input_once && !self.has_terminal {
            return Ok(self.input.take());
        }
        self.input.as_ref().map(OwnedFd::try_clone).transpose()
    }

    pub(crate) fn reopen_log(&mut self) -> io::Result<()> {
        if self.log.is_some() {
            self.log = Some(log::open(&self.log_path)?);
        }
        Ok(())
    }

    pub(crate) fn awaited(&self, to: &mut Vec<kernel::Awaited>) {
        for output in &self.outputs {
            to.extend(output.readable().map(|from| kernel::awaited(&from, kernel::POLLIN)));
            to.extend(output.waiting_sinks().map(|sink| kernel::awaited(&sink, kernel::POLLOUT)));
        }
    }

    /// Copies available output; `ready` are the readable descriptors.
    pub(crate) fn pump(&mut self, ready: &[i32]) {
        let log = &mut self.log;
        self.outputs.retain_mut(|output| {
            if output.waiting_sinks().any(|sink| ready.contains(&sink)) {
                output.retry_sinks();
            }
            match output.readable() {
                Some(from) if ready.contains(&from) => output.pump(log.as_mut()),
                _ => true,
            }
        });
    }

    /// Handles its exit: remaining processes are killed, remaining output is logged, and the exit is recorded.
    pub(crate) fn end(mut self, code: i32) -> Exit {
        self.kill_leftovers();
        for output in &mut self.outputs {
            output.drain(self.log.as_mut());
        }
        let exit = Exit { code, out_of_memory: self.ran_out_of_memory(), at: now() };
        let text = format!("{} {} {}\n", exit.code, u8::from(exit.out_of_memory), exit.at);
        let (new, place) = (format!("{}/exit.new", self.folder), format!("{}/exit", self.folder));
        // On a full disk the runtime is still notified.
        let _ = fs::write(&new, text).and_then(|()| fs::rename(new, place));
        for folder in &self.cgroup_folders {
            // A cgroup that is still busy is removed with the container.
            let _ = fs::remove_dir(folder);
        }
        exit
    }

    /// Kills processes that outlive the first one, because they share a process namespace. They may fork as fast as
    /// they are killed.
    fn kill_leftovers(&self) {
        const ROUNDS: usize = 100;
        for file in &self.cgroups {
            let all_at_once = file.replace("cgroup.procs", "cgroup.kill");
            // Only version 2 has it.
            if all_at_once != *file
                && File::options().write(true).open(all_at_once).and_then(|mut f| f.write_all(b"1")).is_ok()
            {
                continue;
            }
            for _ in 0..ROUNDS {
                let mut text = String::new();
                let read = File::open(file).and_then(|mut file| file.read_to_string(&mut text));
                let pids: Vec<i32> =
                    text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid > 0).collect();
                if read.is_err() || pids.is_empty() {
                    break;
                }
                for pid in pids {
                    // Fails if it has just exited.
                    let _ = kernel::kill(pid, kernel::SIGKILL);
                }
            }
        }
    }

    fn ran_out_of_memory(&self) -> bool {
        let (file, name) = &self.oom_counter;
        let text = fs::read_to_string(file).unwrap_or_default();
        let count =
            text.lines().find_map(|line| line.strip_prefix(name.as_str())?.trim().parse::<u64>().ok());
        count.is_some_and(|count| count > 0)
    }
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
