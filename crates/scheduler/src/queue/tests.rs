use super::*;
use crate::testing::pod;

fn queue() -> Queue {
    Queue::new(Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(10) })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn named(name: &str, priority: i64) -> Arc<Pod> {
    Arc::new(pod(name).priority(priority).build())
}

fn pop(queue: &mut Queue, second: i64) -> Option<String> {
    queue.pop(at(second)).map(|waiting| waiting.pod.uid.to_string())
}

#[test]
fn pods_are_popped_by_priority_then_in_order() {
    let mut queue = queue();
    for (name, priority) in [("a", 1), ("b", 5), ("c", 5), ("d", 0)] {
        queue.add(named(name, priority), None, at(0));
    }
    queue.remove("c");
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, 0)).collect();
    assert_eq!(order, ["b", "a", "d"]);
}

#[test]
fn unschedulable_pods_wait_for_an_event() {
    let mut queue = queue();
    queue.add(named("a", 0), None, at(0));
    let waiting = queue.pop(at(0)).unwrap();
    queue.reject(waiting, vec!["NodeResourcesFit"], at(0));
    assert_eq!(pop(&mut queue, 0), None);
    queue.wake(at(1), &[], |_, plugins| plugins == ["TaintToleration"]);
    assert_eq!(queue.depths(), Depths { unschedulable: 1, ..Depths::default() });
    queue.wake(at(1), &[], |_, plugins| plugins == ["NodeResourcesFit"]);
    assert_eq!(queue.depths(), Depths { backoff: 1, ..Depths::default() });
    queue.add(named("b", 0), None, at(1));
    assert_eq!(pop(&mut queue, 1).as_deref(), Some("b"), "who has not failed is first");
    assert_eq!(pop(&mut queue, 1).as_deref(), Some("a"), "no other pod waits, so it need not either");
}

#[test]
fn hints_are_evaluated_once_per_group() {
    let mut queue = queue();
    for name in ["a", "b", "c"] {
        queue.add(named(name, 0), None, at(0));
    }
    while let Some(waiting) = queue.pop(at(0)) {
        queue.reject(waiting, vec!["NodeResourcesFit"], at(0));
    }
    let mut asked = 0;
    queue.wake(at(1), &[], |_, _| {
        asked += 1;
        true
    });
    assert_eq!((asked, queue.depths().backoff), (1, 3));
}

#[test]
fn pods_apart_are_evaluated_one_by_one() {
    let check = |apart: &[&str], helped: &[&str], expected: &[&str]| {
        let mut queue = queue();
        for name in ["a", "b", "c"] {
            queue.add(named(name, 0), None, at(0));
        }
        while let Some(waiting) = queue.pop(at(0)) {
            queue.reject(waiting, vec!["NodeResourcesFit"], at(0));
        }
        let apart: Vec<Str> = apart.iter().map(Str::new).collect();
        queue.wake(at(1), &apart, |pod, _| helped.contains(&pod.uid.as_str()));
        let woken: Vec<_> = std::iter::from_fn(|| pop(&mut queue, 1)).collect();
        assert_eq!(woken, expected, "{apart:?} {helped:?}");
    };
    check(&["a"], &["a"], &["a"]);
    check(&["a"], &["b"], &["b", "c"]);
    check(&["b"], &["a", "b"], &["a", "c", "b"]);
    check(&["unknown"], &["a"], &["a", "b", "c"]);
    check(&["a", "b", "c"], &["c"], &["c"]);
}

#[test]
fn failures_back_off_exponentially() {
    let mut queue = queue();
    queue.add(named("a", 0), None, at(0));
    let mut now = 0;
    for delay in [1, 2, 4, 8, 10, 10] {
        let waiting = queue.pop(at(now)).unwrap();
        queue.retry(waiting, at(now));
        assert_eq!(queue.next_due(), Some(at(now + delay)));
        assert!(queue.pop(at(now + delay - 1)).is_none());
        now += delay;
    }
}

#[test]
fn unschedulable_pods_are_retried_after_the_timeout() {
    let mut queue = queue();
    queue.add(named("a", 0), None, at(0));
    let waiting = queue.pop(at(0)).unwrap();
    queue.reject(waiting, vec!["NodePorts"], at(0));
    assert_eq!(queue.next_due(), Some(at(300)));
    assert!(queue.pop(at(299)).is_none());
    assert_eq!(pop(&mut queue, 300).as_deref(), Some("a"));
}

#[test]
fn gated_pods_wait_until_their_gates_are_removed() {
    let mut queue = queue();
    queue.add(named("a", 0), Some("SchedulingGates"), at(0));
    assert_eq!((pop(&mut queue, 0), queue.depths().gated), (None, 1));
    queue.wake(at(0), &[], |_, _| true);
    assert_eq!(pop(&mut queue, 0), None);
    queue.update(named("a", 0), None, true, at(1));
    assert_eq!(pop(&mut queue, 1).as_deref(), Some("a"));
}

#[test]
fn a_change_of_the_pod_itself_may_make_it_schedulable() {
    let mut queue = queue();
    queue.add(named("a", 0), None, at(0));
    let waiting = queue.pop(at(0)).unwrap();
    queue.reject(waiting, vec!["TaintToleration"], at(0));
    queue.update(named("a", 0), None, false, at(1));
    assert_eq!(queue.depths().unschedulable, 1);
    queue.update(named("a", 0), None, true, at(1));
    assert_eq!(queue.depths().unschedulable, 0);
}
