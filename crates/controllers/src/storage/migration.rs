//! In-tree volume plugins that were migrated to CSI drivers: annotations of claims and volumes name the driver.

use corten_api::Value;

use crate::storage::{
    BETA_STORAGE_PROVISIONER, MIGRATED_TO, PROVISIONED_BY, STORAGE_PROVISIONER, annotation,
};

/// A plugin, its field in volumes, and its CSI driver.
const DRIVERS: [(&str, &str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "awsElasticBlockStore", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "azureDisk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "azureFile", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "portworxVolume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "vsphereVolume", "csi.vsphere.vmware.com"),
];

/// The CSI driver of a migrated plugin.
pub(super) fn driver(plugin: &str) -> Option<&'static str> {
    DRIVERS.iter().find(|(name, ..)| *name == plugin).map(|(.., driver)| *driver)
}

/// The migrated plugin of a volume, and its CSI driver.
pub(super) fn of_source(volume: &Value) -> Option<(&'static str, &'static str)> {
    let found = DRIVERS.iter().find(|(_, field, _)| volume.at(&["spec", field]).is_some());
    found.map(|(plugin, _, driver)| (*plugin, *driver))
}

/// The claim with the annotation of its CSI driver; `None` if it has it.
pub(super) fn of_claim(claim: &Value) -> Option<Value> {
    let provisioner =
        annotation(claim, STORAGE_PROVISIONER).or_else(|| annotation(claim, BETA_STORAGE_PROVISIONER))?;
    annotated(claim, provisioner)
}

/// The volume with the annotation of its CSI driver; `None` if it has it.
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
