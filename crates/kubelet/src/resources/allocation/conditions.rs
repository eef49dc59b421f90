//! The state of a resize, as conditions and events of a pod.

use corten_api::{Map, Value, json, time, value};
use jiff::Timestamp;

use crate::pod::{Container, Pod, Role};

const PENDING: &str = "PodResizePending";
const PROGRESS: &str = "PodResizeInProgress";

/// The state of a pod's resize.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resizing {
    /// The pod requests resources that are not allocated.
    pub(super) pending: Option<Condition>,
    /// Allocated resources are not actuated yet.
    pub(super) progress: Option<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) reason: String,
    pub(super) message: String,
    /// The pod's generation when it requested the resize.
    pub(super) generation: i64,
    pub(super) since: Timestamp,
}

impl Resizing {
    /// The types of the conditions that only this module writes.
    pub(crate) const KINDS: [&'static str; 2] = [PENDING, PROGRESS];

    /// Reads the state from a pod's status, so that it survives a restart of the kubelet.
    pub(super) fn read(pod: &Pod, now: Timestamp) -> Resizing {
        let find = |kind: &str| {
            let conditions = pod.tree().items_at(&["status", "conditions"]).iter();
            let found = conditions.into_iter().find(|c| c.str_at(&["type"]) == Some(kind))?;
            let text = |key: &str| found.str_at(&[key]).unwrap_or_default().to_owned();
            Some(Condition {
                reason: text("reason"),
                message: text("message"),
                generation: found.int_at(&["observedGeneration"]).unwrap_or(0),
                since: text("lastTransitionTime").parse().unwrap_or(now),
            })
        };
        Resizing { pending: find(PENDING), progress: find(PROGRESS) }
    }

    /// Defers the resize. Returns true if that is a change.
    pub(super) fn defer(&mut self, generation: i64, why: &str, now: Timestamp) -> bool {
        let before = self.pending.take();
        let same = before.as_ref().is_some_and(|c| c.reason == "Deferred" && c.generation == generation);
        let since = before.filter(|c| c.reason == "Deferred").map_or(now, |c| c.since);
        let (reason, message) = ("Deferred".to_owned(), why.to_owned());
        self.pending = Some(Condition { reason, message, generation, since });
        !same
    }

    /// Marks the resize as in progress; a no-op if it already is.
    pub(super) fn proceed(&mut self, generation: i64, now: Timestamp) {
        self.progress.get_or_insert_with(|| Condition { generation, since: now, ..Condition::default() });
    }

    /// Marks the resize as failed. Returns its generation if that is a change.
    pub(super) fn fail(&mut self, generation: i64, why: &str, now: Timestamp) -> Option<i64> {
        self.proceed(generation, now);
        let progress = self.progress.as_mut()?;
        if progress.reason == "Error" && progress.message == why {
            return None;
        }
        if progress.reason != "Error" {
            progress.since = now;
        }
        (progress.reason, progress.message) = ("Error".to_owned(), why.to_owned());
        Some(progress.generation)
    }

    /// The conditions of the status.
    pub(crate) fn written(&self) -> Vec<Value> {
        let both = [(PENDING, &self.pending), (PROGRESS, &self.progress)];
        both.into_iter().filter_map(|(kind, condition)| Some(condition.as_ref()?.written(kind))).collect()
    }
}

impl Condition {
    fn written(&self, kind: &str) -> Value {
        let mut condition = Map::new();
        condition.insert("type", kind);
        condition.insert("status", "True");
        condition.insert("lastProbeTime", Value::Null);
        condition.insert("lastTransitionTime", Value::from(time::format(self.since)));
        if self.generation != 0 {
            condition.insert("observedGeneration", self.generation);
        }
        for (key, text) in [("reason", &self.reason), ("message", &self.message)] {
            if !text.is_empty() {
                condition.insert(key, text.as_str());
            }
        }
        Value::Object(condition)
    }
}

/// The message of a resize event: the resources of all containers. Members are in upstream's order, which is not
/// alphabetical.
pub(super) fn summary(beginning: &str, pod: &Pod, generation: i64, err: &str) -> String {
    let of = |roles: &[Role]| -> Vec<Value> {
        let containers = pod.containers().iter().filter(|c| roles.contains(&c.role));
        let entry = |container: &Container| {
            let resources = container.tree.get("resources").cloned().unwrap_or_else(Value::object);
            value!({"name": (container.name.clone()), "resources": (resources)})
        };
        containers.map(entry).collect()
    };
    let mut members = Vec::new();
    for (name, list) in
        [("initContainers", of(&[Role::Init, Role::Sidecar])), ("containers", of(&[Role::Main]))]
    {
        if !list.is_empty() {
            members.push(format!("\"{name}\":{}", json::write_to_string(&Value::from(list))));
        }
    }
    members.push(format!("\"generation\":{generation}"));
    if !err.is_empty() {
        members.push(format!("\"error\":{}", json::write_to_string(&Value::from(err))));
    }
    format!("{beginning}: {{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;

    #[test]
    fn events_list_the_resources_of_all_containers() {
        let tree = value!({"spec": {"containers": [
            {"name": "c1", "resources": {"requests": {"cpu": "5", "memory": "4500Mi"}}}, {"name": "c2"},
        ]}});
        let told = summary("Pod resize OutOfcpu", &Pod::new(tree, Source::Api), 2, "why");
        let expected = r#"Pod resize OutOfcpu: {"containers":[{"name":"c1","resources":{"requests":{"cpu":"5","memory":"4500Mi"}}},{"name":"c2","resources":{}}],"generation":2,"error":"why"}"#;
        assert_eq!(told, expected);
    }

    #[test]
    fn only_changes_are_reported() {
        let now = |second| Timestamp::from_second(second).unwrap();
        let mut resizing = Resizing::default();
        assert!(resizing.defer(2, "no room", now(1)));
        assert!(!resizing.defer(2, "still no room", now(2)));
        assert!(resizing.defer(3, "no room", now(3)));
        let pending = resizing.pending.clone().unwrap();
        assert_eq!((pending.since, pending.generation), (now(1), 3));
        resizing.proceed(3, now(4));
        assert_eq!(resizing.fail(4, "no", now(5)), Some(3));
        assert_eq!(resizing.fail(4, "no", now(6)), None);
        resizing.proceed(4, now(7));
        let kinds: Vec<String> =
            resizing.written().iter().map(|c| c.str_at(&["reason"]).unwrap_or_default().to_owned()).collect();
        assert_eq!(kinds, ["Deferred", "Error"]);
    }
}
