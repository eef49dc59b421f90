//! Tests that the cost of every plugin that reads an object's content grows with the sizes of the object and of
//! the objects it is compared with (a limit range, a quota, a service account), never with their product. The meter is
//! that of `crates/api/tests/bounds`.

use corten_api::{Value, json, value};
use corten_quota::{DeviceClasses, Item, Measure, Neighbours};

use super::{
    certificate_subject_restriction, cluster_trust_bundle_attest, default_toleration_seconds,
    deny_service_external_ips, limit_ranger, node_declared_feature_validator, node_restriction,
    pod_resize_validator, pod_security, priority, resource_quota, runtime_class, service_account,
    taint_nodes_by_condition,
};
use crate::meter::{excess, settle};

/// An object, and the object that it is held against.
type Pair = (Value, Value);

/// A worst case by name, made of a number of items.
type Input<T> = (&'static str, fn(usize) -> T);

fn size((object, against): &Pair) -> usize {
    json::write_to_string(object).len() + json::write_to_string(against).len()
}

fn check(plugin: &str, small: usize, inputs: &[Input<Pair>], work: fn(&Pair)) {
    let complaints: Vec<String> = inputs
        .iter()
        .filter_map(|(name, input)| excess(&format!("{plugin}, {name}"), small, input, size, work))
        .collect();
    settle(&complaints);
}

fn many(count: usize, item: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(item).collect()
}

fn resources(count: usize, prefix: &str) -> Value {
    Value::Object((0..count).map(|i| (format!("{prefix}{i}").into(), Value::from("1"))).collect())
}

/// Every container asks for a resource of its own.
fn container(i: usize) -> Value {
    let own = resources(1, &format!("example.com/r{i}-"));
    value!({"name": (format!("c{i}")), "image": "i", "resources": {"requests": (own.clone()), "limits": (own)}})
}

fn sidecar(i: usize) -> Value {
    let mut sidecar = container(i);
    sidecar.set(&["restartPolicy"], "Always");
    sidecar
}

fn pod(spec: Value) -> Value {
    value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": (spec)})
}

/// Pods with one long list each.
const PODS: &[Input<Value>] = &[
    ("containers", |n| pod(value!({"containers": (many(n, container))}))),
    ("sidecars", |n| pod(value!({"containers": [(container(0))], "initContainers": (many(n, sidecar))}))),
    ("sidecars and init containers", |n| {
        let initial = many(n, |i| if i % 2 == 0 { sidecar(i) } else { container(i) });
        pod(value!({"containers": [(container(0))], "initContainers": (initial)}))
    }),
    ("statuses", |n| {
        let mut pod = pod(value!({"containers": (many(n, container))}));
        let status = |i| value!({"name": (format!("c{i}")), "allocatedResources": {"cpu": "1"}});
        pod.set(&["status", "containerStatuses"], many(n, status));
        pod
    }),
    ("resources of one container", |n| {
        let mut one = container(0);
        one.set(&["resources", "requests"], resources(n, "example.com/r"));
        one.set(&["resources", "limits"], resources(n, "example.com/r"));
        pod(value!({"containers": [(one)]}))
    }),
    ("volumes of secrets", |n| {
        let volume = |i| value!({"name": (format!("v{i}")), "secret": {"secretName": (format!("s{i}"))}});
        pod(value!({"containers": [(container(0))], "volumes": (many(n, volume))}))
    }),
    ("volumes of the host", |n| {
        let volume = |i| value!({"name": (format!("v{i}")), "hostPath": {"path": "/"}});
        pod(value!({"containers": [(container(0))], "volumes": (many(n, volume))}))
    }),
    ("variables from secrets", |n| {
        let variable = |i| {
            let key = value!({"name": (format!("s{i}")), "key": "k"});
            value!({"name": (format!("v{i}")), "valueFrom": {"secretKeyRef": (key)}})
        };
        let mut one = container(0);
        one.set(&["env"], many(n, variable));
        one.set(&["envFrom"], many(n, |i| value!({"secretRef": {"name": (format!("s{i}"))}})));
        pod(value!({"containers": [(one)]}))
    }),
    ("mounts", |n| {
        let mut one = container(0);
        one.set(&["volumeMounts"], many(n, |i| value!({"name": "v", "mountPath": (format!("/m{i}"))})));
        pod(value!({"containers": [(one)]}))
    }),
    ("pull secrets", |n| {
        let secrets = many(n, |i| value!({"name": (format!("s{i}"))}));
        pod(value!({"containers": [(container(0))], "imagePullSecrets": (secrets)}))
    }),
    ("tolerations", |n| {
        let toleration = |i| value!({"key": (format!("k{i}")), "operator": "Exists", "effect": "NoExecute"});
        pod(value!({"containers": [(container(0))], "tolerations": (many(n, toleration))}))
    }),
    ("capabilities", |n| {
        let mut one = container(0);
        let names = many(n, |i| Value::from(format!("CAP_{i}")));
        one.set(&["securityContext", "capabilities", "add"], names.clone());
        one.set(&["securityContext", "capabilities", "drop"], names);
        pod(value!({"containers": [(one)]}))
    }),
    ("ports and probes", |n| {
        let container = |i| {
            let probe = value!({"httpGet": {"host": (format!("h{i}")), "port": 80}});
            value!({
                "name": (format!("c{i}")), "image": "i", "livenessProbe": (probe),
                "ports": [{"hostPort": (i as i64 + 1), "containerPort": 80}],
                "securityContext": {"privileged": true, "procMount": (format!("m{i}")), "seLinuxOptions": {
                    "type": (format!("t{i}")), "user": (format!("u{i}")),
                }, "seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": (format!("a{i}"))}},
            })
        };
        pod(value!({"containers": (many(n, container))}))
    }),
    ("annotations and sysctls", |n| {
        let sysctls = many(n, |i| value!({"name": (format!("kernel.x{i}")), "value": "1"}));
        let spec = value!({"containers": [(container(0))], "securityContext": {"sysctls": (sysctls)}});
        let mut pod = pod(spec);
        let key = "container.apparmor.security.beta.kubernetes.io/c";
        pod.set(&["metadata", "annotations"], resources(n, key));
        pod
    }),
    ("affinity", |n| {
        let term =
            |i| value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": (format!("v{i}"))}}});
        let terms = many(n, term);
        let affinity = value!({"requiredDuringSchedulingIgnoredDuringExecution": (terms)});
        pod(value!({"containers": [(container(0))], "affinity": {"podAntiAffinity": (affinity)}}))
    }),
];

fn check_pods(plugin: &str, small: usize, against: fn(usize) -> Value, work: fn(&Pair)) {
    let complaints: Vec<String> = PODS
        .iter()
        .filter_map(|(name, pod)| {
            excess(&format!("{plugin}, {name}"), small, |n| (pod(n), against(n)), size, work)
        })
        .collect();
    settle(&complaints);
}

#[test]
fn limit_ranger_on_pods() {
    let range = |n: usize| {
        let bounds = resources(n, "example.com/r");
        value!({"spec": {"limits": [
            {"type": "Container", "default": (bounds.clone()), "defaultRequest": (bounds.clone()),
                "min": (bounds.clone()), "max": (bounds.clone()), "maxLimitRequestRatio": (bounds.clone())},
            {"type": "Pod", "min": (bounds.clone()), "max": (bounds)},
        ]}})
    };
    check_pods("LimitRanger", 1_000, range, |(pod, range)| {
        let mut given = pod.clone();
        let _ = limit_ranger::set_defaults(range, &mut given);
        for pod in [pod, &given] {
            drop(limit_ranger::aggregate(&limit_ranger::pod_errors(range, pod)));
        }
    });
}

#[test]
fn limit_ranger_on_claims() {
    let inputs: &[Input<Pair>] = &[("requests", |n| {
        let bounds = resources(n, "example.com/r");
        let range = value!({"spec": {"limits": [
            {"type": "PersistentVolumeClaim", "min": (bounds.clone()), "max": (bounds.clone())},
        ]}});
        (value!({"spec": {"resources": {"requests": (bounds)}}}), range)
    })];
    check("LimitRanger", 2_000, inputs, |(claim, range)| {
        drop(limit_ranger::aggregate(&limit_ranger::claim_errors(range, claim)));
    });
}

#[test]
fn service_account() {
    let account = |n: usize| {
        // Those that pods name come last.
        let secrets = many(n, |i| value!({"name": (format!("s{}", n - 1 - i))}));
        value!({"metadata": {"name": "a"}, "secrets": (secrets.clone()), "imagePullSecrets": (secrets)})
    };
    check_pods("ServiceAccount", 1_000, account, |(pod, account)| {
        let mut given = pod.clone();
        service_account::mount_token(&mut given, "x");
        service_account::add_pull_secrets(account, &mut given);
        let _ = service_account::limit_secrets(account, &given);
        let _ = service_account::check_mirror(pod);
    });
}

#[test]
fn pod_security() {
    check_pods("PodSecurity", 1_000, |_| Value::Null, |(pod, _)| pod_security::check_all_levels(pod));
}

#[test]
fn runtime_class_and_toleration_seconds() {
    let class = |n: usize| {
        let toleration = |i| value!({"key": (format!("c{i}")), "operator": "Exists"});
        let selector = resources(n, "example.com/l");
        value!({"scheduling": {"nodeSelector": (selector), "tolerations": (many(n, toleration))}})
    };
    check_pods("RuntimeClass", 500, class, |(pod, class)| {
        let mut given = pod.clone();
        default_toleration_seconds::tolerate(&mut given, super::TolerationSeconds::default());
        let _ = runtime_class::set_scheduling(class, &mut given);
        priority::keep_computed(&mut given, pod);
    });
}

#[test]
fn resizes() {
    let node = |n: usize| value!({"metadata": {"name": "n"}, "status": {"allocatable": (resources(n, "example.com/r"))}});
    check_pods("PodResizeValidator", 1_000, node, |(pod, node)| {
        let _ = pod_resize_validator::check(pod, node);
        let mut old = pod.clone();
        old.set(&["spec", "resources", "requests", "cpu"], "1");
        drop(node_declared_feature_validator::needed(pod, &old));
    });
}

struct Alone;

impl Neighbours for Alone {
    fn pod(&self, _: &str) -> Option<Value> {
        None
    }

    fn resource_claims(&self) -> Vec<Value> {
        Vec::new()
    }
}

fn charge(measure: Measure, object: &Value, quota: &Value) {
    let item = |object: &Value| -> Item { measure.item(object, &Alone, jiff::Timestamp::UNIX_EPOCH) };
    let (new, old) = (item(object), item(object));
    let _ = resource_quota::charge_one(quota, measure.clone(), new.clone(), None);
    let _ = resource_quota::charge_one(quota, measure, new, Some(old));
}

fn quota_of(count: usize, prefix: &str) -> Value {
    let amounts = |amount: &str| -> Value {
        let names = (0..count).map(|i| format!("{prefix}{i}"));
        let plain = ["pods", "requests.cpu", "limits.memory"].map(str::to_owned);
        Value::Object(names.chain(plain).map(|name| (name.into(), Value::from(amount))).collect())
    };
    let classes = many(count, |i| Value::from(format!("class{i}")));
    let scope = value!({"scopeName": "PriorityClass", "operator": "NotIn", "values": (classes)});
    value!({
        "metadata": {"name": "q"}, "spec": {"scopeSelector": {"matchExpressions": [(scope)]}},
        "status": {"hard": (amounts("100000")), "used": (amounts("0"))},
    })
}

#[test]
fn resource_quota_of_pods() {
    let quota = |n: usize| quota_of(n, "requests.example.com/r");
    check_pods("ResourceQuota", 1_000, quota, |(pod, quota)| charge(Measure::Pods, pod, quota));
}

#[test]
fn resource_quota_of_claims_and_services() {
    let inputs: &[Input<Pair>] = &[
        ("device requests", |n| {
            let exactly = |i| value!({"deviceClassName": (format!("d{i}")), "allocationMode": "ExactCount", "count": 1});
            let request = |i| value!({"name": (format!("r{i}")), "exactly": (exactly(i))});
            let claim = value!({"spec": {"devices": {"requests": (many(n, request))}}});
            (claim, quota_of(n, "requests.example.com/r"))
        }),
        ("alternatives", |n| {
            let one = |i| value!({"deviceClassName": (format!("d{i}")), "allocationMode": "All"});
            let claim = value!({"spec": {"devices": {"requests": [{"firstAvailable": (many(n, one))}]}}});
            (claim, quota_of(n, "requests.example.com/r"))
        }),
        ("ports", |n| {
            let ports = many(n, |i| value!({"nodePort": (i as i64 + 1)}));
            (value!({"spec": {"type": "NodePort", "ports": (ports)}}), quota_of(n, "requests.example.com/r"))
        }),
    ];
    check("ResourceQuota", 1_000, inputs, |(object, quota)| {
        // As many device classes as the quota has limits, each for an extended resource.
        let limits =
            quota.at(&["status", "hard"]).and_then(Value::as_object).map_or(0, |hard| hard.iter().count());
        let class = |i| value!({"metadata": {"name": (format!("d{i}"))}, "spec": {"extendedResourceName": (format!("example.com/e{i}"))}});
        let classes = many(limits, class);
        charge(Measure::ResourceClaims(DeviceClasses::of(classes.iter())), object, quota);
        charge(Measure::Services, object, quota);
        charge(Measure::VolumeClaims, object, quota);
    });
}

#[test]
fn node_restriction() {
    check_pods("NodeRestriction", 1_000, |_| Value::Null, |(pod, _)| node_restriction::check_pod(pod));
    let inputs: &[Input<Pair>] = &[
        ("labels", |n| {
            let node = |value: &str| {
                let label = |i| (format!("node-restriction.kubernetes.io/l{i}").into(), Value::from(value));
                value!({"metadata": {"name": "n", "labels": (Value::Object((0..n).map(label).collect()))}})
            };
            (node("a"), node("b"))
        }),
        ("taints", |n| {
            let node = |value: &str| {
                let taint = |i| value!({"key": (format!("k{i}")), "value": value, "effect": "NoSchedule"});
                value!({"metadata": {"name": "n"}, "spec": {"taints": (many(n, taint))}})
            };
            (node("a"), node("b"))
        }),
        ("conditions", |n| {
            let claim =
                value!({"status": {"conditions": (many(n, |i| value!({"type": (format!("t{i}"))})))}});
            (claim.clone(), claim)
        }),
    ];
    check("NodeRestriction", 2_000, inputs, |(new, old)| {
        node_restriction::check_node(new, old);
        taint_nodes_by_condition::taint(&mut new.clone());
    });
}

#[test]
fn services_and_bundles() {
    let inputs: &[Input<Pair>] = &[("externalIPs", |n| {
        let ips = |back: bool| {
            let ip = |i: usize| if back { n - 1 - i } else { i };
            let ips = many(n, |i| Value::from(format!("10.0.{}.{}", ip(i) / 256, ip(i) % 256)));
            value!({"metadata": {"name": "s"}, "spec": {"externalIPs": (ips)}})
        };
        (ips(true), ips(false))
    })];
    check("DenyServiceExternalIPs", 2_000, inputs, |(new, old)| {
        assert!(deny_service_external_ips::is_subset(new, Some(old)));
        assert!(!cluster_trust_bundle_attest::is_bookkeeping(new, old) || new == old);
    });
}

/// Certificate requests of every shape that costs something: many names, many attributes, and what is no request.
#[test]
fn certificate_requests() {
    use base64::Engine as _;
    fn request(pem: &str) -> Pair {
        let text = base64::engine::general_purpose::STANDARD.encode(pem);
        (
            value!({"spec": {"signerName": "kubernetes.io/kube-apiserver-client", "request": (text)}}),
            Value::Null,
        )
    }
    let inputs: &[Input<Pair>] = &[
        ("nothing but lines", |n| request(&"\n".repeat(40 * n))),
        ("blocks of another kind", |n| {
            request(&"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".repeat(n))
        }),
        ("headers", |n| {
            let headers = "a: b\n".repeat(8 * n);
            request(&format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{headers}\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
            ))
        }),
        ("beginnings", |n| request(&"-----BEGIN CERTIFICATE REQUEST-----\n".repeat(n))),
    ];
    check("CertificateSubjectRestriction", 5_000, inputs, |(request, _)| {
        let _ = certificate_subject_restriction::check(request);
    });
}
