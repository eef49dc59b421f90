//! The term of a data key, and upstream's times, on a clock that the test moves.

use std::time::Duration;

use corten_apiserver::EncryptionAtRest;
use corten_base::Clock;
use corten_store::Sealing;
use corten_testkit::{DataDirectory, KmsBehavior, KmsPlugin};
use jiff::Timestamp;

use crate::configure;

const KEY: &str = "/registry/secrets/default/web";
const PLAIN: &[u8] = b"{\"kind\":\"Secret\"}";

/// Moves the clock on by a second at a time, with real time for the polls in between, until something is so.
async fn until(control: &corten_base::ClockControl, seconds: u32, is_so: impl Fn() -> bool) -> bool {
    for _ in 0..seconds {
        if is_so() {
            return true;
        }
        control.advance(Duration::from_secs(1));
        // A poll that began is given the time to end: it talks to a real socket.
        for _ in 0..20 {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    is_so()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_key_follows_the_plugins_key_and_ends_without_the_plugin() {
    let directory = DataDirectory::new();
    let plugin = tokio::task::block_in_place(|| KmsPlugin::start(directory.path(), "key-1"));
    let file = configure(directory.path(), &plugin, "one");
    let (clock, control) = Clock::manual(Timestamp::from_second(1_800_000_000).unwrap());
    let encryption = EncryptionAtRest::load(&file, false, clock).unwrap();
    encryption.start().await;
    let seal = || encryption.seal(KEY, PLAIN).map(Option::unwrap);
    let with = |key: &str, sealed: &[u8]| sealed.windows(key.len()).any(|part| part == key.as_bytes());
    let first = seal().unwrap();
    assert!(with("key-1", &first));
    assert!(!encryption.open(KEY, &first).unwrap().unwrap().is_stale);
    plugin.set_key("key-2");
    assert!(until(&control, 65, || with("key-2", &seal().unwrap())).await, "polled every minute");
    assert!(encryption.open(KEY, &first).unwrap().unwrap().is_stale);
    plugin.behave(KmsBehavior::Failing);
    assert!(!until(&control, 100, || seal().is_err()).await, "a short outage has no effect");
    plugin.behave(KmsBehavior::Good);
    assert!(!until(&control, 240, || seal().is_err()).await, "the term is extended");
    plugin.behave(KmsBehavior::Silent);
    assert!(until(&control, 300, || seal().is_err()).await, "after its term nothing is sealed");
    let refused = seal().unwrap_err().to_string();
    assert!(refused.starts_with("encryptedDEKSource with keyID hash \"sha256:"), "{refused}");
    assert_eq!(encryption.open(KEY, &first).unwrap().unwrap().plain, PLAIN, "values are read for ever");
    plugin.behave(KmsBehavior::Good);
    assert!(until(&control, 30, || seal().is_ok()).await, "an unhealthy plugin is polled every 10 seconds");
    tokio::task::block_in_place(|| drop(plugin));
}
