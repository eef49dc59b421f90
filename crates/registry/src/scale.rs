//! The `scale` subresource: the replicas of a workload as a small object.

use corten_api::{Value, value};

use crate::prepare::copy;
use crate::rules::{Column, RowContext, Scale};
use crate::table::{AGE, NAME, age, cells, int_at, integer, name};

impl Scale {
    /// The `autoscaling/v1` `Scale` of an object.
    pub fn of(&self, object: &Value) -> Value {
        let mut scale = value!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {},
            "status": {"replicas": (int_at(object, self.status_replicas))},
        });
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            copy(&mut scale, object, &["metadata", key]);
        }
        match int_at(object, self.spec_replicas) {
            0 => {}
            replicas => scale.set(&["spec", "replicas"], replicas),
        }
        let selector = (self.selector)(object);
        if !selector.is_empty() {
            scale.set(&["status", "selector"], selector);
        }
        scale
    }
}

/// The columns of a `Scale`.
pub const SCALE_COLUMNS: &[Column] = &[
    Column { format: "", ..NAME },
    integer("Desired", "How many pods there should be.").of("autoscaling/v1.ScaleSpec", "replicas"),
    integer("Available", "How many pods there are.").of("autoscaling/v1.ScaleStatus", "replicas"),
    AGE,
];

/// The row of a `Scale`.
pub fn scale_row(scale: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let replicas = |part: &str| int_at(scale, &[part, "replicas"]);
    cells![name(scale), replicas("spec"), replicas("status"), age(scale, context)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_what_is_counted() {
        let scale = crate::rules("apps", "deployments").unwrap().scale.unwrap();
        let object = value!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"replicas": 2},
        });
        let expected = value!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web"},
        });
        assert_eq!(scale.of(&object), expected);
        let controller = crate::rules("", "replicationcontrollers").unwrap().scale.unwrap();
        let selector = controller.of(&value!({"spec": {"selector": {"b": "2", "a": "1"}}}));
        assert_eq!(selector.str_at(&["status", "selector"]), Some("a=1,b=2"));
    }
}
