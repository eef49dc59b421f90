//! The usage of a write, measured before quotas are read.

use corten_api::Value;
use corten_quota::{DeviceClasses, Item, Measure, Neighbours, is_counted, is_terminating};

use crate::admission::{Attributes, Operation, lookup};
use crate::call::Backend;

const RESOURCE_CLAIMS: (&str, &str) = ("resource.k8s.io", "resourceclaims");

/// The demand of a write on the quotas of its namespace.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    pub measure: Measure,
    pub new: Item,
    /// The usage of the old object, which is already charged, in an update.
    pub old: Option<Item>,
    /// True for a status update, which is counted but never refused: it reports what has already happened.
    pub has_happened: bool,
    pub dry_run: bool,
}

/// True if a write can change the usage.
pub(super) fn handles(attributes: &Attributes<'_>, object: &Value) -> bool {
    let (creates, updates) = (attributes.creates(), attributes.updates());
    match (attributes.resource(), attributes.subresource) {
        (("", "pods"), "") => {
            let changes_scope = |old| is_terminating(old) != is_terminating(object);
            creates || (updates && attributes.old.is_some_and(changes_scope))
        }
        (("", "pods"), "resize") => updates,
        (("", "persistentvolumeclaims"), "status") => updates,
        (("", "services" | "persistentvolumeclaims") | ("resource.k8s.io", "resourceclaims"), "") => {
            creates || updates
        }
        (resource, "") => creates && is_counted(resource.0, resource.1),
        _ => false,
    }
}

impl Demand {
    pub(super) fn measure(attributes: &Attributes<'_>, object: &Value) -> Demand {
        let (group, resource) = attributes.resource();
        let backend = attributes.backend();
        let measure = Measure::of(group, resource, || device_classes(backend));
        let neighbours = Namespace(attributes);
        let item = |object: &Value| measure.item(object, &neighbours, attributes.call.now);
        let old = attributes.old.filter(|_| attributes.operation == Operation::Update);
        Demand {
            new: item(object),
            old: old.map(item),
            has_happened: attributes.subresource == "status",
            dry_run: attributes.dry_run,
            measure,
        }
    }
}

fn device_classes(backend: &Backend) -> DeviceClasses {
    let classes = lookup::list(backend, ("resource.k8s.io", "deviceclasses"), "");
    DeviceClasses::of(classes.iter().map(|class| class.parsed()))
}

/// The namespace of the write.
struct Namespace<'a>(&'a Attributes<'a>);

impl Neighbours for Namespace<'_> {
    fn pod(&self, name: &str) -> Option<Value> {
        let pod = lookup::get(self.0.backend(), ("", "pods"), self.0.namespace(), name)?;
        Some(pod.tree())
    }

    fn resource_claims(&self) -> Vec<Value> {
        let claims = lookup::list(self.0.backend(), RESOURCE_CLAIMS, self.0.namespace());
        claims.iter().map(|claim| claim.tree()).collect()
    }
}
