//! In-tree volume plugins whose work CSI drivers have taken over: claims and volumes say which driver it is.

use corten_api::Value;

use crate::storage::{
    BETA_STORAGE_PROVISIONER, MIGRATED_TO, PROVISIONED_BY, STORAGE_PROVISIONER, annotation,
};

const DRIVERS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// The driver that does a plugin's work now.
pub(super) fn driver(plugin: &str) -> Option<&'static str> {
    DRIVERS.iter().find(|(name, _)| *name == plugin).map(|(_, driver)| *driver)
}

/// The claim with the driver its provisioner stands for; `None` if it says so already.
pub(super) fn of_claim(claim: &Value) -> Option<Value> {
    let provisioner =
        annotation(claim, STORAGE_PROVISIONER).or_else(|| annotation(claim, BETA_STORAGE_PROVISIONER))?;
    annotated(claim, provisioner)
}

/// The volume with the driver its provisioner stands for; `None` if it says so already.
pub(super) fn of_volume(volume: &Value) -> Option<Value> {
    annotated(volume, annotation(volume, PROVISIONED_BY)?)
}

fn annotated(object: &Value, provisioner: &str) -> Option<Value> {
    let driver = driver(provisioner);
    if annotation(object, MIGRATED_TO).filter(|known| !known.is_empty()) == driver {
        return None;
    }
    let mut object = object.clone();
    match driver {
        Some(driver) => object.set(&["metadata", "annotations", MIGRATED_TO], driver),
        None => drop(object.remove(&["metadata", "annotations", MIGRATED_TO])),
    }
    Some(object)
}
