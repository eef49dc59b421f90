//! Owners of an object as its `scale` subresource shows them, and back.
//!
//! Invariants: `Scale` has one field that can be owned, `spec.replicas`; an object's entry is an owner of it
//! exactly if it owns the field that the scale endpoint sets. Taking `spec.replicas` through the scale
//! endpoint takes that field from its owner.

use super::element::Element;
use super::entries::{self, Entry};
use super::set::Set;
use crate::value::Value;

const SCALE_VERSION: &str = "autoscaling/v1";

/// The owners that a `Scale` made from an object has. `replicas` names the object's own field.
pub fn to_scale(managed_fields: Option<&Value>, replicas: &[&str]) -> Option<Value> {
    let path = path(replicas);
    let owners = entries::trusted(managed_fields).into_iter().filter_map(|mut entry| {
        let owns = Set::parse(entry.text()).is_ok_and(|set| set.contains(&path));
        owns.then(|| {
            entry.replace(SCALE_VERSION, in_scale());
            entry
        })
    });
    entries::encode(owners.collect())
}

/// The owners of an object after its `Scale` was written. `before` are the object's, `scaled` those of the
/// written `Scale`; `api_version` is the object's.
pub fn from_scale(
    before: Option<&Value>,
    scaled: Option<&Value>,
    api_version: &str,
    replicas: &[&str],
) -> Option<Value> {
    let path = path(replicas);
    let mut scaled = entries::trusted(scaled);
    let mut owners: Vec<Entry> = Vec::new();
    for mut entry in entries::trusted(before) {
        let set = Set::parse(entry.text()).unwrap_or_default();
        if set.contains(&path) {
            let kept = scaled.iter().position(|e| e.is_same_manager(&entry));
            match kept {
                Some(at) => drop(scaled.remove(at)),
                None => {
                    let version = entry.api_version().to_owned();
                    entry.replace(&version, set.difference(&of_path(&path)));
                }
            }
        }
        owners.push(entry);
    }
    for mut entry in scaled {
        if Set::parse(entry.text()).is_ok_and(|set| set.contains(&path_in_scale())) {
            entry.replace(api_version, of_path(&path));
            // Upstream searches the time among the object's entries, where there is none.
            entry.forget_time();
            owners.push(entry);
        }
    }
    entries::encode(owners)
}

fn path(names: &[&str]) -> Vec<Element> {
    names.iter().map(|name| Element::Field((*name).into())).collect()
}

fn path_in_scale() -> Vec<Element> {
    path(&["spec", "replicas"])
}

fn in_scale() -> Set {
    of_path(&path_in_scale())
}

fn of_path(path: &[Element]) -> Set {
    let mut set = Set::new();
    set.insert(path);
    set
}
