//! Records SystemOOM events when the kernel kills a process because the whole machine is out of memory. Kills within
//! a container's own limit are reported in the container's status.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use tokio::sync::mpsc;

use crate::api_server::ApiServer;

const KERNEL_LOG: &str = "/dev/kmsg";
/// The maximum size of a record of the kernel log.
const RECORD: usize = 8192;
/// The maximum number of kills that wait to be recorded.
const AHEAD: usize = 16;

/// A killed process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Victim {
    name: String,
    pid: u32,
}

/// Records an event for each kill, for good. Without access to the kernel log no events are recorded.
pub(crate) async fn run(api: ApiServer) {
    let mut victims = match read_kernel_log() {
        Ok(victims) => victims,
        Err(err) => {
            return tracing::info!(%err, "cannot read kernel log; SystemOOM events are not recorded");
        }
    };
    while let Some(Victim { name, pid }) = victims.recv().await {
        let text = format!("System OOM encountered, victim process: {name}, pid: {pid}");
        api.record_node_event(true, "SystemOOM", text);
    }
}

/// Reads the kernel log in a thread of its own, which blocks in the kernel.
fn read_kernel_log() -> io::Result<mpsc::Receiver<Victim>> {
    let mut log = File::open(KERNEL_LOG)?;
    // Kills before the kubelet started are not recorded.
    log.seek(SeekFrom::End(0))?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let read = move || {
        let mut parser = Parser::default();
        let mut record = vec![0; RECORD];
        loop {
            let length = match log.read(&mut record) {
                Ok(length) if length > 0 => length,
                // Records were overwritten before they were read: continue with the next.
                Err(err) if err.kind() == io::ErrorKind::BrokenPipe => continue,
                _ => return,
            };
            let victim = parser.take(message(&String::from_utf8_lossy(&record[..length])));
            if victim.is_some_and(|victim| sender.blocking_send(victim).is_err()) || sender.is_closed() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("kernel-log".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// The text of a record, without its prefix.
fn message(record: &str) -> &str {
    record.split_once(';').map_or(record, |(_, text)| text).lines().next().unwrap_or_default()
}

/// Parses the records of a kill, of which there are several.
#[derive(Debug, Default)]
struct Parser {
    /// True after the beginning of a kill that is not within a cgroup's limit.
    of_machine: bool,
}

impl Parser {
    fn take(&mut self, text: &str) -> Option<Victim> {
        if text.contains("invoked oom-killer:") {
            self.of_machine = true;
        } else if text.starts_with("oom-kill:") {
            self.of_machine = !text.contains(",oom_memcg=");
        } else if let Some((_, rest)) = text.split_once("Killed process ").filter(|_| self.of_machine) {
            self.of_machine = false;
            return victim(rest);
        }
        None
    }
}

/// Parses `123 (name) …`, or `123, UID 0, (name) …` of other kernels.
fn victim(text: &str) -> Option<Victim> {
    let pid = text.split([' ', ',']).next()?.parse().ok()?;
    let (_, rest) = text.split_once('(')?;
    let (name, _) = rest.split_once(')')?;
    Some(Victim { name: name.to_owned(), pid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(records: &[&str], expected: &[(&str, u32)]) {
        let mut parser = Parser::default();
        let found: Vec<Victim> = records.iter().filter_map(|record| parser.take(message(record))).collect();
        let expected: Vec<Victim> =
            expected.iter().map(|(name, pid)| Victim { name: (*name).to_owned(), pid: *pid }).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn only_kills_of_the_whole_machine_are_recorded() {
        check(
            &[
                "4,1,1,-;sh invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0",
                "6,2,1,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
                 task_memcg=/user,task=stress,pid=77,uid=0",
                "3,3,1,-;Out of memory: Killed process 77 (stress) total-vm:1kB, anon-rss:1kB",
                "6,4,1,-;eth0: link up",
            ],
            &[("stress", 77)],
        );
        check(
            &[
                "4,1,1,-;sh invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0",
                "6,2,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
                 oom_memcg=/kubepods/podx,task_memcg=/kubepods/podx/y,task=sh,pid=78,uid=0",
                "3,3,1,-;Memory cgroup out of memory: Killed process 78 (sh) total-vm:1kB",
            ],
            &[],
        );
        check(&["3,3,1,-;Out of memory: Killed process 1 (x)"], &[]);
    }

    #[test]
    fn records_of_other_kernels_are_parsed() {
        let records = [
            "a invoked oom-killer: x",
            "Out of memory: Killed process 19667, UID 0, (java run) total-vm:1kB",
        ];
        check(&records, &[("java run", 19667)]);
        check(&["a invoked oom-killer: x", "Killed process x"], &[]);
    }
}
