//! The protocol between the runtime and a pod's supervisor, and its encoding.
//!
//! A frame is its length, a number and a message; file descriptors are sent with its first byte. The supervisor of
//! an older release may still be running: a change of the messages needs a new [`VERSION`], and a runtime that meets
//! another version may only send `Stop`.
//!
//! This file is part of two programs and uses only the standard library.

/// The version of the protocol, which a supervisor sends first.
pub const VERSION: u32 = 1;

/// Larger than any frame that is sent.
pub const LARGEST_FRAME: usize = 16 << 20;

/// A value with an encoding.
pub trait Wire: Sized {
    fn put(&self, to: &mut Vec<u8>);
    /// Decodes a value; `None` if the bytes are invalid.
    fn get(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$number>::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, u16, u32, i32, u64, i64);

impl Wire for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some(u8::get(from)? != 0)
    }
}

impl Wire for String {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let length = u32::get(from)? as usize;
        let (bytes, rest) = from.split_at_checked(length)?;
        *from = rest;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        self.iter().for_each(|item| item.put(to));
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let length = u32::get(from)? as usize;
        // Every item takes at least a byte, so the allocation is bounded by the input.
        let mut items = Vec::with_capacity(length.min(from.len()));
        for _ in 0..length {
            items.push(T::get(from)?);
        }
        Some(items)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        self.iter().for_each(|item| item.put(to));
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::get(from)? { Some(T::get(from)?) } else { None })
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, to: &mut Vec<u8>) {
        T::put(self, to);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        T::get(from).map(Box::new)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some((A::get(from)?, B::get(from)?))
    }
}

macro_rules! messages {
    ($($(#[$about:meta])* struct $name:ident { $($(#[$note:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$note])* pub $field: $kind,)*
        }

        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: Wire::get(from)?,)* })
            }
        }
    )*};
}

messages! {
    /// The configuration of a pod's sandbox.
    struct Sandbox {
        /// `CLONE_NEW…` of the namespaces that are the pod's own.
        namespaces: u32,
        /// True if containers see each other's processes.
        shares_processes: bool,
        /// Empty to keep the node's.
        hostname: String,
        /// Files of `/proc/sys` and their values.
        sysctls: Vec<(String, String)>,
        /// `cgroup.procs` files to join.
        cgroups: Vec<String>,
        oom_score_adj: i32,
        /// Options of the pod's own shared memory; empty if it uses the node's.
        shared_memory: String,
    }

    /// A mount of a container.
    struct Mount {
        /// A path of the node, a name for virtual file systems, or `shm:` for the pod's shared memory.
        source: String,
        /// Within the container.
        target: String,
        /// Empty for a bind mount.
        kind: String,
        flags: u64,
        options: String,
        /// `MS_PRIVATE`, `MS_SLAVE` or `MS_SHARED`, recursive or not; 0 to keep it.
        propagation: u64,
        /// True for a bind mount that is read-only recursively.
        recursive_read_only: bool,
        /// True if the container starts without it when the node refuses it.
        optional: bool,
    }

    struct Device {
        path: String,
        mode: u32,
        major: u32,
        minor: u32,
        uid: u32,
        gid: u32,
    }

    struct Limit {
        resource: u32,
        soft: u64,
        hard: u64,
    }

    /// A process in a container: its first one, or one that joins later.
    struct Process {
        args: Vec<String>,
        env: Vec<String>,
        cwd: String,
        uid: u32,
        gid: u32,
        groups: Vec<u32>,
        umask: u32,
        terminal: bool,
        /// Bit sets of capabilities.
        bounding: u64,
        effective: u64,
        inheritable: u64,
        ambient: u64,
        no_new_privileges: bool,
        /// A classic BPF program of eight-byte instructions; empty for none.
        seccomp: Vec<u64>,
        /// Flags of the filter.
        seccomp_flags: u32,
        /// Empty for none.
        apparmor: String,
        limits: Vec<Limit>,
        oom_score_adj: i32,
        columns: u16,
        rows: u16,
    }

    /// A container and its first process.
    struct Container {
        id: String,
        /// The folder in which its exit is recorded.
        folder: String,
        /// The path of its root, which exists only in its own mount namespace.
        root: String,
        /// The folder that the paths of lower layers are relative to.
        layers: String,
        /// Options of the overlay mount.
        overlay: String,
        read_only: bool,
        mounts: Vec<Mount>,
        devices: Vec<Device>,
        links: Vec<(String, String)>,
        masked: Vec<String>,
        read_only_paths: Vec<String>,
        /// `cgroup.procs` files to join.
        cgroups: Vec<String>,
        /// Folders to remove when it has ended.
        cgroup_folders: Vec<String>,
        /// True if its own cgroup is the root of its cgroup namespace.
        own_cgroup_namespace: bool,
        /// The file that counts OOM kills, and the name of the field.
        oom_counter: (String, String),
        processes: Processes,
        process: Process,
        /// Empty for none.
        log: String,
        stdin: bool,
        stdin_once: bool,
    }

    /// A container that another program starts: an OCI runtime.
    struct Launch {
        /// The program and its arguments; it exits when the container runs.
        program: Vec<String>,
        /// The file to which it writes the process id of the container's first process.
        pid_file: String,
        /// The path at which the pod's shared memory is mounted for it; empty if the pod uses the node's.
        shared_memory: String,
        /// Of its root only the image is mounted; the rest is left to the program.
        container: Container,
    }

    /// A running container, or one that has just exited.
    struct Standing {
        id: String,
        /// 0 if it has exited.
        pid: u32,
        exit: Option<Exit>,
    }

    struct Exit {
        code: i32,
        out_of_memory: bool,
        /// Nanoseconds since 1970.
        at: u64,
    }
}

/// The process namespace of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Processes {
    /// Its own.
    #[default]
    Own,
    /// The pod's.
    Pod,
    /// The node's.
    Node,
    /// Those of another container of the pod.
    Target(String),
}

macro_rules! choices {
    ($($(#[$about:meta])* enum $name:ident { $($(#[$note:meta])* $number:literal $variant:ident ($($kind:ty),*),)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $($(#[$note])* $variant($($kind),*),)*
        }

        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $(choices!(@pattern $variant one $($kind)*) => choices!(@put to, $number, one $($kind)*),)*
                }
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                Some(match u8::get(from)? {
                    $($number => $name::$variant($(<$kind as Wire>::get(from)?),*),)*
                    _ => return None,
                })
            }
        }
    )*};
    (@pattern $variant:ident $one:ident $kind:ty) => { Self::$variant($one) };
    (@put $to:ident, $number:literal, $one:ident $kind:ty) => {{
        $to.push($number);
        Wire::put($one, $to);
    }};
}

choices! {
    /// Requests to a supervisor. Answers have the number of their request and come in any order.
    enum Request {
        /// Starts a container. Answered when its process runs or has failed to start.
        1 Start(Box<Container>),
        /// Runs a process in a container; its standard streams are passed as descriptors, unless it has a terminal.
        2 Exec(Box<(String, Process)>),
        /// Sends a signal to a container's first process.
        3 Signal((String, i32)),
        /// Sends a signal to the process of the `Exec` with this number.
        4 SignalExec((u32, i32)),
        /// Copies output from now on; two pipes are passed, for standard output and error.
        5 Attach(String),
        6 ReopenLog(String),
        /// Connects to a port of the pod.
        7 Dial(u16),
        /// Lists the running containers.
        8 List(u8),
        /// Ends all processes of the pod and the supervisor.
        9 Stop(u8),
        /// Has another program start a container. Answered when its process runs or has failed to start. Supervisors of
        /// older releases, which do not know this request, belong to pods that do not need it.
        10 Launch(Box<Launch>),
    }

    /// Answers and notifications of a supervisor.
    enum Answer {
        /// Success; a process id where there is one, and the number of passed descriptors.
        1 Done((u32, u8)),
        2 Failed(String),
        3 Standings(Vec<Standing>),
        /// A container has exited. A notification: its number is 0.
        4 Exited(Standing),
        /// The process of an `Exec` has exited; the number is that of the request.
        5 ExecExited(i32),
        /// The first message on a connection.
        6 Hello(u32),
    }
}

impl Wire for Processes {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Processes::Own => to.push(0),
            Processes::Pod => to.push(1),
            Processes::Node => to.push(2),
            Processes::Target(id) => {
                to.push(3);
                id.put(to);
            }
        }
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::get(from)? {
            0 => Processes::Own,
            1 => Processes::Pod,
            2 => Processes::Node,
            3 => Processes::Target(String::get(from)?),
            _ => return None,
        })
    }
}

/// A whole frame: length, number, message.
pub fn frame<T: Wire>(number: u32, message: &T) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    number.put(&mut bytes);
    message.put(&mut bytes);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The peer sent an invalid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Takes the first frame off the received bytes; `None` if it is incomplete.
pub fn take_frame<T: Wire>(received: &mut Vec<u8>) -> Result<Option<(u32, T)>, Malformed> {
    let Some(length) = received.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize) else {
        return Ok(None);
    };
    if length > LARGEST_FRAME {
        return Err(Malformed);
    }
    let Some(mut body) = received.get(4..4 + length) else { return Ok(None) };
    let read = u32::get(&mut body).and_then(|number| Some((number, T::get(&mut body)?)));
    if read.is_none() || !body.is_empty() {
        return Err(Malformed);
    }
    received.drain(..4 + length);
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Request {
        let process =
            Process { args: vec!["run".to_owned()], seccomp: vec![7, u64::MAX], ..Process::default() };
        Request::Start(Box::new(Container {
            id: "one".to_owned(),
            processes: Processes::Target("two".to_owned()),
            links: vec![("a".to_owned(), "b".to_owned())],
            process,
            ..Container::default()
        }))
    }

    #[test]
    fn written_frames_are_read() {
        let mut received = frame(7, &start());
        received.extend(frame(8, &Request::Dial(80)));
        assert_eq!(take_frame(&mut received), Ok(Some((7, start()))));
        assert_eq!(take_frame(&mut received), Ok(Some((8, Request::Dial(80)))));
        assert_eq!(take_frame::<Request>(&mut received), Ok(None));
    }

    #[test]
    fn invalid_requests_are_refused() {
        let whole = frame(7, &start());
        for cut in 0..whole.len() {
            assert_eq!(take_frame::<Request>(&mut whole[..cut].to_vec()), Ok(None), "cut at {cut}");
        }
        for damage in
            [vec![255, 255, 255, 255], vec![5, 0, 0, 0, 1, 0, 0, 0, 99], vec![4, 0, 0, 0, 1, 0, 0, 0]]
        {
            assert_eq!(take_frame::<Request>(&mut damage.clone()), Err(Malformed), "{damage:?}");
        }
        let mut longer = frame(1, &Request::Dial(1));
        longer[0] += 1;
        longer.push(0);
        assert_eq!(take_frame::<Request>(&mut longer), Err(Malformed));
    }
}
