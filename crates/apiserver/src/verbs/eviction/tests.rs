use corten_api::value;

use super::*;

fn budget(status: Value) -> Value {
    let mut budget = value!({"metadata": {"name": "b", "generation": 2}});
    budget.set(&["status"], status);
    budget
}

#[track_caller]
fn refused(status: Value, code: u16, retry: u32, cause: &str) {
    let refusal = disrupt(&budget(status), "p", "now").unwrap_err();
    assert_eq!((refusal.code, refusal.details.retry_after_seconds), (code, retry), "{}", refusal.message);
    assert_eq!(refusal.details.causes[0].reason, "DisruptionBudget");
    assert_eq!(refusal.details.causes[0].message, cause);
}

#[test]
fn refusals() {
    refused(
        value!({"observedGeneration": 1, "disruptionsAllowed": 5}),
        429,
        10,
        "The disruption budget b is still being processed by the server.",
    );
    refused(
        value!({"observedGeneration": 2, "desiredHealthy": 3, "currentHealthy": 2}),
        429,
        0,
        "The disruption budget b needs 3 healthy pods and has 2 currently",
    );
    refused(
        value!({"observedGeneration": 2, "desiredHealthy": 1, "currentHealthy": 2}),
        429,
        0,
        "The disruption budget b does not allow evicting pods currently",
    );
    refused(
        value!({"observedGeneration": 2, "desiredHealthy": 1, "currentHealthy": 2, "conditions": [
            {"type": "DisruptionAllowed", "status": "False", "reason": "R", "message": "m"},
        ]}),
        429,
        0,
        "The disruption budget b does not allow evicting pods currently (R): m",
    );
    refused(
        value!({"observedGeneration": 2, "desiredHealthy": 1, "currentHealthy": 0, "conditions": [
            {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "m"},
        ]}),
        429,
        0,
        "The disruption budget b does not allow evicting pods currently because it failed sync: m",
    );
    refused(
        value!({"observedGeneration": 2, "disruptionsAllowed": (-1)}),
        403,
        0,
        "The disruption budget b does not allow evicting pods currently: pdb disruptions allowed is negative",
    );
    let mut crowded = value!({"observedGeneration": 2, "disruptionsAllowed": 1});
    for i in 0..=MAX_DISRUPTED_PODS {
        crowded.set(&["disruptedPods", &format!("p{i}")], "then");
    }
    refused(
        crowded,
        403,
        0,
        "The disruption budget b does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller",
    );
}

#[test]
fn a_disruption_is_counted() {
    let taken =
        disrupt(&budget(value!({"observedGeneration": 2, "disruptionsAllowed": 2})), "p", "now").unwrap();
    let expected = value!({"observedGeneration": 2, "disruptionsAllowed": 1, "disruptedPods": {"p": "now"}});
    assert_eq!(taken.get("status"), Some(&expected));
    let last = disrupt(&taken, "q", "later").unwrap();
    let expected = value!({
        "observedGeneration": 2, "disruptionsAllowed": 0, "disruptedPods": {"p": "now", "q": "later"},
        "conditions": [{
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": "later", "observedGeneration": 2,
        }],
    });
    assert_eq!(last.get("status"), Some(&expected));
    assert_eq!(disrupt(&last, "r", "later").unwrap_err().code, 429);
}

#[test]
fn pods_that_are_not_ready() {
    let ready = value!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let unready = value!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let healthy = budget(value!({"desiredHealthy": 2, "currentHealthy": 2}));
    let short = budget(value!({"desiredHealthy": 2, "currentHealthy": 1}));
    let unknown = budget(value!({}));
    let mut always = short.clone();
    always.set(&["spec", "unhealthyPodEvictionPolicy"], "AlwaysAllow");
    for (budget, pod, free) in [
        (&healthy, &ready, false),
        (&healthy, &unready, true),
        (&short, &unready, false),
        (&unknown, &unready, false),
        (&always, &unready, true),
        (&always, &ready, false),
    ] {
        assert_eq!(needs_no_disruption(budget, pod), free, "{budget:?} {pod:?}");
    }
}

#[test]
fn pods_that_no_budget_protects() {
    for (status, unguarded, pinned) in [
        (value!({"phase": "Running"}), false, true),
        (value!({"phase": "Pending"}), true, true),
        (value!({"phase": "Succeeded"}), true, false),
        (value!({"phase": "Failed"}), true, false),
    ] {
        let mut pod = Value::object();
        pod.set(&["status"], status);
        assert_eq!((is_unprotected(&pod), may_become_ready(&pod)), (unguarded, pinned), "{pod:?}");
        pod.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!((is_unprotected(&pod), may_become_ready(&pod)), (true, false), "{pod:?}");
    }
}
