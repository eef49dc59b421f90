//! Contracts of the queue: deduplication, one worker per key, backoff, delays.

use std::sync::Arc;

use futures_util::FutureExt;

use super::*;
use crate::testing::{manual_clock, run_other_tasks, seconds};

fn key(name: &str) -> Key {
    Key::new("n", name)
}

/// The next key, if one is ready.
fn ready(queue: &Queue) -> Option<Key> {
    queue.next().now_or_never()
}

#[test]
fn a_key_is_queued_once() {
    let queue = Queue::new(manual_clock().0);
    queue.add(key("a"));
    queue.add(key("b"));
    queue.add(key("a"));
    assert_eq!(queue.depth(), 2);
    assert_eq!([ready(&queue), ready(&queue), ready(&queue)], [Some(key("a")), Some(key("b")), None]);
}

#[test]
fn a_key_added_while_processing_is_queued_again_afterwards() {
    let queue = Queue::new(manual_clock().0);
    queue.add(key("a"));
    assert_eq!(ready(&queue), Some(key("a")));
    queue.add(key("a"));
    queue.add(key("a"));
    assert_eq!(ready(&queue), None, "one worker per key");
    queue.done(&key("a"), false, None);
    assert_eq!(ready(&queue), Some(key("a")));
    queue.done(&key("a"), false, None);
    assert_eq!(ready(&queue), None, "two additions are one");
    assert!(queue.is_idle());
}

#[test]
fn failures_back_off_exponentially_up_to_a_limit_and_success_resets() {
    let (clock, hands) = manual_clock();
    let retry = Backoff { first: seconds(1), longest: seconds(4) };
    let queue = Queue::retrying(clock, retry);
    queue.add(key("a"));
    for delay in [1, 2, 4, 4] {
        assert_eq!(ready(&queue), Some(key("a")));
        queue.done(&key("a"), true, None);
        hands.advance(seconds(delay) - Duration::from_millis(1));
        assert_eq!(ready(&queue), None, "not before {delay} s");
        hands.advance(Duration::from_millis(1));
    }
    assert_eq!(ready(&queue), Some(key("a")));
    queue.done(&key("a"), false, None);
    queue.add(key("a"));
    assert_eq!(ready(&queue), Some(key("a")));
    queue.done(&key("a"), true, None);
    hands.advance(seconds(1));
    assert_eq!(ready(&queue), Some(key("a")), "the first delay again");
}

#[test]
fn the_failures_of_one_key_do_not_delay_another() {
    let (clock, hands) = manual_clock();
    let queue = Queue::retrying(clock, Backoff { first: seconds(1), longest: seconds(60) });
    for _ in 0..3 {
        queue.add(key("a"));
        assert_eq!(ready(&queue), Some(key("a")));
        queue.done(&key("a"), true, None);
    }
    queue.add(key("b"));
    assert_eq!(ready(&queue), Some(key("b")));
    queue.done(&key("b"), true, None);
    hands.advance(seconds(1));
    assert_eq!([ready(&queue), ready(&queue)], [Some(key("a")), Some(key("b"))]);
}

#[test]
fn a_change_does_not_wait_for_the_backoff() {
    let queue = Queue::retrying(manual_clock().0, Backoff { first: seconds(60), longest: seconds(60) });
    queue.add(key("a"));
    assert_eq!(ready(&queue), Some(key("a")));
    queue.add(key("a"));
    queue.done(&key("a"), true, None);
    assert_eq!(ready(&queue), Some(key("a")), "it changed while it was processed");
}

#[test]
fn the_earlier_of_two_delays_counts() {
    let (clock, hands) = manual_clock();
    let queue = Queue::new(clock);
    queue.add_after(key("a"), seconds(60));
    queue.add_after(key("a"), seconds(10));
    queue.add_after(key("a"), seconds(30));
    hands.advance(seconds(10));
    assert_eq!(ready(&queue), Some(key("a")));
    queue.done(&key("a"), false, None);
    hands.advance(seconds(60));
    assert_eq!(ready(&queue), None, "the later delays are void");
}

#[test]
fn requeue_after_waits_for_the_clock() {
    let (clock, hands) = manual_clock();
    let queue = Queue::new(clock);
    queue.add(key("a"));
    assert_eq!(ready(&queue), Some(key("a")));
    queue.done(&key("a"), false, Some(seconds(60)));
    assert!(queue.is_idle(), "a delayed key is not pending");
    hands.advance(seconds(59));
    assert_eq!(ready(&queue), None);
    hands.advance(seconds(1));
    assert_eq!(ready(&queue), Some(key("a")));
}

#[tokio::test]
async fn waiting_workers_are_woken_by_additions_and_by_the_clock() {
    let (clock, hands) = manual_clock();
    let queue = Arc::new(Queue::new(clock));
    let worker = |queue: Arc<Queue>| tokio::spawn(async move { queue.next().await });
    let (first, second) = (worker(queue.clone()), worker(queue.clone()));
    run_other_tasks().await;
    queue.add(key("a"));
    queue.add(key("b"));
    let mut taken = [first.await.unwrap(), second.await.unwrap()];
    taken.sort();
    assert_eq!(taken, [key("a"), key("b")]);
    let third = worker(queue.clone());
    run_other_tasks().await;
    queue.add_after(key("c"), seconds(5));
    run_other_tasks().await;
    assert!(!third.is_finished());
    hands.advance(seconds(5));
    assert_eq!(third.await.unwrap(), key("c"));
}
