//! Rows of pods and workloads.

use corten_api::value;

use super::check;

#[test]
fn workloads() {
    let spec = value!({
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}]}},
    });
    let deployed = value!({
        "spec": (spec.clone()),
        "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
    });
    let invalid = value!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "?"}]}}});
    check(
        "apps",
        "deployments",
        &[
            (deployed, "x | 1/3 | 2 | 1 | 120m | a,b | i:1,j:2 | app=web"),
            (value!({}), "x | 0/0 | 0 | 0 | 120m |  |  | "),
            (invalid.clone(), "x | 0/0 | 0 | 0 | 120m |  |  | <invalid>"),
        ],
    );
    let counted = value!({"spec": (spec.clone()), "status": {"replicas": 2, "readyReplicas": 1}});
    check(
        "apps",
        "replicasets",
        &[
            (counted.clone(), "x | 3 | 2 | 1 | 120m | a,b | i:1,j:2 | app=web"),
            (invalid, "x | 0 | 0 | 0 | 120m |  |  | <error>"),
            (value!({}), "x | 0 | 0 | 0 | 120m |  |  | <none>"),
        ],
    );
    check("apps", "statefulsets", &[(counted, "x | 1/3 | 120m | a,b | i:1,j:2")]);
    let controller = value!({
        "spec": {"replicas": 1, "selector": {"b": "2", "a": "1"}}, "status": {"replicas": 1},
    });
    check("", "replicationcontrollers", &[(controller, "x | 1 | 1 | 0 | 120m |  |  | a=1,b=2")]);
    let everywhere = value!({
        "spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
        "status": {
            "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
            "updatedNumberScheduled": 2, "numberAvailable": 1,
        },
    });
    check("apps", "daemonsets", &[(everywhere, "x | 5 | 4 | 3 | 2 | 1 | disk=ssd | 120m |  |  | <none>")]);
    let owned = value!({
        "metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true},
        ]},
        "revision": 2,
    });
    check(
        "apps",
        "controllerrevisions",
        &[(owned, "x | statefulset.apps/db | 2 | 120m"), (value!({}), "x | <none> | 0 | 120m")],
    );
}

#[test]
fn jobs() {
    let condition = |kind: &str| value!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
    let timed = value!({
        "spec": {"completions": 4, "parallelism": 2},
        "status": {
            "succeeded": 3, "startTime": "2024-01-01T10:00:00Z", "completionTime": "2024-01-01T10:01:30Z",
        },
    });
    let running = value!({
        "spec": {"parallelism": 2, "selector": {"matchLabels": {"u": "1"}}},
        "status": {"startTime": "2024-01-01T11:50:00Z"},
    });
    let deleted = value!({"metadata": {"deletionTimestamp": "2024-01-01T12:00:00Z"}});
    check(
        "batch",
        "jobs",
        &[
            (timed, "x | Running | 3/4 | 90s | 120m |  |  | <none>"),
            (running, "x | Running | 0/1 of 2 | 10m | 120m |  |  | u=1"),
            (condition("Complete"), "x | Complete | 0/1 |  | 120m |  |  | <none>"),
            (condition("Failed"), "x | Failed | 0/1 |  | 120m |  |  | <none>"),
            (condition("Suspended"), "x | Suspended | 0/1 |  | 120m |  |  | <none>"),
            (condition("FailureTarget"), "x | FailureTarget | 0/1 |  | 120m |  |  | <none>"),
            (condition("SuccessCriteriaMet"), "x | SuccessCriteriaMet | 0/1 |  | 120m |  |  | <none>"),
            (deleted, "x | Terminating | 0/1 |  | 120m |  |  | <none>"),
        ],
    );
    let scheduled = value!({
        "spec": {
            "schedule": "0 * * * *", "timeZone": "Etc/UTC", "suspend": false,
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
        },
        "status": {"active": [{}, {}], "lastScheduleTime": "2024-01-01T11:59:00Z"},
    });
    check(
        "batch",
        "cronjobs",
        &[
            (scheduled, "x | 0 * * * * | Etc/UTC | False | 2 | 60s | 120m | c | i | <none>"),
            (value!({}), "x |  | <none> | <unset> | 0 | <none> | 120m |  |  | <none>"),
        ],
    );
}

#[test]
fn autoscalers() {
    let scaler = |metrics: corten_api::Value, current: corten_api::Value| {
        value!({
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "minReplicas": 2, "maxReplicas": 10, "metrics": metrics,
            },
            "status": {"currentReplicas": 4, "currentMetrics": current},
        })
    };
    let cpu = |target: corten_api::Value| value!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let external = |target: corten_api::Value| value!({"type": "External", "external": {"target": target}});
    let table = [
        (scaler(value!([]), value!([])), "<none>"),
        (scaler(value!([(cpu(value!({"averageUtilization": 80})))]), value!([])), "cpu: <unknown>/80%"),
        (
            scaler(
                value!([(cpu(value!({"averageUtilization": 80})))]),
                value!([{"type": "Resource", "resource": {"current": {"averageUtilization": 50}}}]),
            ),
            "cpu: 50%/80%",
        ),
        (scaler(value!([(cpu(value!({})))]), value!([])), "cpu: <unknown>/<auto>"),
        (
            scaler(
                value!([(cpu(value!({"averageValue": "100m"})))]),
                value!([{"type": "Resource", "resource": {"current": {"averageValue": "50m"}}}]),
            ),
            "cpu: 50m/100m",
        ),
        (scaler(value!([(external(value!({"averageValue": "10"})))]), value!([])), "<unknown>/10 (avg)"),
        (
            scaler(
                value!([(external(value!({"value": "10"})))]),
                value!([{"type": "External", "external": {"current": {"value": "7"}}}]),
            ),
            "7/10",
        ),
        (
            scaler(
                value!([{"type": "Pods", "pods": {"target": {"averageValue": "1k"}}}]),
                value!([{"type": "Pods", "pods": {"current": {"averageValue": "900"}}}]),
            ),
            "900/1k",
        ),
        (
            scaler(
                value!([{"type": "Object", "object": {"target": {"averageValue": "5"}}}]),
                value!([{"type": "Object", "object": {"current": {"averageValue": "4"}}}]),
            ),
            "4/5 (avg)",
        ),
        (
            scaler(
                value!([{
                    "type": "ContainerResource",
                    "containerResource": {"name": "memory", "target": {"averageUtilization": 70}},
                }]),
                value!([{
                    "type": "ContainerResource",
                    "containerResource": {"current": {"averageUtilization": 30}},
                }]),
            ),
            "memory: 30%/70%",
        ),
        (scaler(value!([{"type": "New"}]), value!([])), "<unknown type>"),
        (
            scaler(
                value!([
                    (cpu(value!({"averageUtilization": 1}))),
                    (cpu(value!({"averageUtilization": 2}))),
                    (cpu(value!({"averageUtilization": 3}))),
                    (cpu(value!({"averageUtilization": 4}))),
                ]),
                value!([]),
            ),
            "cpu: <unknown>/1%, cpu: <unknown>/2% + 2 more...",
        ),
    ];
    for (object, targets) in table {
        check(
            "autoscaling",
            "horizontalpodautoscalers",
            &[(object, &format!("x | Deployment/d | {targets} | 2 | 10 | 4 | 120m"))],
        );
    }
    check(
        "autoscaling",
        "horizontalpodautoscalers",
        &[(value!({}), "x | / | <none> | <unset> | 0 | 0 | 120m")],
    );
}

#[test]
fn budgets_groups_and_claims() {
    check(
        "policy",
        "poddisruptionbudgets",
        &[
            (
                value!({"spec": {"minAvailable": 2}, "status": {"disruptionsAllowed": 1}}),
                "x | 2 | N/A | 1 | 120m",
            ),
            (value!({"spec": {"maxUnavailable": "20%"}}), "x | N/A | 20% | 0 | 120m"),
        ],
    );
    let group = |conditions: corten_api::Value| {
        value!({
            "spec": {"schedulingPolicy": {"gang": {}}, "workloadRef": {"workloadName": "w"}},
            "status": {"conditions": conditions},
        })
    };
    let scheduled = |status: &str| value!({"type": "PodGroupInitiallyScheduled", "status": status});
    check(
        "scheduling.k8s.io",
        "podgroups",
        &[
            (value!({}), "x | Basic | <none> | Pending | 120m"),
            (group(value!([(scheduled("True"))])), "x | Gang | w | Scheduled | 120m"),
            (group(value!([(scheduled("False"))])), "x | Gang | w | Unschedulable | 120m"),
            (
                group(value!([{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}])),
                "x | Gang | w | PreemptionByScheduler | 120m",
            ),
        ],
    );
    check(
        "resource.k8s.io",
        "resourceclaims",
        &[
            (value!({}), "x | pending | 120m"),
            (value!({"status": {"allocation": {}, "reservedFor": [{}]}}), "x | allocated,reserved | 120m"),
            (
                value!({"metadata": {"deletionTimestamp": "2024-01-01T12:00:00Z"}, "status": {"allocation": {}}}),
                "x | deleted,allocated | 120m",
            ),
        ],
    );
    let pools = value!({
        "spec": {"driver": "d"},
        "status": {
            "poolCount": 3,
            "pools": [
                {"totalDevices": 4, "availableDevices": 1, "allocatedDevices": 2, "unavailableDevices": 1},
                {"totalDevices": 2, "validationError": "bad"},
            ],
            "conditions": [
                {"type": "Complete", "status": "True", "lastTransitionTime": "2024-01-01T11:59:00Z"},
            ],
        },
    });
    check(
        "resource.k8s.io",
        "resourcepoolstatusrequests",
        &[
            (pools, "x | d | 6 | 1 | 2 | 1 | 1 | 3 | Complete (2/3 pools) | 60s"),
            (value!({}), "x |  | - | - | - | - | - | 0 | Pending | <none>"),
        ],
    );
}

#[test]
fn evictions() {
    let eviction = value!({
        "spec": {"target": {"pod": {"name": "p"}}},
        "status": {
            "observedGeneration": 1,
            "targetResponders": [
                {"name": "first", "state": "Completed"},
                {"name": "second", "state": "Active"},
                {"name": "third", "state": "Inactive"},
            ],
            "responders": [{
                "name": "second", "startTime": "2024-01-01T11:59:00Z",
                "expectedCompletionTime": "2024-01-01T12:05:00Z", "heartbeatTime": "2024-01-01T11:59:50Z",
                "message": " busy ",
            }],
            "requesters": [
                {"name": "b", "intent": "Evict"}, {"name": "a", "intent": "Evict"},
                {"name": "c", "intent": "Withdrawn"},
            ],
        },
    });
    check(
        "lifecycle.k8s.io",
        "evictions",
        &[
            (
                eviction,
                "x | p | Pod | Progressing | second (2/3) | Started (60s ago) | in 5m | a + 1 more... | 120m | 10s ago | busy",
            ),
            (
                value!({}),
                "x | <unset> | <unset> | Pending | <unset> (0/0) | <unset> | <unknown> | <none> | 120m | <unset> | <unset>",
            ),
        ],
    );
    let request = value!({
        "spec": {"target": {"pod": {"name": "p"}}, "requester": "r", "intent": "Evict"},
        "status": {"conditions": [{"type": "TargetEvicted", "status": "True", "reason": "Gone"}]},
    });
    check(
        "lifecycle.k8s.io",
        "evictionrequests",
        &[(request, "x | p | Pod | TargetEvicted (Gone) | r | Evict | 120m")],
    );
}
