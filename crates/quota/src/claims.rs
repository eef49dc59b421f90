//! The quota usage of claims: volume claims use their size, also by storage class; resource claims use their devices.

use std::collections::{BTreeMap, BTreeSet};

use corten_api::quantity::{Format, Quantity};
use corten_api::{Str, Value, meta};

use jiff::Timestamp;

use crate::pods;
use crate::resource_list::{self, ResourceList};
use crate::scopes::Facts;
use crate::usage::{Item, Neighbours, number};

const CLAIM_COUNT: &str = "count/persistentvolumeclaims";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const VOLUME_CLAIM_RESOURCES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];

const RESOURCE_CLAIM_COUNT: &str = "count/resourceclaims.resource.k8s.io";
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
const IMPLICIT_DEVICES: &str = "requests.deviceclass.resource.kubernetes.io/";
const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";
/// The most devices that a request for all devices can get.
const ALL_DEVICES: i64 = 32;

/// The storage class of a claim; the annotation takes precedence.
pub fn storage_class(claim: &Value) -> &str {
    let annotated = claim.str_at(&["metadata", "annotations", CLASS_ANNOTATION]);
    annotated.or_else(|| claim.str_at(&["spec", "storageClassName"])).unwrap_or_default()
}

/// True if a quota's resource name applies to volume claims.
pub(super) fn knows_volume_claims(name: &str) -> bool {
    let plain = name.split_once(STORAGE_CLASS).map_or(name, |(_, resource)| resource);
    name == CLAIM_COUNT || VOLUME_CLAIM_RESOURCES.contains(&plain)
}

pub(super) fn volume_claim(claim: &Value) -> Item {
    let mut usage = ResourceList::from([(Str::new_static(CLAIM_COUNT), number(1))]);
    let mut add = |resource: &'static str, amount: resource_list::Amount| {
        let class = storage_class(claim);
        if !class.is_empty() {
            usage.insert(Str::from(format!("{class}{STORAGE_CLASS}{resource}")), amount.clone());
        }
        usage.insert(Str::new_static(resource), amount);
    };
    add("persistentvolumeclaims", number(1));
    if let Some(size) = size(claim) {
        add("requests.storage", size.into());
    }
    Item {
        usage,
        facts: Facts::VolumeClaim { attributes_classes: attributes_classes(claim) },
        ..Item::default()
    }
}

/// The requested size, or the allocated size if that is larger; in whole bytes.
fn size(claim: &Value) -> Option<Quantity> {
    let quantity = |path: &[&str]| Quantity::parse(claim.str_at(path)?).ok();
    let asked = quantity(&["spec", "resources", "requests", "storage"])?;
    let allocated = quantity(&["status", "allocatedResources", "storage"]).filter(|size| *size > asked);
    let size = allocated.unwrap_or(asked);
    let whole = Quantity::new(size.value(), size.format());
    Some(if whole == size { size } else { whole })
}

fn attributes_classes(claim: &Value) -> Vec<Str> {
    let places: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let mut classes: Vec<Str> =
        places.iter().filter_map(|path| claim.str_at(path)).filter(|c| !c.is_empty()).map(Str::new).collect();
    classes.sort();
    classes.dedup();
    classes
}

/// The extended resource of each device class.
#[derive(Debug, Clone, Default)]
pub struct DeviceClasses {
    resources: BTreeMap<Str, Str>,
    provided: BTreeSet<Str>,
}

impl DeviceClasses {
    /// From all device classes.
    pub fn of<'c>(classes: impl Iterator<Item = &'c Value>) -> DeviceClasses {
        let stands_for = |class: &Value| {
            let resource = class.str_at(&["spec", "extendedResourceName"]).unwrap_or_default();
            (Str::new(meta::name(class)), Str::new(resource))
        };
        let resources: BTreeMap<Str, Str> = classes.map(stands_for).collect();
        DeviceClasses { provided: resources.values().cloned().collect(), resources }
    }

    fn resource_of(&self, class: &str) -> Option<&Str> {
        self.resources.get(class).filter(|resource| !resource.is_empty())
    }

    fn provides(&self, resource: &str) -> bool {
        let implicit = resource.strip_prefix("deviceclass.resource.kubernetes.io/");
        implicit.is_some_and(|class| self.resources.contains_key(class)) || self.provided.contains(resource)
    }
}

/// True if a quota's resource name applies to resource claims.
pub(super) fn knows_resource_claims(name: &str, classes: &DeviceClasses) -> bool {
    if name == RESOURCE_CLAIM_COUNT || name.ends_with(DEVICES) {
        return true;
    }
    let implicit =
        name.strip_prefix(IMPLICIT_DEVICES).is_some_and(|class| classes.resource_of(class).is_some());
    implicit
        || (pods::is_extended_request(name)
            && name.strip_prefix("requests.").is_some_and(|resource| classes.provides(resource)))
}

pub(super) fn resource_claim(
    claim: &Value,
    classes: &DeviceClasses,
    neighbours: &dyn Neighbours,
    now: Timestamp,
) -> Item {
    let mut usage = devices(claim);
    // The pod that a claim was created for is charged already: the claim only fulfills its requests.
    let charged = owning_pod(claim, neighbours).map(|pod| pods::usage(&pod, now)).unwrap_or_default();
    for (name, quantity) in extended(&usage, classes) {
        let mut left = quantity;
        if let Some(charged) = charged.get(&name) {
            left.sub(charged.quantity);
        }
        if left > Quantity::ZERO {
            usage.insert(name, left.into());
        }
    }
    usage.insert(Str::new_static(RESOURCE_CLAIM_COUNT), number(1));
    Item { usage, ..Item::default() }
}

/// The most devices that a claim can get, by class.
fn devices(claim: &Value) -> ResourceList {
    let mut total = ResourceList::new();
    let of = |request: &Value| {
        let count = match request.str_at(&["allocationMode"]) {
            Some("ExactCount") => request.int_at(&["count"]).unwrap_or(0),
            Some("All") => ALL_DEVICES,
            _ => 0,
        };
        let class = request.str_at(&["deviceClassName"]).unwrap_or_default();
        let amount = Quantity::new(count, Format::DecimalSi).into();
        ResourceList::from([(Str::from(format!("{class}{DEVICES}")), amount)])
    };
    for request in claim.items_at(&["spec", "devices", "requests"]) {
        let alternatives = request.items_at(&["firstAvailable"]);
        if !alternatives.is_empty() {
            let mut worst = ResourceList::new();
            alternatives.iter().for_each(|request| resource_list::raise(&mut worst, &of(request)));
            resource_list::add(&mut total, &worst);
        } else if let Some(exactly) = request.get("exactly") {
            resource_list::add(&mut total, &of(exactly));
        }
    }
    total
}

/// The same devices under the names of their extended resources.
fn extended(devices: &ResourceList, classes: &DeviceClasses) -> Vec<(Str, Quantity)> {
    let mut names = Vec::new();
    for (name, amount) in devices {
        let Some(class) = name.strip_suffix(DEVICES).filter(|class| !class.is_empty()) else { continue };
        names.push((Str::from(format!("{IMPLICIT_DEVICES}{class}")), amount.quantity));
        if let Some(resource) = classes.resource_of(class) {
            names.push((Str::from(format!("requests.{resource}")), amount.quantity));
        }
    }
    names
}

fn is_for_extended_resources(claim: &Value) -> bool {
    claim.str_at(&["metadata", "annotations", EXTENDED_RESOURCE_CLAIM]) == Some("true")
}

fn owning_pod(claim: &Value, neighbours: &dyn Neighbours) -> Option<Value> {
    if !is_for_extended_resources(claim) {
        return None;
    }
    let owners = claim.items_at(&["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true))?;
    if owner.str_at(&["kind"]) != Some("Pod") || owner.str_at(&["apiVersion"]) != Some("v1") {
        return None;
    }
    let pod = neighbours.pod(owner.str_at(&["name"])?)?;
    if owner.str_at(&["uid"]) != Some(meta::uid(&pod)) {
        return None;
    }
    let known = pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    match known {
        Some(name) => (name == meta::name(claim)).then_some(pod),
        // The first claim that was created for a pod is the one that the pod was charged for.
        None => {
            let age = |claim: &Value| {
                let made = claim.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned();
                (made, meta::name(claim).to_owned())
            };
            let owned = |other: &Value| {
                is_for_extended_resources(other)
                    && other.items_at(&["metadata", "ownerReferences"]).iter().any(|o| {
                        o.bool_at(&["controller"]) == Some(true)
                            && o.str_at(&["uid"]) == Some(meta::uid(&pod))
                    })
            };
            let older = neighbours.resource_claims().iter().any(|o| owned(o) && age(o) < age(claim));
            (!older).then_some(pod)
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::{json, value};

    use super::*;

    fn shown(list: &ResourceList) -> String {
        json::write_to_string(&resource_list::write(list))
    }

    #[test]
    fn volume_claims_by_size_and_class() {
        let claim =
            value!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1.5Gi"}}}});
        assert_eq!(
            shown(&volume_claim(&claim).usage),
            concat!(
                r#"{"count/persistentvolumeclaims":"1","gold.storageclass.storage.k8s.io/persistentvolumeclaims":"1","#,
                r#""gold.storageclass.storage.k8s.io/requests.storage":"1536Mi","persistentvolumeclaims":"1","requests.storage":"1536Mi"}"#
            )
        );
        let grown = value!({
            "spec": {"resources": {"requests": {"storage": "500m"}}},
            "status": {"allocatedResources": {"storage": "2Gi"}},
        });
        assert!(shown(&volume_claim(&grown).usage).contains(r#""requests.storage":"2Gi""#));
        let fraction = value!({"spec": {"resources": {"requests": {"storage": "500m"}}}});
        assert!(shown(&volume_claim(&fraction).usage).contains(r#""requests.storage":"1""#));
        for name in ["requests.storage", "gold.storageclass.storage.k8s.io/requests.storage", CLAIM_COUNT] {
            assert!(knows_volume_claims(name), "{name}");
        }
        assert!(!knows_volume_claims("requests.cpu"));
    }

    #[test]
    fn resource_claims_by_device() {
        let claim = value!({"spec": {"devices": {"requests": [
            {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
            {"firstAvailable": [
                {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                {"deviceClassName": "gpu", "allocationMode": "All"},
                {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1},
            ]},
        ]}}});
        let devices = devices(&claim);
        assert_eq!(
            shown(&devices),
            r#"{"gpu.deviceclass.resource.k8s.io/devices":"34","nic.deviceclass.resource.k8s.io/devices":"1"}"#
        );
        let classes = DeviceClasses::of(
            [value!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}})]
                .iter(),
        );
        let names: Vec<_> =
            extended(&devices, &classes).into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(
            names,
            [
                "requests.deviceclass.resource.kubernetes.io/gpu",
                "requests.example.com/gpu",
                "requests.deviceclass.resource.kubernetes.io/nic"
            ]
        );
        assert!(knows_resource_claims("requests.example.com/gpu", &classes));
        assert!(!knows_resource_claims("requests.example.com/nic", &classes));
    }
}
