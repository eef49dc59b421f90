//! The smallest valid object of every kind, and a status for it where it has one.
//!
//! Valid by upstream's rules, so that stricter validation never breaks a test of another feature.

use serde_json::{Value, json};

use crate::Served;

/// A certificate request that is signed by the key it names.
const STUB_REQUEST: &str = "MIHKMHICAQAwEDEOMAwGA1UEAwwFdndvcmswWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARuRfscr1oLFaq0J/iqyDExJEOO15uy\
                            lMIqZpU2nEmXZ9RoRyckxXH7QMmWkhKyR6hBuhEh1SGCcTHkw3XOdYGSoAAwCgYIKoZIzj0EAwIDSAAwRQIgJGF98FN6Bs+KEBZO\
                            TnLGEgnrrK+bbp/gnMHyhEyw19wCIQCvon/dPnMaPpP0yDvFhYaqFwWoFaU//1ZPmcxWUUGtgA==";

/// An object to create, and a status to give it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its name.
    pub name: String,
    /// The whole object.
    pub object: Value,
    /// The status to write, if it has one.
    pub status: Option<Value>,
}

/// The sample for a served kind, named after `base`; none if there is no manifest for it yet.
pub fn sample(served: &Served, base: &str) -> Option<Sample> {
    let name = name_of(&served.kind, base);
    let mut object = body_of(served, &name)?;
    object["apiVersion"] = served.api_version().into();
    object["kind"] = served.kind.as_str().into();
    object["metadata"] = json!({"name": name, "labels": {"sample": base}});
    Some(Sample { name, object, status: status_of(served) })
}

/// The definition of a custom resource with any fields, `widgets.example.com`.
pub fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

/// A pod that asks for one container.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": pod_spec(),
    })
}

/// Most names are arbitrary; some are determined by the object.
fn name_of(kind: &str, base: &str) -> String {
    match kind {
        "APIService" => format!("v1.{base}.example.com"),
        "CustomResourceDefinition" => format!("widgets.{base}.example.com"),
        "ClusterTrustBundle" => format!("example.com:{base}:bundle"),
        "IPAddress" => "192.0.2.7".to_owned(),
        "StorageVersion" => format!("{base}.widgets"),
        _ => base.to_owned(),
    }
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "main", "image": "registry.example/image:1"}]})
}

fn template(restart_policy: &str) -> Value {
    let mut spec = pod_spec();
    spec["restartPolicy"] = restart_policy.into();
    json!({"metadata": {"labels": {"app": "a"}}, "spec": spec})
}

fn workload(restart_policy: &str) -> Value {
    json!({"selector": {"matchLabels": {"app": "a"}}, "template": template(restart_policy)})
}

fn body_of(served: &Served, name: &str) -> Option<Value> {
    let body = match served.kind.as_str() {
        "ConfigMap" => json!({"data": {"key": "value"}}),
        "Secret" => json!({"type": "Opaque", "data": {"key": "dmFsdWU="}}),
        "Endpoints" => json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}),
        "Event" if served.group.is_empty() => json!({
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "reason": "Tested", "message": "it was", "type": "Normal",
        }),
        "Event" => json!({
            "eventTime": "2026-01-02T03:04:05.000006Z",
            "reportingController": "example.com/tester", "reportingInstance": "tester-1",
            "action": "Testing", "reason": "Tested", "type": "Normal", "note": "it was",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        }),
        "LimitRange" => json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}),
        "Namespace" | "ServiceAccount" | "Node" | "Role" | "ClusterRole" => json!({}),
        "PersistentVolumeClaim" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}),
        "PersistentVolume" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"},
        }}),
        "Pod" => json!({"spec": pod_spec()}),
        "PodTemplate" => json!({"template": template("Always")}),
        "ReplicationController" => {
            json!({"spec": {"selector": {"app": "a"}, "template": template("Always")}})
        }
        "ResourceQuota" => json!({"spec": {"hard": {"pods": "10"}}}),
        "Service" => json!({"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}),
        "Deployment" | "DaemonSet" | "ReplicaSet" => json!({"spec": workload("Always")}),
        "StatefulSet" => {
            let mut spec = workload("Always");
            spec["serviceName"] = "a".into();
            json!({"spec": spec})
        }
        "ControllerRevision" => json!({"revision": 1, "data": {"spec": {}}}),
        "Job" => json!({"spec": {"template": template("Never")}}),
        "CronJob" => json!({"spec": {
            "schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template("Never")}},
        }}),
        "HorizontalPodAutoscaler" => json!({"spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3,
        }}),
        "PodDisruptionBudget" => {
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}})
        }
        _ => return body_of_machinery(served, name),
    };
    Some(body)
}

/// Kinds of the control plane rather than of workloads.
fn body_of_machinery(served: &Served, name: &str) -> Option<Value> {
    let body = match served.kind.as_str() {
        "APIService" => {
            let group = name.strip_prefix("v1.").unwrap_or(name);
            json!({"spec": {
                "group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            }})
        }
        "CustomResourceDefinition" => {
            let group = name.strip_prefix("widgets.").unwrap_or(name);
            json!({"spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            }})
        }
        "CertificateSigningRequest" => json!({"spec": {
            "signerName": "example.com/signer", "usages": ["client auth"], "request": CERTIFICATE_REQUEST,
        }}),
        "ClusterTrustBundle" => {
            let signer = name.rsplit_once(':').map_or(name, |(signer, _)| signer);
            json!({"spec": {"signerName": signer.replace(':', "/"), "trustBundle": ROOT}})
        }
        "PodCertificateRequest" => json!({"spec": {
            "signerName": "example.com/signer", "podName": "p", "podUID": UID, "nodeName": "n",
            "nodeUID": UID, "serviceAccountName": "default", "serviceAccountUID": UID,
            "stubPKCS10Request": STUB_REQUEST,
        }}),
        "IngressClass" => json!({"spec": {"controller": "example.com/controller"}}),
        "Ingress" => {
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
        }
        "IPAddress" => json!({"spec": {
            "parentRef": {"resource": "services", "namespace": "default", "name": "s"},
        }}),
        "NetworkPolicy" => json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
        "ServiceCIDR" => json!({"spec": {"cidrs": ["198.51.100.0/24"]}}),
        "ClusterRoleBinding" => role_binding("ClusterRole"),
        "RoleBinding" => role_binding("Role"),
        "CSIDriver" => json!({"spec": {}}),
        "CSINode" => json!({"spec": {"drivers": [{"name": "driver.example.com", "nodeID": "n"}]}}),
        "CSIStorageCapacity" => json!({"storageClassName": "fast"}),
        "StorageClass" => json!({"provisioner": "driver.example.com"}),
        "VolumeAttachment" => json!({"spec": {
            "attacher": "driver.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"},
        }}),
        "VolumeAttributesClass" => json!({"driverName": "driver.example.com", "parameters": {"iops": "5"}}),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => json!({"webhooks": []}),
        "ValidatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": match_constraints(), "validations": [{"expression": "true"}],
            "failurePolicy": "Ignore",
        }}),
        "ValidatingAdmissionPolicyBinding" => {
            json!({"spec": {"policyName": "policy", "validationActions": ["Deny"]}})
        }
        "MutatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": match_constraints(), "reinvocationPolicy": "Never", "failurePolicy": "Ignore",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
                "expression": "[JSONPatch{op: \"test\", path: \"/kind\", value: \"Deployment\"}]",
            }}],
        }}),
        "MutatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "policy"}}),
        "PriorityClass" => json!({"value": 10}),
        "Lease" => json!({"spec": {"holderIdentity": "holder", "leaseDurationSeconds": 10}}),
        "LeaseCandidate" => json!({"spec": {
            "leaseName": "lease", "binaryVersion": "1.37.0", "emulationVersion": "1.37.0",
            "strategy": "OldestEmulationVersion",
        }}),
        "RuntimeClass" => json!({"handler": "handler"}),
        "EndpointSlice" => json!({
            "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"port": 80}],
        }),
        "FlowSchema" => json!({"spec": {
            "priorityLevelConfiguration": {"name": "catch-all"}, "matchingPrecedence": 5000,
        }}),
        "PriorityLevelConfiguration" => json!({"spec": {
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
        }}),
        "StorageVersionMigration" => json!({"spec": {"resource": {"group": "", "resource": "secrets"}}}),
        _ => return body_of_devices(served),
    };
    Some(body)
}

/// Dynamic resources, and kinds that schedule by them.
fn body_of_devices(served: &Served) -> Option<Value> {
    let request = match served.version.as_str() {
        "v1beta1" => json!({"name": "r", "deviceClassName": "c"}),
        _ => json!({"name": "r", "exactly": {"deviceClassName": "c"}}),
    };
    let claim = json!({"devices": {"requests": [request]}});
    let group = json!({"basic": {}});
    Some(match served.kind.as_str() {
        "DeviceClass" => json!({"spec": {}}),
        "DeviceTaintRule" => json!({"spec": {
            "deviceSelector": {"driver": "driver.example.com"},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        }}),
        "ResourceClaim" => json!({"spec": claim}),
        "ResourceClaimTemplate" => json!({"spec": {"spec": claim}}),
        "ResourceSlice" => json!({"spec": {
            "driver": "driver.example.com", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }}),
        "ResourcePoolStatusRequest" => json!({"spec": {"driver": "driver.example.com"}}),
        "PodGroup" => json!({"spec": {"schedulingPolicy": group}}),
        "CompositePodGroup" => json!({"spec": {"schedulingPolicy": group}}),
        "Workload" => json!({"spec": {"podGroupTemplates": [{"name": "g", "schedulingPolicy": group}]}}),
        "EvictionRequest" => json!({"spec": {
            "intent": "Evict", "requester": "example.com/requester", "target": {"pod": {"name": "p", "uid": UID}},
        }}),
        "Eviction" => json!({"spec": {"target": {"pod": {"name": "p", "uid": UID}}}}),
        "StorageVersion" => json!({"spec": {}}),
        _ => return None,
    })
}

fn role_binding(kind: &str) -> Value {
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "role"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "user"}],
    })
}

fn match_constraints() -> Value {
    json!({"resourceRules": [{
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"],
    }]})
}

/// Statuses that upstream's validation accepts for a new object.
fn status_of(served: &Served) -> Option<Value> {
    Some(match served.kind.as_str() {
        "Namespace" => json!({"phase": "Active", "conditions": [condition()]}),
        "Node" => json!({"phase": "Running", "conditions": [{
            "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }]}),
        "PersistentVolumeClaim" => json!({"phase": "Bound"}),
        "PersistentVolume" => json!({"phase": "Available"}),
        "Pod" => json!({"phase": "Running"}),
        "ReplicationController" | "ReplicaSet" | "StatefulSet" | "Deployment" => json!({"replicas": 1}),
        "DaemonSet" => json!({
            "currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1,
        }),
        "ResourceQuota" => json!({"hard": {"pods": "10"}, "used": {"pods": "1"}}),
        "HorizontalPodAutoscaler" => json!({"currentReplicas": 1, "desiredReplicas": 1}),
        "CronJob" => json!({"lastScheduleTime": "2026-01-02T03:00:00Z"}),
        "Job" => json!({"active": 1}),
        "PodDisruptionBudget" => {
            json!({"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "disruptionsAllowed": 0})
        }
        "Ingress" => json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
        "VolumeAttachment" => json!({"attached": true}),
        // The condition is the API server's.
        "APIService" => json!({"conditions": [{
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}),
        "Service" | "ServiceCIDR" | "ValidatingAdmissionPolicy" | "DeviceTaintRule" | "PodGroup" => {
            json!({"conditions": [condition()]})
        }
        // Its conditions are the API server's.
        "CustomResourceDefinition" => json!({"storedVersions": ["v1"]}),
        "FlowSchema" | "PriorityLevelConfiguration" => {
            json!({"conditions": [{"type": "Dangling", "status": "False"}]})
        }
        "CertificateSigningRequest" => {
            json!({"conditions": [{"type": "Failed", "status": "True", "reason": "Tested"}]})
        }
        _ => return None,
    })
}

fn condition() -> Value {
    json!({
        "type": "Tested", "status": "True", "reason": "Tested", "message": "it was",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

const UID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

/// A PEM certificate request for CN=sample, in base64 as JSON requires.
const CERTIFICATE_REQUEST: &str = "\
LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlITE1ITUNBUUF3RVRFUE1BMEdBMVVFQXd3R2MyRn\
RjR3hsTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowRApBUWNEUWdBRTFBWVBxcEMycDdETXVrZ2V0cE4yc3ZQUTlr\
NUJwY3dRWmp3OHpRQ1czdUo5cVJCSi9VTnFObVVQCnZRS3hKWEZ1TThnRGxjVjJHWlJyRXJoRk5JeFpvcUFBTUFvR0\
NDcUdTTTQ5QkFNQ0EwZ0FNRVVDSVFDdVp1V04KTzFqL2xXdk96c2I2MzFvcWRRa1RFOU9ydnF6ZlcyNHJ1WVdLWVFJ\
Z2JZeFRFdXNtd3hReG9LdEZOMzBqc0Uzcwo1SFZWSGpFL3JpMksvYTU1M20wPQotLS0tLUVORCBDRVJUSUZJQ0FURS\
BSRVFVRVNULS0tLS0K";

/// A self-signed certificate authority that signs nothing.
const ROOT: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBcDCCARagAwIBAgIBATAKBggqhkjOPQQDAjAWMRQwEgYDVQQDDAtzYW1wbGUt\n\
cm9vdDAgFw0yNjExMTUyMTM3MDZaGA8yMTI2MTAyMjIxMzcwNlowFjEUMBIGA1UE\n\
AwwLc2FtcGxlLXJvb3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARW3jmD8MST\n\
MmEfl1eYzH+IYwwLDaKmEMLpAENB2QLT7WPBYuJ4zfL22+O6yxoKV5oq1Or+Sv3I\n\
z/WIWh+xtODEo1MwUTAdBgNVHQ4EFgQUXEgLyq7XM/FAQfcqpTOqDcOXy8kwHwYD\n\
VR0jBBgwFoAUXEgLyq7XM/FAQfcqpTOqDcOXy8kwDwYDVR0TAQH/BAUwAwEB/zAK\n\
BggqhkjOPQQDAgNIADBFAiBPC7vvXSs5Z222Xn60kSwHSxMTr2eM4qLYEr0UYDh7\n\
3gIhAKBFIgnCFKUsqzCMe22QziPgIOMEPjY/LZO3Z5nEEKrW\n\
-----END CERTIFICATE-----\n";
