//! The parts of a pod that checks of other parts may use.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::text::{list, text};

pub(crate) use corten_api::pods::CONTAINER_LISTS;

/// The field of upstream's errors about a pod as a whole: a path without a name.
pub(crate) const WHOLE_POD: &str = "[]";

#[derive(Debug, Clone, Copy)]
pub(crate) struct PodContext<'a> {
    pub(crate) spec: &'a Value,
    /// The metadata of a pod; `None` for templates.
    pub(crate) pod_metadata: Option<&'a Value>,
    /// The stored spec. Its values that would be refused today may stay; it is read
    /// only when there is an error to report.
    pub(crate) old_spec: Option<&'a Value>,
}

impl<'a> PodContext<'a> {
    pub(crate) fn is_pod(&self) -> bool {
        self.pod_metadata.is_some()
    }

    /// The pod's name, where it is known.
    pub(crate) fn pod_name(&self) -> Option<&'a str> {
        self.pod_metadata.map(|metadata| text(metadata, "name")).filter(|name| !name.is_empty())
    }

    pub(crate) fn old(&self, has: fn(&Value) -> bool) -> bool {
        self.old_spec.is_some_and(has)
    }

    pub(crate) fn is(&self, key: &str) -> bool {
        is(self.spec, key)
    }

    pub(crate) fn host_users(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true)
    }

    /// The operating system's name, if there is an operating system.
    pub(crate) fn os(&self) -> Option<&'a str> {
        self.spec.get("os").filter(|os| !os.is_null()).map(|os| text(os, "name"))
    }
}

/// Returns true if a member is true.
pub(crate) fn is(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool) == Some(true)
}

/// All containers of a specification.
pub(crate) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|key| list(spec, key))
}

/// Each container and its path.
pub(crate) fn visit_containers(
    spec: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
    visit: &mut dyn FnMut(&Value, &Field<'_>, &mut ErrorList),
) {
    for key in CONTAINER_LISTS {
        let at = at.child(key);
        for (i, container) in list(spec, key).iter().enumerate() {
            visit(container, &at.index(i), errors);
        }
    }
}

/// Returns true for a container that keeps running beside the regular ones.
pub(crate) fn is_sidecar(init_container: &Value) -> bool {
    text(init_container, "restartPolicy") == "Always"
}
