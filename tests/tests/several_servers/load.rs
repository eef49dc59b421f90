//! The load: clients that read, write, list and watch through all servers, and record what they see.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use corten_e2e::eventually;
use corten_testkit::{
    Action, Client, Events, History, List, Operation, Outcome, Request, Response, Seen, State,
};
use serde_json::{Value, json};

use crate::cluster::{COUNT, Cluster};

const NAMESPACES: &str = "/api/v1/namespaces";
const MAPS: &str = "/api/v1/namespaces/load/configmaps";
const WRITERS: usize = 4;
const KEYS: usize = 6;
/// The number of requests of a client after which it moves on to other keys, so that histories stay short.
const ROUND: usize = 60;
/// The time that a client waits for a response.
const PATIENCE: Duration = Duration::from_secs(4);
/// The pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(15);

/// The running clients.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    history: History,
    stop: AtomicBool,
    /// The revision up to which each watcher has seen everything, and must see before it ends.
    watched: [AtomicU64; COUNT],
    last: AtomicU64,
    acknowledged: [AtomicUsize; COUNT],
}

fn clients(cluster: &Cluster) -> Vec<Client> {
    (0..COUNT).map(|server| cluster.client(server).with_patience(PATIENCE)).collect()
}

impl Load {
    pub(crate) fn start(cluster: &Cluster) -> Load {
        let setup = clients(cluster);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "load"}});
        let begin = cluster.outside.run(|| {
            setup[0].post(NAMESPACES, &namespace).expect_status(201);
            // Every server knows the namespace, and no other object of the kind is created later.
            for client in &setup {
                eventually("the root certificates are there", || names(client) == ["kube-root-ca.crt"]);
            }
            setup[0].get(MAPS).expect(200)
        });
        let begin = revision(&begin);
        let shared = Arc::new(Shared {
            history: History::default(),
            stop: AtomicBool::new(false),
            watched: std::array::from_fn(|_| AtomicU64::new(begin)),
            last: AtomicU64::new(u64::MAX),
            acknowledged: Default::default(),
        });
        let mut threads = Vec::new();
        for number in 0..WRITERS {
            let (shared, clients, machine) = (shared.clone(), clients(cluster), cluster.outside.again());
            let mut writer = Writer { number, shared, clients, rolls: number as u64, count: 0 };
            threads.push(std::thread::spawn(move || machine.run(|| writer.run())));
        }
        for first in 0..COUNT {
            let (shared, clients, machine) = (shared.clone(), clients(cluster), cluster.outside.again());
            let watcher = Watcher { number: first, shared, clients, begin };
            threads.push(std::thread::spawn(move || machine.run(|| watcher.run())));
        }
        Load { shared, threads }
    }

    /// The number of writes that a server has acknowledged.
    pub(crate) fn acknowledged(&self, server: usize) -> usize {
        self.shared.acknowledged[server].load(Ordering::Relaxed)
    }

    /// Ends the load once every watcher has seen every write, and adds a last list of each server.
    pub(crate) fn finish(self, cluster: &Cluster) -> Seen {
        let shared = &self.shared;
        shared.stop.store(true, Ordering::Relaxed);
        let (writers, watchers) =
            self.threads.into_iter().enumerate().partition::<Vec<_>, _>(|(n, _)| *n < WRITERS);
        let join = |threads: Vec<(usize, JoinHandle<()>)>| {
            for (_, thread) in threads {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        };
        join(writers);
        let clients = clients(cluster);
        cluster.outside.run(|| {
            // A write that was sent long ago must not come after the last list.
            let end = clients[0]
                .post(MAPS, &json!({"metadata": {"name": "end"}, "data": {"value": "end"}}))
                .expect(201);
            record_write(shared, 0, "end", None, Some("end".to_owned()), shared.history.now(), &end);
            for client in &clients {
                list(shared, client);
            }
            shared.last.store(revision(&end), Ordering::Relaxed);
            for watched in &shared.watched {
                eventually("watchers see the last write", || {
                    watched.load(Ordering::Relaxed) >= revision(&end)
                });
            }
        });
        join(watchers);
        shared.history.seen()
    }
}

/// The names of the objects, without a result if the server does not answer.
fn names(client: &Client) -> Vec<String> {
    let Ok(answer) = client.try_send(&Request::new("GET", MAPS)) else { return Vec::new() };
    let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

/// The value of an object of the load.
fn value(object: &Value) -> Option<String> {
    object["data"]["value"].as_str().map(str::to_owned)
}

/// Records an acknowledged write that a test made.
fn record_write(
    shared: &Shared,
    server: usize,
    key: &str,
    from: State,
    to: State,
    sent: Duration,
    object: &Value,
) {
    let action = Action::Write { from, to, outcome: Outcome::Done };
    let (revision, answered) = (Some(revision(object)), shared.history.now());
    let operation = Operation { key: key.to_owned(), action, revision, sent, answered };
    shared.history.record(|seen| seen.operations.push(operation));
    shared.acknowledged[server].fetch_add(1, Ordering::Relaxed);
}

fn list(shared: &Shared, client: &Client) {
    let sent = shared.history.now();
    let Some(list) = answered(client, &Request::new("GET", MAPS)).filter(|answer| answer.status == 200)
    else {
        return;
    };
    let list = list.json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let item =
        |item: &Value| Some((item["metadata"]["name"].as_str()?.to_owned(), (revision(item), value(item)?)));
    let items: BTreeMap<String, (u64, String)> = items.iter().filter_map(item).collect();
    let list = List { revision: revision(&list), items, sent };
    shared.history.record(|seen| seen.lists.push(list));
}

/// The response, if there is one.
fn answered(client: &Client, request: &Request) -> Option<Response> {
    client.try_send(request).ok()
}

/// A client that reads and writes, each time through another server.
struct Writer {
    number: usize,
    shared: Arc<Shared>,
    clients: Vec<Client>,
    rolls: u64,
    count: usize,
}

impl Writer {
    fn run(&mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.count += 1;
            let key = format!("k{}-{}", self.count / ROUND, self.roll(KEYS));
            let server = self.roll(COUNT);
            match self.roll(8) {
                0 => list(&self.shared, &self.clients[server]),
                _ => self.change(&key),
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.rolls =
            self.rolls.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.rolls >> 33) as usize % sides
    }

    /// Reads a key through one server and changes it through another.
    fn change(&mut self, key: &str) {
        let (reader, writer) = (self.roll(COUNT), self.roll(COUNT));
        let Some(current) = self.read(reader, key) else { return };
        let new = format!("{}-{}", self.number, self.count);
        let path = format!("{MAPS}/{key}");
        let body = |version: Option<&Value>| {
            let mut object = json!({"metadata": {"name": key}, "data": {"value": new.clone()}});
            if let Some(version) = version {
                object["metadata"]["resourceVersion"] = version.clone();
            }
            object
        };
        let Some(object) = current else {
            let request = Request::new("POST", MAPS).json(&body(None));
            return self.write(writer, key, &request, (None, Some(new)));
        };
        let (from, version) = (value(&object), &object["metadata"]["resourceVersion"]);
        if self.roll(4) == 0 {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": version}});
            let request = Request::new("DELETE", path).json(&options);
            self.write(writer, key, &request, (from, None));
        } else {
            let request = Request::new("PUT", path).json(&body(Some(version)));
            self.write(writer, key, &request, (from, Some(new)));
        }
    }

    /// Reads a key. Returns the object, if there is one; nothing if the server did not answer.
    fn read(&self, server: usize, key: &str) -> Option<Option<Value>> {
        let sent = self.shared.history.now();
        let answer = answered(&self.clients[server], &Request::new("GET", format!("{MAPS}/{key}")))?;
        let object = match answer.status {
            200 => Some(answer.json()),
            404 => None,
            _ => return None,
        };
        let state = object.as_ref().and_then(value);
        let answered = self.shared.history.now();
        let operation =
            Operation { key: key.to_owned(), action: Action::Read(state), revision: None, sent, answered };
        self.shared.history.record(|seen| seen.operations.push(operation));
        Some(object)
    }

    fn write(&self, server: usize, key: &str, request: &Request, (from, to): (State, State)) {
        let sent = self.shared.history.now();
        let answer = answered(&self.clients[server], request);
        let outcome = match answer.as_ref().map(|answer| answer.status) {
            Some(200 | 201) => Outcome::Done,
            // It exists, is another version, or is gone.
            Some(404 | 409) => Outcome::Refused,
            _ => Outcome::Unknown,
        };
        let answer = answer.filter(|_| outcome == Outcome::Done);
        // A deletion's response has no revision.
        let revision = answer.filter(|_| to.is_some()).map(|answer| revision(&answer.json()));
        let action = Action::Write { from, to, outcome };
        let answered = self.shared.history.now();
        let operation = Operation { key: key.to_owned(), action, revision, sent, answered };
        self.shared.history.record(|seen| seen.operations.push(operation));
        if outcome == Outcome::Done {
            self.shared.acknowledged[server].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A client that watches, and resumes at the next server when its watch ends.
struct Watcher {
    number: usize,
    shared: Arc<Shared>,
    clients: Vec<Client>,
    begin: u64,
}

impl Watcher {
    fn run(&self) {
        let mut seen = Events { after: self.begin, events: Vec::new() };
        let (mut last, mut server) = (self.begin, self.number);
        while last < self.shared.last.load(Ordering::Relaxed) {
            self.follow(server % COUNT, &mut last, &mut seen);
            server += 1;
            std::thread::sleep(PAUSE);
        }
        self.shared.history.record(|all| all.watches.push(seen));
    }

    /// Watches one server until its watch ends or everything has been seen.
    fn follow(&self, server: usize, last: &mut u64, seen: &mut Events) {
        let path = format!("{MAPS}?watch=true&resourceVersion={last}");
        let mut watch = match self.clients[server].try_watch(path) {
            Ok(Ok(watch)) => watch,
            // Nothing is compacted for as long as a test takes.
            Ok(Err(refusal)) => {
                assert_ne!(refusal.status, 410, "the watch cannot be resumed: {}", refusal.text());
                return;
            }
            Err(_) => return,
        };
        while *last < self.shared.last.load(Ordering::Relaxed) {
            let Ok(event) = watch.try_next() else { return };
            let object = &event["object"];
            let state = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => value(object),
                Some("DELETED") => None,
                // A server may end a watch with an error.
                _ => return,
            };
            *last = revision(object);
            let key = object["metadata"]["name"].as_str().expect("objects have names").to_owned();
            seen.events.push((*last, key, state));
            self.shared.watched[self.number].store(*last, Ordering::Relaxed);
        }
    }
}
