//! Clients of other projects, as tests run them: kubectl, Python.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::http::DEADLINE;
use crate::server::Server;

/// A program with the credentials of a server.
pub struct Tool {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

/// The result of a program.
#[derive(Debug)]
pub struct Output {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
    command_line: String,
}

/// A running program; killed when it is dropped.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    stderr: Receiver<String>,
    command_line: String,
}

impl Tool {
    /// `program` with the administrator's kubeconfig and a home of its own.
    pub fn new(program: impl Into<PathBuf>, server: &Server) -> Tool {
        let home = server.directory().path().join("home");
        std::fs::create_dir_all(&home).expect("a home for tools");
        Tool { program: program.into(), environment: Vec::new() }
            .env("KUBECONFIG", server.kubeconfig())
            .env("HOME", home)
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Sets a variable in its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Tool {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs it until it exits.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Output {
        self.run_with_input(arguments, "")
    }

    /// Runs it until it exits, with text on its stdin.
    #[track_caller]
    pub fn run_with_input<A: AsRef<OsStr>>(&self, arguments: &[A], input: &str) -> Output {
        let command_line = self.command_line(arguments);
        let mut child = self.spawn(arguments, Stdio::piped());
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let input = input.to_owned();
        // A program may exit without reading its input.
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let stdout = drain(child.stdout.take().expect("stdout is piped"));
        let stderr = drain(child.stderr.take().expect("stderr is piped"));
        // Both pipes close when the program exits.
        let (Ok(stdout), Ok(stderr)) = (stdout.recv_timeout(DEADLINE), stderr.recv_timeout(DEADLINE)) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command_line}: did not end in time");
        };
        let status = child.wait().expect("a child can be waited for");
        let _ = writer.join();
        Output { status, stdout, stderr, command_line }
    }

    /// Starts it and leaves it running.
    #[track_caller]
    pub fn start<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Running {
        let mut child = self.spawn(arguments, Stdio::null());
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = drain(child.stderr.take().expect("stderr is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Running { child, lines, stderr, command_line: self.command_line(arguments) }
    }

    #[track_caller]
    fn spawn<A: AsRef<OsStr>>(&self, arguments: &[A], stdin: Stdio) -> Child {
        Command::new(&self.program)
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.command_line(arguments)))
    }

    fn command_line<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        let mut command_line = self.program.display().to_string();
        for argument in arguments {
            command_line.push(' ');
            command_line.push_str(&argument.as_ref().to_string_lossy());
        }
        command_line
    }
}

impl Output {
    /// Its stdout, if it succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        self.exited(0)
    }

    /// Its stdout, if it exited with this code.
    #[track_caller]
    pub fn exited(self, code: i32) -> String {
        assert!(
            self.status.code() == Some(code),
            "{}: {}\nstdout:\n{}\nstderr:\n{}",
            self.command_line,
            self.status,
            self.stdout,
            self.stderr
        );
        self.stdout
    }
}

impl Running {
    /// The next line it prints.
    #[track_caller]
    pub fn line(&self) -> String {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(error) => panic!("{}: no further line: {error}", self.command_line),
        }
    }

    /// Waits until it has exited by itself; the output contains the lines that were not read before.
    #[track_caller]
    pub fn finish(mut self) -> Output {
        let Ok(stderr) = self.stderr.recv_timeout(DEADLINE) else {
            panic!("{}: did not end in time", self.command_line);
        };
        let stdout = self.lines.iter().map(|line| line + "\n").collect();
        let status = self.child.wait().expect("a child can be waited for");
        Output { status, stdout, stderr, command_line: std::mem::take(&mut self.command_line) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}
