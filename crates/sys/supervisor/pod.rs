//! The supervisor's event loop.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use crate::child::{self, Company, Entrance, Never, Streams, While, words};
use crate::connection::Connection;
use crate::kernel::{self, Awaited, CLONE_NEWPID, SIGKILL};
use crate::running::{Joined, Outcome, RequestId, Running, Starting};
use crate::wire::{Answer, Container, Launch, Process, Processes, Request, Standing};

pub(crate) struct Pod {
    listener: UnixListener,
    signals: OwnedFd,
    /// The node's mount namespace, from which those of containers are created.
    node_mounts: OwnedFd,
    /// The init process of the shared process namespace.
    init: Option<i32>,
    connections: Vec<Connection>,
    next_connection: u64,
    running: Vec<Running>,
    joined: Vec<Joined>,
    /// Exited processes, with their codes, that are not yet assigned to a container.
    strays: Vec<(i32, i32)>,
    /// The requests that wait for the end of all containers.
    stopping: Option<Vec<RequestId>>,
}

/// Maximum time to connect to a port of the pod.
const DIAL: Duration = Duration::from_secs(2);

impl Pod {
    pub(crate) fn new(
        listener: UnixListener,
        signals: OwnedFd,
        node_mounts: OwnedFd,
        init: Option<i32>,
    ) -> Pod {
        Pod {
            listener,
            signals,
            node_mounts,
            init,
            connections: Vec::new(),
            next_connection: 0,
            running: Vec::new(),
            joined: Vec::new(),
            strays: Vec::new(),
            stopping: None,
        }
    }

    pub(crate) fn run(&mut self) {
        while !self.is_over() {
            let mut awaited = self.awaited();
            if kernel::wait_for(&mut awaited, None).is_err() {
                return;
            }
            let ready: Vec<i32> =
                awaited.iter().filter(|one| one.found != 0).map(|one| one.descriptor).collect();
            self.accept();
            self.listen();
            for running in &mut self.running {
                running.pump(&ready);
            }
            self.finish_starts();
            if kernel::take_signals(&self.signals) {
                self.stop(None);
            }
            self.reap();
        }
        for request_id in self.stopping.take().into_iter().flatten() {
            self.answer(request_id, &Answer::Done((0, 0)), Vec::new());
        }
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some() && self.running.is_empty() && self.joined.is_empty()
    }

    fn awaited(&self) -> Vec<Awaited> {
        let mut awaited = vec![
            kernel::awaited(&self.listener, kernel::POLLIN),
            kernel::awaited(&self.signals, kernel::POLLIN),
        ];
        awaited.extend(self.connections.iter().map(Connection::awaited));
        awaited.extend(
            self.running.iter().filter_map(|running| running.starting.as_ref()).map(Starting::awaited),
        );
        awaited
            .extend(self.joined.iter().filter_map(|joined| joined.starting.as_ref()).map(Starting::awaited));
        self.running.iter().for_each(|running| running.awaited(&mut awaited));
        awaited
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.next_connection += 1;
            self.connections.push(Connection::new(self.next_connection, stream));
        }
    }

    fn listen(&mut self) {
        let mut requests = Vec::new();
        self.connections.retain_mut(|connection| {
            connection.flush();
            let Some(asked) = connection.requests() else { return false };
            requests.extend(
                asked
                    .into_iter()
                    .map(|(number, request)| (RequestId { connection: connection.number, number }, request)),
            );
            true
        });
        for (request_id, request) in requests {
            if let Err(error) = self.serve(request_id, request) {
                self.answer(request_id, &Answer::Failed(error), Vec::new());
            }
        }
    }

    fn serve(&mut self, request_id: RequestId, request: Request) -> Result<(), String> {
        let mut passed = Vec::new();
        match request {
            Request::Start(plan) => return self.start(request_id, &plan),
            Request::Launch(launch) => return self.launch(request_id, &launch),
            Request::Exec(asked) => return self.exec(request_id, &asked.0, &asked.1),
            Request::Stop(_) => {
                self.stop(Some(request_id));
                return Ok(());
            }
            Request::List(_) => {
                let standing = |running: &Running| Standing {
                    id: running.id.clone(),
                    pid: running.pid as u32,
                    exit: None,
                };
                let runs = |running: &&Running| running.starting.is_none() && running.launching.is_none();
                let all = self.running.iter().filter(runs);
                let answer = Answer::Standings(all.map(standing).collect());
                self.answer(request_id, &answer, passed);
                return Ok(());
            }
            Request::Signal((id, signal)) => {
                let pid = self.find(&id)?.pid;
                kernel::kill(pid, signal).during(|| "cannot send the signal".to_owned())?;
            }
            Request::SignalExec((number, signal)) => {
                let wanted = RequestId { connection: request_id.connection, number };
                if let Some(joined) = self.joined.iter().find(|joined| joined.request_id == wanted) {
                    kernel::kill(joined.pid, signal).during(|| "cannot send the signal".to_owned())?;
                }
            }
            Request::Attach(id) => {
                let sinks = self.passed::<2>(request_id)?;
                let input = self.find(&id)?.attach(sinks);
                passed.extend(input.during(|| "cannot attach to the container".to_owned())?);
            }
            Request::ReopenLog(id) => {
                self.find(&id)?.reopen_log().during(|| "cannot reopen the log".to_owned())?;
            }
            Request::Dial(port) => passed.push(dial(port).map_err(|error| words(&error))?),
        }
        self.answer(request_id, &Answer::Done((0, passed.len() as u8)), passed);
        Ok(())
    }

    fn find(&mut self, id: &str) -> Result<&mut Running, String> {
        let found = self.running.iter_mut().find(|running| running.id == id);
        found.ok_or_else(|| "the container is not running".to_owned())
    }

    /// A container whose own program runs. One that is being set up still has the privileges to do so.
    fn find_started(&mut self, id: &str) -> Result<&mut Running, String> {
        let found = self.find(id)?;
        match found.starting.is_none() && found.launching.is_none() {
            true => Ok(found),
            false => Err("the container is not running".to_owned()),
        }
    }

    fn passed<const N: usize>(&mut self, request_id: RequestId) -> Result<[OwnedFd; N], String> {
        let connection =
            self.connections.iter_mut().find(|connection| connection.number == request_id.connection);
        connection.and_then(Connection::take_passed).ok_or_else(|| "no descriptors came along".to_owned())
    }

    fn answer(&mut self, request_id: RequestId, answer: &Answer, passed: Vec<OwnedFd>) {
        let connection =
            self.connections.iter_mut().find(|connection| connection.number == request_id.connection);
        if let Some(connection) = connection {
            connection.send(request_id.number, answer, passed);
        }
    }

    fn start(&mut self, request_id: RequestId, plan: &Container) -> Result<(), String> {
        if self.stopping.is_some() {
            return Err("the pod is stopping".to_owned());
        }
        let company = match &plan.processes {
            Processes::Own | Processes::Node => None,
            Processes::Pod => {
                let init = self.init.ok_or("the pod shares no processes")?;
                Some(Company { processes: namespace(init, "pid")?, mounts: None })
            }
            Processes::Target(id) => {
                let target = self.find_started(id)?.pid;
                Some(Company {
                    processes: namespace(target, "pid")?,
                    mounts: Some(namespace(target, "mnt")?),
                })
            }
        };
        let own = if plan.processes == Processes::Own { CLONE_NEWPID } else { 0 };
        let (mut running, streams) = Running::prepare(plan)?;
        let (status, theirs) = status_sockets()?;
        let node = &self.node_mounts;
        let run = |status: &OwnedFd| child::container(plan, streams, node, company.as_ref(), status);
        running.pid = spawn(own, &theirs, run)?;
        running.starting = Some(Starting::new(request_id, status, running.pid));
        self.running.push(running);
        Ok(())
    }

    /// Has another program start a container.
    fn launch(&mut self, request_id: RequestId, launch: &Launch) -> Result<(), String> {
        if self.stopping.is_some() {
            return Err("the pod is stopping".to_owned());
        }
        let (mut running, streams) = Running::prepare(&launch.container)?;
        let (status, theirs) = status_sockets()?;
        let node = &self.node_mounts;
        let run = |status: &OwnedFd| child::launcher(launch, streams, node, status);
        running.pid = spawn(0, &theirs, run)?;
        running.starting = Some(Starting::new(request_id, status, running.pid));
        running.pid_file = Some(launch.pid_file.clone());
        self.running.push(running);
        Ok(())
    }

    /// The program that starts a container has exited: from now on the container's own process counts.
    fn take_over(&mut self, place: usize, request_id: RequestId, code: i32) {
        let running = &mut self.running[place];
        let Some(pid) = running.launched().filter(|_| code == 0) else {
            let running = self.running.swap_remove(place);
            running.end(code);
            let failure = format!("the runtime exited with status {code}");
            return self.answer(request_id, &Answer::Failed(failure), Vec::new());
        };
        running.pid = pid;
        let answer = match running.started() {
            Ok(()) => Answer::Done((pid as u32, 0)),
            Err(error) => Answer::Failed(words(&error)),
        };
        self.answer(request_id, &answer, Vec::new());
        if let Some(stray) = self.strays.iter().position(|(stray, _)| *stray == pid) {
            let (_, code) = self.strays.swap_remove(stray);
            self.ended(place, code);
        }
    }

    fn exec(&mut self, request_id: RequestId, id: &str, process: &Process) -> Result<(), String> {
        let streams =
            if process.terminal { Streams::Terminal } else { Streams::Pipes(self.passed(request_id)?) };
        let container = self.find_started(id)?;
        let (pid, cgroup_files) = (container.pid, container.cgroups.clone());
        let entrance = Entrance {
            mounts: namespace(pid, "mnt")?,
            cgroups: namespace(pid, "cgroup")?,
            processes: namespace(pid, "pid")?,
            cgroup_files,
        };
        let (status, theirs) = status_sockets()?;
        let run = |status: &OwnedFd| child::joiner(process, &entrance, streams, status);
        let pid = spawn(0, &theirs, run)?;
        let starting = Some(Starting::new(request_id, status, pid));
        self.joined.push(Joined { pid, request_id, starting });
        Ok(())
    }

    /// Answers finished starts. A failed start is answered when its process is gone.
    fn finish_starts(&mut self) {
        let mut answers = Vec::new();
        for running in &mut self.running {
            let Some(starting) = &mut running.starting else { continue };
            let request_id = starting.request_id;
            let outcome = starting.outcome();
            running.pid = starting.take_process().unwrap_or(running.pid);
            match outcome {
                Outcome::Pending => {}
                Outcome::Failed(error) => {
                    starting.failure = Some(error);
                    end(running.pid);
                }
                Outcome::Started(terminal) if running.pid_file.is_some() => {
                    running.launching = Some(request_id);
                    if let Err(error) = running.connected(terminal) {
                        answers.push((request_id, Answer::Failed(words(&error)), Vec::new()));
                    }
                }
                Outcome::Started(terminal) => {
                    let answer = match running.connected(terminal).and_then(|()| running.started()) {
                        Ok(()) => Answer::Done((running.pid as u32, 0)),
                        Err(error) => Answer::Failed(words(&error)),
                    };
                    answers.push((request_id, answer, Vec::new()));
                }
            }
        }
        for joined in &mut self.joined {
            let Some(starting) = &mut joined.starting else { continue };
            let outcome = starting.outcome();
            joined.pid = starting.take_process().unwrap_or(joined.pid);
            match outcome {
                Outcome::Pending => {}
                Outcome::Failed(error) => {
                    answers.push((joined.request_id, Answer::Failed(error), Vec::new()));
                    joined.starting = None;
                    end(joined.pid);
                }
                Outcome::Started(terminal) => {
                    let answer = Answer::Done((joined.pid as u32, u8::from(terminal.is_some())));
                    answers.push((joined.request_id, answer, terminal.into_iter().collect()));
                    joined.starting = None;
                }
            }
        }
        for (request_id, answer, passed) in answers {
            self.answer(request_id, &answer, passed);
        }
    }

    fn reap(&mut self) {
        while let Some((pid, code)) = kernel::reap() {
            // Messages from before its exit count.
            self.finish_starts();
            if let Some(place) = self.running.iter().position(|running| running.pid == pid) {
                match self.running[place].launching.take() {
                    Some(request_id) => self.take_over(place, request_id, code),
                    None => self.ended(place, code),
                }
            } else if let Some(place) = self.joined.iter().position(|joined| joined.pid == pid) {
                let joined = self.joined.swap_remove(place);
                self.answer(joined.request_id, &Answer::ExecExited(code), Vec::new());
            } else if self.running.iter().any(|running| running.launching.is_some()) {
                self.strays.push((pid, code));
            }
        }
        if self.running.iter().all(|running| running.launching.is_none()) {
            self.strays.clear();
        }
    }

    fn ended(&mut self, place: usize, code: i32) {
        let mut running = self.running.swap_remove(place);
        if let Some(starting) = running.starting.take() {
            let why = starting.failure.unwrap_or_else(|| format!("it exited with status {code}"));
            return self.answer(starting.request_id, &Answer::Failed(why), Vec::new());
        }
        let id = running.id.clone();
        let exit = running.end(code);
        self.broadcast(&Answer::Exited(Standing { id, pid: 0, exit: Some(exit) }));
    }

    fn broadcast(&mut self, answer: &Answer) {
        for connection in &mut self.connections {
            connection.send(0, answer, Vec::new());
        }
    }

    fn stop(&mut self, request_id: Option<RequestId>) {
        self.stopping.get_or_insert_default().extend(request_id);
        let pids =
            self.running.iter().map(|running| running.pid).chain(self.joined.iter().map(|joined| joined.pid));
        pids.for_each(end);
    }
}

/// The socket on which a starting process reports, and that process's end of it.
fn status_sockets() -> Result<(OwnedFd, OwnedFd), String> {
    let sockets = kernel::socket_pair().and_then(|(ours, theirs)| {
        kernel::name_senders(&ours)?;
        Ok((ours, theirs))
    });
    sockets.during(|| "cannot create a socket".to_owned())
}

/// Kills a process that reported a failure: it exits by itself, unless a container that traces it reported in its place.
fn end(pid: i32) {
    // Fails if it has already exited.
    let _ = kernel::kill(pid, SIGKILL);
}

/// A namespace of a process.
fn namespace(pid: i32, name: &str) -> Result<OwnedFd, String> {
    let path = format!("/proc/{pid}/ns/{name}");
    File::open(&path).map(OwnedFd::from).during(|| format!("cannot open {path}"))
}

/// Starts a process; `run` reports on `status` and never returns.
fn spawn(namespaces: u64, status: &OwnedFd, run: impl FnOnce(&OwnedFd) -> Never) -> Result<i32, String> {
    let forked = kernel::fork(namespaces);
    if let Ok(0) = forked {
        let Err(error) = run(status);
        child::report(status, error.as_bytes(), &[]);
        kernel::exit(1);
    }
    forked.during(|| "cannot start a process".to_owned())
}

fn dial(port: u16) -> io::Result<OwnedFd> {
    let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, DIAL);
    let stream = connect((Ipv4Addr::LOCALHOST, port).into()).or_else(|error| {
        // The error of the first address is the one that users expect.
        connect((Ipv6Addr::LOCALHOST, port).into()).map_err(|_| error)
    })?;
    stream.set_nonblocking(true)?;
    Ok(stream.into())
}
