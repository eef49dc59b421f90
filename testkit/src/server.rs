//! A `corten server` as a child process.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use corten_pki::{Credentials, parse_kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::binary::corten_binary;
use crate::client::{Client, Identity};
use crate::http::DEADLINE;

/// The text that a server prints when it is ready.
const READY: &str = "Try:";

/// Most tests are about a single client, without controllers. A test that sets components or nodes itself gets exactly
/// those.
const WITHOUT_CONTROLLERS: &str = "--disable=agent,controller-manager,dns,scheduler";

/// Without controllers there are no service accounts for pods: most tests need pods without them.
/// A test that sets admission plugins itself gets exactly those.
const WITHOUT_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// Kubelet flags of servers and agents in tests, which must pass on nearly full disks too; tests of full disks set their
/// own thresholds.
pub const ON_FULL_DISKS: [&str; 6] = [
    "--kubelet-arg",
    "eviction-hard=nodefs.available<1Mi",
    "--kubelet-arg",
    "image-gc-high-threshold=100",
    "--kubelet-arg",
    "image-gc-low-threshold=99",
];

/// A server's data directory; removed when the last handle is dropped.
#[derive(Clone)]
pub struct DataDirectory(Arc<TempDir>);

/// A running server that is ready.
pub struct Server {
    child: Child,
    messages: Messages,
    directory: DataDirectory,
    kubeconfig: PathBuf,
    arguments: Vec<OsString>,
    credentials: Credentials,
    client: Client,
}

/// A server that exited instead of becoming ready.
#[derive(Debug)]
pub struct StartFailure {
    /// Its exit status; `None` if it hung and was killed.
    pub status: Option<ExitStatus>,
    /// Its output.
    pub messages: String,
}

/// The output of a server, line by line.
struct Messages {
    text: Arc<Mutex<String>>,
    events: Receiver<Event>,
}

enum Event {
    Ready,
    End,
}

impl DataDirectory {
    /// An empty directory.
    pub fn new() -> DataDirectory {
        use std::os::unix::fs::PermissionsExt;
        let mut builder = tempfile::Builder::new();
        // As administrators create it, with files in it before the first start.
        builder.prefix("corten-test-").permissions(std::fs::Permissions::from_mode(0o700));
        DataDirectory(Arc::new(builder.tempdir().expect("a temporary directory")))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Default for DataDirectory {
    fn default() -> Self {
        DataDirectory::new()
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the server ended ({status}) before it was ready:\n{}", self.messages),
            None => write!(f, "the server was not ready in time:\n{}", self.messages),
        }
    }
}

impl Server {
    /// A new, empty cluster.
    #[track_caller]
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    /// A new, empty cluster with more arguments.
    #[track_caller]
    pub fn start_with(arguments: &[&str]) -> Server {
        match Server::try_start(&DataDirectory::new(), arguments) {
            Ok(server) => server,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// A cluster on a data directory, which may have the data of an earlier one.
    pub fn try_start(directory: &DataDirectory, arguments: &[&str]) -> Result<Server, StartFailure> {
        let arguments = arguments.iter().map(OsString::from).collect();
        Server::spawn(directory.clone(), directory.path().join("admin.kubeconfig"), arguments)
    }

    /// A cluster that writes its kubeconfig elsewhere than into its data directory.
    pub fn try_start_with_kubeconfig(
        directory: &DataDirectory,
        kubeconfig: &Path,
    ) -> Result<Server, StartFailure> {
        let arguments = vec!["--write-kubeconfig".into(), kubeconfig.into()];
        Server::spawn(directory.clone(), kubeconfig.to_owned(), arguments)
    }

    fn spawn(
        directory: DataDirectory,
        kubeconfig: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<Server, StartFailure> {
        let says = |what: &str| arguments.iter().any(|argument| argument.to_string_lossy().contains(what));
        let parts = ["--simulated-nodes", "--node-name", "--disable="];
        let alone = !parts.into_iter().any(says) && !arguments.contains(&"--disable".into());
        let chosen = says("admission-plugins") || !alone;
        let mut child = Command::new(corten_binary())
            .arg("server")
            .arg("--data-dir")
            .arg(directory.path())
            .args(["--bind-address", "127.0.0.1", "--secure-port", "0"])
            .args(alone.then_some(WITHOUT_CONTROLLERS))
            .args((!chosen).then_some(WITHOUT_ACCOUNTS))
            .args(ON_FULL_DISKS)
            .args(&arguments)
            .env("CORTEN_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server's process starts");
        let messages = Messages::follow(child.stderr.take().expect("stderr is piped"));
        match messages.events.recv_timeout(DEADLINE) {
            Ok(Event::Ready) => {}
            Ok(Event::End) => {
                let status = child.wait().ok();
                return Err(StartFailure { status, messages: messages.text() });
            }
            Err(_) => {
                end(&mut child);
                return Err(StartFailure { status: None, messages: messages.text() });
            }
        }
        let text = std::fs::read_to_string(&kubeconfig).expect("a ready server has written its kubeconfig");
        let credentials = parse_kubeconfig(&text).expect("the kubeconfig is a good one");
        let client = Client::new(&credentials).expect("the kubeconfig's certificates are good");
        Ok(Server { child, messages, directory, kubeconfig, arguments, credentials, client })
    }

    /// The administrator's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client with another identity than the administrator's.
    pub fn client_as(&self, identity: Identity<'_>) -> Client {
        Client::with_identity(&self.credentials, identity).expect("the identity's certificates are good")
    }

    /// The server's process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// `https://host:port`.
    pub fn url(&self) -> &str {
        &self.credentials.server
    }

    /// The credentials of the administrator's kubeconfig.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Its data directory.
    pub fn directory(&self) -> &DataDirectory {
        &self.directory
    }

    /// Its output so far.
    pub fn messages(&self) -> String {
        self.messages.text()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it.
    pub fn kill_9(&mut self) {
        end(&mut self.child);
    }

    /// Kills it if it still runs, and starts it again on the same data.
    #[track_caller]
    pub fn restart(&mut self) {
        end(&mut self.child);
        match Server::spawn(self.directory.clone(), self.kubeconfig.clone(), self.arguments.clone()) {
            Ok(server) => *self = server,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// Sends SIGTERM.
    pub fn signal_terminate(&self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // The child is reaped by this handle only, so its id still belongs to it.
        kill_process(id.expect("a child has an id"), Signal::TERM).expect("a child can be signalled");
    }

    /// Waits until it has exited by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let limit = Instant::now() + DEADLINE;
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            match self.messages.events.recv_timeout(left) {
                Ok(Event::Ready) => {}
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => {
                    return self.child.wait().expect("a child can be waited for");
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the server did not stop in time:\n{}", self.messages())
                }
            }
        }
    }

    /// Sends SIGTERM and waits until it has exited.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal_terminate();
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
        if std::thread::panicking() {
            eprintln!("the server's messages:\n{}", self.messages());
        }
    }
}

impl Messages {
    fn follow(stderr: impl Read + Send + 'static) -> Messages {
        let text = Arc::new(Mutex::new(String::new()));
        let (sender, events) = channel();
        let shared = text.clone();
        std::thread::spawn(move || copy(stderr, &shared, &sender));
        Messages { text, events }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn copy(stderr: impl Read, text: &Mutex<String>, events: &Sender<Event>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        let ready = line.starts_with(READY);
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&line);
        text.push('\n');
        drop(text);
        if ready {
            // The receiver may be gone; the text is still kept.
            let _ = events.send(Event::Ready);
        }
    }
    let _ = events.send(Event::End);
}

fn end(child: &mut Child) {
    // Both fail only if it has ended and been waited for already.
    let _ = child.kill();
    let _ = child.wait();
}
