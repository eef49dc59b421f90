//! An autoscaler with its target, pods and metrics, for tests.

use corten_api::{Str, value};

use super::super::*;
use crate::testing::{at, at_text, cached};

/// A pod of the target that has been ready for long, and requests one core.
pub(super) fn pod(name: &str) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": (name), "namespace": "default", "uid": (name), "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1000"}}}]},
        "status": {
            "phase": "Running", "startTime": (at_text(-3600)),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": (at_text(-3500))}],
        },
    })
}

pub(super) fn with(mut tree: Value, path: &[&str], value: impl Into<Value>) -> Value {
    tree.set(path, value);
    tree
}

/// A pod with a Ready condition since some time, and an earlier start.
pub(super) fn readiness(pod: Value, ready: bool, since: i64, started: i64) -> Value {
    let status = if ready { "True" } else { "False" };
    let condition = value!({"type": "Ready", "status": (status), "lastTransitionTime": (at_text(since))});
    let pod = with(pod, &["status", "conditions"], vec![condition]);
    with(pod, &["status", "startTime"], at_text(started))
}

pub(super) fn utilization(percent: i64) -> Value {
    value!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": (percent)}}})
}

/// The outcome of one reconcile.
#[derive(Debug)]
pub(super) struct Reconciled {
    pub(super) scaled: Option<i64>,
    pub(super) asked: Vec<String>,
    pub(super) events: Vec<String>,
}

pub(super) struct Scene {
    pub(super) controller: HorizontalPodAutoscalers,
    pub(super) hpa: Value,
    pub(super) scale: Value,
    pub(super) pods: Vec<Value>,
    /// The responses by the prefix of a path.
    pub(super) served: Vec<(String, Value)>,
    /// The error of writing the scale.
    pub(super) refusal: Option<Error>,
    pub(super) now: i64,
}

impl Scene {
    /// Replicas between 1 and 10, a pod for each replica, and a metric.
    pub(super) fn new(replicas: i64, metric: Value) -> Scene {
        let hpa = value!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "hpa", "namespace": "default", "uid": "h", "generation": 2},
            "spec": {
                "minReplicas": 1, "maxReplicas": 10,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [(metric)],
            },
        });
        let scale = value!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "web", "namespace": "default", "uid": "d", "resourceVersion": "7"},
            "spec": {"replicas": (replicas)}, "status": {"replicas": (replicas), "selector": "app=web"},
        });
        let pods = (0..replicas).map(|number| pod(&format!("p{number}"))).collect();
        let options = HorizontalPodAutoscalerOptions {
            cpu_initialization_period: Duration::from_secs(120),
            initial_readiness_delay: Duration::from_secs(10),
            ..HorizontalPodAutoscalerOptions::default()
        };
        let controller = HorizontalPodAutoscalers::new(options);
        Scene { controller, hpa, scale, pods, served: Vec::new(), refusal: None, now: 0 }
    }

    /// Sets the response of paths with a prefix.
    pub(super) fn serve(mut self, path: &str, answer: Value) -> Scene {
        self.served.retain(|(known, _)| known != path);
        self.served.push((path.to_owned(), answer));
        self
    }

    /// The usage of a resource by the pods, in order; further values are of unknown pods.
    pub(super) fn usage(self, resource: &str, usage: &[&str]) -> Scene {
        let item = |(number, used): (usize, &&str)| {
            let mut container = value!({"name": "main"});
            container.set(&["usage", resource], *used);
            value!({
                "metadata": {"name": (format!("p{number}")), "namespace": "default"},
                "timestamp": (at_text(self.now)), "window": "1m0s", "containers": [(container)],
            })
        };
        let items: Vec<Value> =
            usage.iter().enumerate().filter(|(_, used)| !used.is_empty()).map(item).collect();
        let mut list = value!({"kind": "PodMetricsList"});
        list.set(&["items"], items);
        self.serve("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods", list)
    }

    pub(super) fn cpu(self, usage: &[&str]) -> Scene {
        self.usage("cpu", usage)
    }

    /// Serves custom metrics, with these values at a path.
    pub(super) fn custom(self, path: &str, values: &[(&str, &str)]) -> Scene {
        let item = |(name, measured): &(&str, &str)| value!({"describedObject": {"name": (*name)}, "value": (*measured), "timestamp": (at_text(0))});
        let mut list = Value::object();
        list.set(&["items"], values.iter().map(item).collect::<Vec<_>>());
        let group = value!({"versions": [{"groupVersion": "custom.metrics.k8s.io/v1beta1"}, {"groupVersion": "custom.metrics.k8s.io/v1beta2"}]});
        self.serve(&format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/{path}"), list)
            .serve("/apis/custom.metrics.k8s.io", group)
    }

    pub(super) fn change(mut self, path: &[&str], value: impl Into<Value>) -> Scene {
        self.hpa.set(path, value);
        self
    }

    pub(super) fn change_pod(mut self, number: usize, change: impl FnOnce(Value) -> Value) -> Scene {
        self.pods[number] = change(std::mem::take(&mut self.pods[number]));
        self
    }

    fn answer(&self, path: &str) -> Result<Value, Error> {
        if path.ends_with("/scale") {
            return match self.scale.is_null() {
                false => Ok(self.scale.clone()),
                true => Err(corten_api::Status::not_found("apps", "deployments", "web").into()),
            };
        }
        let is_at = |(known, _): &&(String, Value)| path == known || path.starts_with(&format!("{known}?"));
        let found = self.served.iter().find(is_at).map(|(_, answer)| answer.clone());
        found.ok_or_else(|| Error::transport("404 Not Found: 404 page not found"))
    }

    /// Reconciles once.
    pub(super) fn reconcile(&mut self) -> Reconciled {
        let key = Key::new("default", "hpa");
        let pods: Vec<_> = self.pods.iter().map(cached).collect();
        let mut world = Some(self.controller.world(self.hpa.clone(), pods));
        let mut asked = Vec::new();
        loop {
            let paths = self.controller.ask(&world);
            if paths.is_empty() {
                break;
            }
            for path in paths {
                assert!(!asked.contains(&path), "{path} is asked twice");
                let answer = self.answer(&path);
                self.controller.learn(&mut world, &path, answer);
                asked.push(path);
            }
        }
        let plan = self.controller.plan(&key, &world, at(self.now));
        assert_eq!(plan.requeue_after, Some(self.controller.options.sync_period));
        let (mut report, mut scaled) = (Report::default(), None);
        for action in plan.actions() {
            let Action::Scale { object, .. } = action else { panic!("{action:?}") };
            let result = match &self.refusal {
                Some(error) => Err(error.clone()),
                None => {
                    scaled = object.int_at(&["spec", "replicas"]);
                    self.scale.set(&["spec", "replicas"], scaled.unwrap());
                    Ok(object.clone())
                }
            };
            report.outcomes.push(corten_reconcile::Outcome { action: action.clone(), result });
        }
        let conclusion = self.controller.conclude(&key, &world, &report, at(self.now));
        for action in conclusion.actions() {
            let Action::Update { object, subresource: "status", .. } = action else { panic!("{action:?}") };
            self.hpa = object.clone();
        }
        let events =
            conclusion.events.iter().map(|event| format!("{} {}", event.reason, event.message)).collect();
        Reconciled { scaled, asked, events }
    }

    /// Status, reason and message of a condition.
    #[track_caller]
    pub(super) fn condition(&self, kind: &str) -> [Str; 3] {
        let condition = crate::conditions::condition(&self.hpa, kind).unwrap_or_else(|| panic!("no {kind}"));
        ["status", "reason", "message"].map(|key| Str::new(condition.str_at(&[key]).unwrap_or_default()))
    }

    /// The desired replicas after one reconcile.
    pub(super) fn wanted(mut self) -> i64 {
        self.reconcile();
        self.scale.int_at(&["spec", "replicas"]).unwrap()
    }
}
