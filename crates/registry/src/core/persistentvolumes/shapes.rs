//! Volumes as messages show them. The sources are in the order upstream's type has them.

use crate::validation::go_shape::{Shape, any, flag, list, number, pointer, text};

const SECRET: Shape = &[text("Name", "name"), text("Namespace", "namespace")];
const REFERENCE: Shape = &[
    text("Kind", "kind"),
    text("Namespace", "namespace"),
    text("Name", "name"),
    text("UID", "uid"),
    text("APIVersion", "apiVersion"),
    text("ResourceVersion", "resourceVersion"),
    text("FieldPath", "fieldPath"),
];
const GCE_DISK: Shape = &[
    text("PDName", "pdName"),
    text("FSType", "fsType"),
    number("Partition", "partition"),
    flag("ReadOnly", "readOnly"),
];
const AWS_DISK: Shape = &[
    text("VolumeID", "volumeID"),
    text("FSType", "fsType"),
    number("Partition", "partition"),
    flag("ReadOnly", "readOnly"),
];
const HOST_PATH: Shape = &[text("Path", "path"), any("Type", "type")];
const GLUSTERFS: Shape = &[
    text("EndpointsName", "endpoints"),
    text("Path", "path"),
    flag("ReadOnly", "readOnly"),
    any("EndpointsNamespace", "endpointsNamespace"),
];
const NFS: Shape = &[text("Server", "server"), text("Path", "path"), flag("ReadOnly", "readOnly")];
const RBD: Shape = &[
    any("CephMonitors", "monitors"),
    text("RBDImage", "image"),
    text("FSType", "fsType"),
    text("RBDPool", "pool"),
    text("RadosUser", "user"),
    text("Keyring", "keyring"),
    pointer("SecretRef", "secretRef", SECRET),
    flag("ReadOnly", "readOnly"),
];
const ISCSI: Shape = &[
    text("TargetPortal", "targetPortal"),
    text("IQN", "iqn"),
    number("Lun", "lun"),
    text("ISCSIInterface", "iscsiInterface"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    any("Portals", "portals"),
    flag("DiscoveryCHAPAuth", "chapAuthDiscovery"),
    flag("SessionCHAPAuth", "chapAuthSession"),
    pointer("SecretRef", "secretRef", SECRET),
    any("InitiatorName", "initiatorName"),
];
const CINDER: Shape = &[
    text("VolumeID", "volumeID"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    pointer("SecretRef", "secretRef", SECRET),
];
const CEPH_FS: Shape = &[
    any("Monitors", "monitors"),
    text("Path", "path"),
    text("User", "user"),
    text("SecretFile", "secretFile"),
    pointer("SecretRef", "secretRef", SECRET),
    flag("ReadOnly", "readOnly"),
];
const FC: Shape = &[
    any("TargetWWNs", "targetWWNs"),
    any("Lun", "lun"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    any("WWIDs", "wwids"),
];
const FLOCKER: Shape = &[text("DatasetName", "datasetName"), text("DatasetUUID", "datasetUUID")];
const FLEX: Shape = &[
    text("Driver", "driver"),
    text("FSType", "fsType"),
    pointer("SecretRef", "secretRef", SECRET),
    flag("ReadOnly", "readOnly"),
    any("Options", "options"),
];
const AZURE_FILE: Shape = &[
    text("SecretName", "secretName"),
    text("ShareName", "shareName"),
    flag("ReadOnly", "readOnly"),
    any("SecretNamespace", "secretNamespace"),
];
const VSPHERE: Shape = &[
    text("VolumePath", "volumePath"),
    text("FSType", "fsType"),
    text("StoragePolicyName", "storagePolicyName"),
    text("StoragePolicyID", "storagePolicyID"),
];
const QUOBYTE: Shape = &[
    text("Registry", "registry"),
    text("Volume", "volume"),
    flag("ReadOnly", "readOnly"),
    text("User", "user"),
    text("Group", "group"),
    text("Tenant", "tenant"),
];
const AZURE_DISK: Shape = &[
    text("DiskName", "diskName"),
    text("DataDiskURI", "diskURI"),
    any("CachingMode", "cachingMode"),
    any("FSType", "fsType"),
    any("ReadOnly", "readOnly"),
    any("Kind", "kind"),
];
const PHOTON_DISK: Shape = &[text("PdID", "pdID"), text("FSType", "fsType")];
const PORTWORX: Shape =
    &[text("VolumeID", "volumeID"), text("FSType", "fsType"), flag("ReadOnly", "readOnly")];
const SCALE_IO: Shape = &[
    text("Gateway", "gateway"),
    text("System", "system"),
    pointer("SecretRef", "secretRef", SECRET),
    flag("SSLEnabled", "sslEnabled"),
    text("ProtectionDomain", "protectionDomain"),
    text("StoragePool", "storagePool"),
    text("StorageMode", "storageMode"),
    text("VolumeName", "volumeName"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
];
const LOCAL: Shape = &[text("Path", "path"), any("FSType", "fsType")];
const STORAGE_OS: Shape = &[
    text("VolumeName", "volumeName"),
    text("VolumeNamespace", "volumeNamespace"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    pointer("SecretRef", "secretRef", REFERENCE),
];
const CSI: Shape = &[
    text("Driver", "driver"),
    text("VolumeHandle", "volumeHandle"),
    flag("ReadOnly", "readOnly"),
    text("FSType", "fsType"),
    any("VolumeAttributes", "volumeAttributes"),
    pointer("ControllerPublishSecretRef", "controllerPublishSecretRef", SECRET),
    pointer("NodeStageSecretRef", "nodeStageSecretRef", SECRET),
    pointer("NodePublishSecretRef", "nodePublishSecretRef", SECRET),
    pointer("ControllerExpandSecretRef", "controllerExpandSecretRef", SECRET),
    pointer("NodeExpandSecretRef", "nodeExpandSecretRef", SECRET),
];

/// What a volume is made of.
pub(super) const SOURCE: Shape = &[
    pointer("GCEPersistentDisk", "gcePersistentDisk", GCE_DISK),
    pointer("AWSElasticBlockStore", "awsElasticBlockStore", AWS_DISK),
    pointer("HostPath", "hostPath", HOST_PATH),
    pointer("Glusterfs", "glusterfs", GLUSTERFS),
    pointer("NFS", "nfs", NFS),
    pointer("RBD", "rbd", RBD),
    pointer("ISCSI", "iscsi", ISCSI),
    pointer("Cinder", "cinder", CINDER),
    pointer("CephFS", "cephfs", CEPH_FS),
    pointer("FC", "fc", FC),
    pointer("Flocker", "flocker", FLOCKER),
    pointer("FlexVolume", "flexVolume", FLEX),
    pointer("AzureFile", "azureFile", AZURE_FILE),
    pointer("VsphereVolume", "vsphereVolume", VSPHERE),
    pointer("Quobyte", "quobyte", QUOBYTE),
    pointer("AzureDisk", "azureDisk", AZURE_DISK),
    pointer("PhotonPersistentDisk", "photonPersistentDisk", PHOTON_DISK),
    pointer("PortworxVolume", "portworxVolume", PORTWORX),
    pointer("ScaleIO", "scaleIO", SCALE_IO),
    pointer("Local", "local", LOCAL),
    pointer("StorageOS", "storageos", STORAGE_OS),
    pointer("CSI", "csi", CSI),
];

const REQUIREMENT: Shape = &[text("Key", "key"), text("Operator", "operator"), any("Values", "values")];
const TERM: Shape = &[
    list("MatchExpressions", "matchExpressions", REQUIREMENT),
    list("MatchFields", "matchFields", REQUIREMENT),
];
const NODE_SELECTOR: Shape = &[list("NodeSelectorTerms", "nodeSelectorTerms", TERM)];
pub(super) const NODE_AFFINITY: Shape = &[pointer("Required", "required", NODE_SELECTOR)];
