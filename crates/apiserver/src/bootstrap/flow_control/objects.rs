//! The bootstrap priority levels and flow schemas.

use corten_api::{Value, meta, value};

use super::{AUTO_UPDATE, EXEMPT, Kind, LEVELS, SCHEMAS};

/// A mandatory or suggested object.
pub(super) struct Wanted {
    pub(super) mandatory: bool,
    pub(super) object: Value,
}

/// A level with queues: name, shares, lendable percentage, queues, hand size.
const QUEUED: [(&str, i64, i64, i64, i64); 6] = [
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
];
const QUEUE_LENGTH: i64 = 50;

const CATCH_ALL: &str = "catch-all";
const ALL: &[&str] = &["*"];
const BY_USER: Option<&str> = Some("ByUser");
const BY_NAMESPACE: Option<&str> = Some("ByNamespace");
const ALL_USERS: &[Subject] =
    &[Subject::Group("system:unauthenticated"), Subject::Group("system:authenticated")];
const SYSTEM_ACCOUNTS: Subject = Subject::ServiceAccounts("kube-system");
const NODES: &[Subject] = &[Subject::Group("system:nodes")];

#[derive(Clone, Copy)]
enum Subject {
    Group(&'static str),
    User(&'static str),
    /// All service accounts of a namespace.
    ServiceAccounts(&'static str),
}

/// Resource requests: verbs, API group, resources, and true to include cluster scope.
type Resources = (&'static [&'static str], &'static str, &'static [&'static str], bool);

struct Schema {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: Option<&'static str>,
    subjects: &'static [Subject],
    resources: &'static [Resources],
    /// Verbs and paths.
    others: Option<(&'static [&'static str], &'static [&'static str])>,
}

const EVERYTHING: &[Resources] = &[(ALL, "*", ALL, true)];

const fn whole(
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: Option<&'static str>,
    subjects: &'static [Subject],
) -> Schema {
    let (resources, others) = (EVERYTHING, Some((ALL, ALL)));
    Schema { name, level, precedence, distinguisher, subjects, resources, others }
}

const FLOW_SCHEMAS: [Schema; 11] = [
    whole(EXEMPT, EXEMPT, 1, None, &[Subject::Group("system:masters")]),
    whole(CATCH_ALL, CATCH_ALL, 10_000, BY_USER, ALL_USERS),
    Schema {
        name: "probes",
        level: EXEMPT,
        precedence: 2,
        distinguisher: None,
        subjects: ALL_USERS,
        resources: &[],
        others: Some((&["get"], &["/healthz", "/readyz", "/livez"])),
    },
    Schema {
        name: "system-leader-election",
        level: "leader-election",
        precedence: 100,
        distinguisher: BY_USER,
        subjects: &[
            Subject::User("system:kube-controller-manager"),
            Subject::User("system:kube-scheduler"),
            SYSTEM_ACCOUNTS,
        ],
        resources: &[(&["get", "create", "update"], "coordination.k8s.io", &["leases"], false)],
        others: None,
    },
    Schema {
        name: "system-node-high",
        level: "node-high",
        precedence: 400,
        distinguisher: BY_USER,
        subjects: NODES,
        resources: &[
            (ALL, "", &["nodes", "nodes/status"], true),
            (ALL, "coordination.k8s.io", &["leases"], false),
        ],
        others: None,
    },
    whole("system-nodes", "system", 500, BY_USER, NODES),
    whole(
        "kube-controller-manager",
        "workload-high",
        800,
        BY_NAMESPACE,
        &[Subject::User("system:kube-controller-manager")],
    ),
    whole("kube-scheduler", "workload-high", 800, BY_NAMESPACE, &[Subject::User("system:kube-scheduler")]),
    whole("kube-system-service-accounts", "workload-high", 900, BY_NAMESPACE, &[SYSTEM_ACCOUNTS]),
    whole("service-accounts", "workload-low", 9000, BY_USER, &[Subject::Group("system:serviceaccounts")]),
    whole("global-default", "global-default", 9900, BY_USER, ALL_USERS),
];

fn wanted(kind: &Kind, name: &str, spec: Value) -> Wanted {
    let mut object = kind.named("", name);
    object.set(&["metadata", "annotations", AUTO_UPDATE], "true");
    object.set(&["spec"], spec);
    debug_assert_eq!(meta::name(&object), name);
    Wanted { mandatory: matches!(name, EXEMPT | CATCH_ALL), object }
}

pub(super) fn levels() -> Vec<Wanted> {
    let exempt = value!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let catch_all = value!({"type": "Limited", "limited": {
        "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
    }});
    let queued = QUEUED.into_iter().map(|(name, shares, lendable, queues, hand)| {
        let spec = value!({"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": {
                "type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH},
            },
        }});
        wanted(&LEVELS, name, spec)
    });
    queued.chain([wanted(&LEVELS, EXEMPT, exempt), wanted(&LEVELS, CATCH_ALL, catch_all)]).collect()
}

pub(super) fn schemas() -> Vec<Wanted> {
    FLOW_SCHEMAS.iter().map(|schema| wanted(&SCHEMAS, schema.name, spec(schema))).collect()
}

fn texts(items: &[&str]) -> Value {
    items.iter().map(|item| Value::from(*item)).collect::<Vec<_>>().into()
}

fn spec(schema: &Schema) -> Value {
    let mut rule = Value::object();
    rule.set(&["subjects"], schema.subjects.iter().map(subject).collect::<Vec<_>>());
    if !schema.resources.is_empty() {
        rule.set(&["resourceRules"], schema.resources.iter().map(resource_rule).collect::<Vec<_>>());
    }
    if let Some((verbs, paths)) = schema.others {
        let mut others = Value::object();
        others.set(&["verbs"], texts(verbs));
        others.set(&["nonResourceURLs"], texts(paths));
        rule.set(&["nonResourceRules"], vec![others]);
    }
    let mut spec = Value::object();
    spec.set(&["priorityLevelConfiguration", "name"], schema.level);
    spec.set(&["matchingPrecedence"], schema.precedence);
    if let Some(distinguisher) = schema.distinguisher {
        spec.set(&["distinguisherMethod", "type"], distinguisher);
    }
    spec.set(&["rules"], vec![rule]);
    spec
}

fn subject(subject: &Subject) -> Value {
    match *subject {
        Subject::Group(name) => value!({"kind": "Group", "group": {"name": name}}),
        Subject::User(name) => value!({"kind": "User", "user": {"name": name}}),
        Subject::ServiceAccounts(namespace) => {
            value!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": namespace}})
        }
    }
}

fn resource_rule(&(verbs, group, resources, cluster_scope): &Resources) -> Value {
    let mut rule = Value::object();
    rule.set(&["verbs"], texts(verbs));
    rule.set(&["apiGroups"], texts(&[group]));
    rule.set(&["resources"], texts(resources));
    if cluster_scope {
        rule.set(&["clusterScope"], true);
    }
    rule.set(&["namespaces"], texts(ALL));
    rule
}
