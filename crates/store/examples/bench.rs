//! Measures the embedded store: `cargo run --release -p corten-store --example bench [dir]`.
//!
//! Prints inserts and updates per second with 32 writers, the latency of a single writer, the time to
//! reopen, and what the store costs in memory and processor time.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use corten_store::{Error, Expect, NewValue, Op, Options, Store};

const VALUE_BYTES: usize = 7 << 10;
const WRITERS: usize = 32;
const INSERTS: usize = 40_000;
const UPDATES: usize = 40_000;
const LIVE: usize = 5_000;

fn main() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = std::env::args_os().nth(1).map_or(scratch.path().to_owned(), PathBuf::from);
    runtime.block_on(idle(&dir.join("idle")))?;
    runtime.block_on(one_writer(&dir.join("one")))?;
    runtime.block_on(many_writers(&dir.join("many")))?;
    runtime.block_on(reopen(&dir.join("reopen")))
}

async fn idle(dir: &Path) -> Result<(), Error> {
    let before = status("VmRSS:");
    let store = Store::open(dir, Options::default())?;
    store.commit(put("a", 0).into()).await?;
    let (after, processor) = (status("VmRSS:"), processor_time());
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!(
        "idle: memory {before} without a store, {after} with an empty one; \
         {:?} of processor time in 3 s",
        processor_time() - processor
    );
    store.close();
    Ok(())
}

async fn one_writer(dir: &Path) -> Result<(), Error> {
    let store = Store::open(dir, Options::default())?;
    let mut latencies = Vec::new();
    for index in 0..3_000 {
        let start = Instant::now();
        store.commit(put("a", index).into()).await?;
        latencies.push(start.elapsed());
    }
    latencies.sort_unstable();
    let at = |percent: usize| latencies[latencies.len() * percent / 100];
    println!("one writer: p50 {:?}, p90 {:?}, p99 {:?}", at(50), at(90), at(99));
    store.close();
    Ok(())
}

async fn many_writers(dir: &Path) -> Result<(), Error> {
    let store = Store::open(dir, Options::default())?;
    measure("insert", &store, INSERTS, INSERTS, dir).await?;
    measure("update", &store, UPDATES, LIVE, dir).await?;
    println!("memory with {} MB live: {}", (INSERTS * VALUE_BYTES) >> 20, status("VmRSS:"));
    store.close();
    Ok(())
}

async fn measure(what: &str, store: &Store, count: usize, keys: usize, dir: &Path) -> Result<(), Error> {
    let (start, processor) = (Instant::now(), processor_time());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for index in (writer..count).step_by(WRITERS) {
                    store.commit(put("b", index % keys).into()).await?;
                }
                Ok::<(), Error>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer that does not panic")?;
    }
    let (elapsed, used) = (start.elapsed(), processor_time() - processor);
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes: u64 = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    println!(
        "{WRITERS} writers, {what}: {:.0}/s, {:.1} us processor time each, {} MB of files",
        count as f64 / elapsed.as_secs_f64(),
        used.as_micros() as f64 / count as f64,
        bytes >> 20,
    );
    Ok(())
}

async fn reopen(dir: &Path) -> Result<(), Error> {
    let store = Store::open(dir, Options::default())?;
    for index in 0..LIVE {
        let pending = store.commit(put("c", index).into());
        pending.await?;
    }
    store.close();
    let start = Instant::now();
    let store = Store::open(dir, Options::default())?;
    println!("reopen with {LIVE} entries: {:?}", start.elapsed());
    store.close();
    Ok(())
}

fn put(prefix: &str, index: usize) -> Op {
    let mut bytes = vec![b'x'; VALUE_BYTES];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    let value = NewValue { bytes, revision_at: Some(100), note: None };
    let key: Arc<str> = format!("/registry/pods/{prefix}/pod-{index:08}").into();
    Op::Put { key, expect: Expect::Any, value, lease: None }
}

fn status(field: &str) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or("unknown").trim().to_owned()
}

/// The CPU time of this process, in user and system mode.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(12) + ticks(13)) * 10)
}
