//! Volumes of pods as upstream shows them.

use crate::validation::go_shape::{LABEL_SELECTOR, Shape, any, flag, list, number, part, pointer, text};
use crate::validation::pod_shapes::container::{OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use crate::validation::pod_shapes::spec::LOCAL_OBJECT_REFERENCE;

pub(crate) static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Shape = &[
    text("VolumeID", "volumeID"),
    text("FSType", "fsType"),
    number("Partition", "partition"),
    flag("ReadOnly", "readOnly"),
];

pub(crate) static AZURE_DISK_VOLUME_SOURCE: Shape = &[
    text("DiskName", "diskName"),
    text("DataDiskURI", "diskURI"),
    any("CachingMode", "cachingMode"),
    any("FSType", "fsType"),
    any("ReadOnly", "readOnly"),
    any("Kind", "kind"),
];

pub(crate) static AZURE_FILE_VOLUME_SOURCE: Shape =
    &[text("SecretName", "secretName"), text("ShareName", "shareName"), flag("ReadOnly", "readOnly")];

pub(crate) static CSI_VOLUME_SOURCE: Shape = &[
    text("Driver", "driver"),
    any("ReadOnly", "readOnly"),
    any("FSType", "fsType"),
    any("VolumeAttributes", "volumeAttributes"),
    pointer("NodePublishSecretRef", "nodePublishSecretRef", LOCAL_OBJECT_REFERENCE),
];

pub(crate) static CEPH_FS_VOLUME_SOURCE: Shape = &[
    any("Monitors", "monitors"),
    text("Path", "path"),
    text("User", "user"),
    text("SecretFile", "secretFile"),
    pointer("SecretRef", "secretRef", LOCAL_OBJECT_REFERENCE),
    flag("ReadOnly", "readOnly"),
];

pub(crate) static CINDER_VOLUME_SOURCE: Shape = &[
    text("VolumeID", "volumeID"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    pointer("SecretRef", "secretRef", LOCAL_OBJECT_REFERENCE),
];

pub(crate) static CLUSTER_TRUST_BUNDLE_PROJECTION: Shape = &[
    any("Name", "name"),
    any("SignerName", "signerName"),
    pointer("LabelSelector", "labelSelector", LABEL_SELECTOR),
    any("Optional", "optional"),
    text("Path", "path"),
    any("User", "user"),
];

pub(crate) static CONFIG_MAP_PROJECTION: Shape =
    &[text("Name", "name"), list("Items", "items", KEY_TO_PATH), any("Optional", "optional")];

pub(crate) static CONFIG_MAP_VOLUME_SOURCE: Shape = &[
    text("Name", "name"),
    list("Items", "items", KEY_TO_PATH),
    any("DefaultMode", "defaultMode"),
    any("Optional", "optional"),
    any("DefaultUser", "defaultUser"),
];

pub(crate) static DOWNWARD_API_PROJECTION: Shape = &[list("Items", "items", DOWNWARD_API_VOLUME_FILE)];

pub(crate) static DOWNWARD_API_VOLUME_FILE: Shape = &[
    text("Path", "path"),
    pointer("FieldRef", "fieldRef", OBJECT_FIELD_SELECTOR),
    pointer("ResourceFieldRef", "resourceFieldRef", RESOURCE_FIELD_SELECTOR),
    any("Mode", "mode"),
    any("User", "user"),
];

pub(crate) static DOWNWARD_API_VOLUME_SOURCE: Shape = &[
    list("Items", "items", DOWNWARD_API_VOLUME_FILE),
    any("DefaultMode", "defaultMode"),
    any("DefaultUser", "defaultUser"),
];

pub(crate) static EMPTY_DIR_VOLUME_SOURCE: Shape =
    &[text("Medium", "medium"), any("SizeLimit", "sizeLimit"), any("Mode", "mode")];

pub(crate) static EPHEMERAL_VOLUME_SOURCE: Shape =
    &[pointer("VolumeClaimTemplate", "volumeClaimTemplate", PERSISTENT_VOLUME_CLAIM_TEMPLATE)];

pub(crate) static FC_VOLUME_SOURCE: Shape = &[
    any("TargetWWNs", "targetWWNs"),
    any("Lun", "lun"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    any("WWIDs", "wwids"),
];

pub(crate) static FLEX_VOLUME_SOURCE: Shape = &[
    text("Driver", "driver"),
    text("FSType", "fsType"),
    pointer("SecretRef", "secretRef", LOCAL_OBJECT_REFERENCE),
    flag("ReadOnly", "readOnly"),
    any("Options", "options"),
];

pub(crate) static FLOCKER_VOLUME_SOURCE: Shape =
    &[text("DatasetName", "datasetName"), text("DatasetUUID", "datasetUUID")];

pub(crate) static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Shape = &[
    text("PDName", "pdName"),
    text("FSType", "fsType"),
    number("Partition", "partition"),
    flag("ReadOnly", "readOnly"),
];

pub(crate) static GIT_REPO_VOLUME_SOURCE: Shape =
    &[text("Repository", "repository"), text("Revision", "revision"), text("Directory", "directory")];

pub(crate) static GLUSTERFS_VOLUME_SOURCE: Shape =
    &[text("EndpointsName", "endpoints"), text("Path", "path"), flag("ReadOnly", "readOnly")];

pub(crate) static HOST_PATH_VOLUME_SOURCE: Shape = &[text("Path", "path"), any("Type", "type")];

pub(crate) static ISCSI_VOLUME_SOURCE: Shape = &[
    text("TargetPortal", "targetPortal"),
    text("IQN", "iqn"),
    number("Lun", "lun"),
    text("ISCSIInterface", "iscsiInterface"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    any("Portals", "portals"),
    flag("DiscoveryCHAPAuth", "chapAuthDiscovery"),
    flag("SessionCHAPAuth", "chapAuthSession"),
    pointer("SecretRef", "secretRef", LOCAL_OBJECT_REFERENCE),
    any("InitiatorName", "initiatorName"),
];

pub(crate) static IMAGE_VOLUME_SOURCE: Shape =
    &[text("Reference", "reference"), text("PullPolicy", "pullPolicy")];

pub(crate) static KEY_TO_PATH: Shape =
    &[text("Key", "key"), text("Path", "path"), any("Mode", "mode"), any("User", "user")];

pub(crate) static NFS_VOLUME_SOURCE: Shape =
    &[text("Server", "server"), text("Path", "path"), flag("ReadOnly", "readOnly")];

pub(crate) static PERSISTENT_VOLUME_CLAIM_SPEC: Shape = &[
    any("AccessModes", "accessModes"),
    pointer("Selector", "selector", LABEL_SELECTOR),
    part("Resources", "resources", VOLUME_RESOURCE_REQUIREMENTS),
    text("VolumeName", "volumeName"),
    any("StorageClassName", "storageClassName"),
    any("VolumeMode", "volumeMode"),
    pointer("DataSource", "dataSource", TYPED_LOCAL_OBJECT_REFERENCE),
    pointer("DataSourceRef", "dataSourceRef", TYPED_OBJECT_REFERENCE),
    any("VolumeAttributesClassName", "volumeAttributesClassName"),
];

pub(crate) static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Shape =
    &[part("ObjectMeta", "metadata", &[]), part("Spec", "spec", PERSISTENT_VOLUME_CLAIM_SPEC)];

pub(crate) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Shape =
    &[text("ClaimName", "claimName"), flag("ReadOnly", "readOnly")];

pub(crate) static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Shape =
    &[text("PdID", "pdID"), text("FSType", "fsType")];

pub(crate) static POD_CERTIFICATE_PROJECTION: Shape = &[
    text("SignerName", "signerName"),
    text("KeyType", "keyType"),
    any("MaxExpirationSeconds", "maxExpirationSeconds"),
    text("CredentialBundlePath", "credentialBundlePath"),
    text("KeyPath", "keyPath"),
    text("CertificateChainPath", "certificateChainPath"),
    any("UserAnnotations", "userAnnotations"),
    any("User", "user"),
];

pub(crate) static PORTWORX_VOLUME_SOURCE: Shape =
    &[text("VolumeID", "volumeID"), text("FSType", "fsType"), flag("ReadOnly", "readOnly")];

pub(crate) static PROJECTED_VOLUME_SOURCE: Shape = &[
    list("Sources", "sources", VOLUME_PROJECTION),
    any("DefaultMode", "defaultMode"),
    any("DefaultUser", "defaultUser"),
];

pub(crate) static QUOBYTE_VOLUME_SOURCE: Shape = &[
    text("Registry", "registry"),
    text("Volume", "volume"),
    flag("ReadOnly", "readOnly"),
    text("User", "user"),
    text("Group", "group"),
    text("Tenant", "tenant"),
];

pub(crate) static RBD_VOLUME_SOURCE: Shape = &[
    any("CephMonitors", "monitors"),
    text("RBDImage", "image"),
    text("FSType", "fsType"),
    text("RBDPool", "pool"),
    text("RadosUser", "user"),
    text("Keyring", "keyring"),
    pointer("SecretRef", "secretRef", LOCAL_OBJECT_REFERENCE),
    flag("ReadOnly", "readOnly"),
];

pub(crate) static SCALE_IO_VOLUME_SOURCE: Shape = &[
    text("Gateway", "gateway"),
    text("System", "system"),
    pointer("SecretRef", "secretRef", LOCAL_OBJECT_REFERENCE),
    flag("SSLEnabled", "sslEnabled"),
    text("ProtectionDomain", "protectionDomain"),
    text("StoragePool", "storagePool"),
    text("StorageMode", "storageMode"),
    text("VolumeName", "volumeName"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
];

pub(crate) static SECRET_PROJECTION: Shape =
    &[text("Name", "name"), list("Items", "items", KEY_TO_PATH), any("Optional", "optional")];

pub(crate) static SECRET_VOLUME_SOURCE: Shape = &[
    text("SecretName", "secretName"),
    list("Items", "items", KEY_TO_PATH),
    any("DefaultMode", "defaultMode"),
    any("Optional", "optional"),
    any("DefaultUser", "defaultUser"),
];

pub(crate) static SERVICE_ACCOUNT_TOKEN_PROJECTION: Shape = &[
    text("Audience", "audience"),
    any("ExpirationSeconds", "expirationSeconds"),
    text("Path", "path"),
    any("User", "user"),
];

pub(crate) static STORAGE_OS_VOLUME_SOURCE: Shape = &[
    text("VolumeName", "volumeName"),
    text("VolumeNamespace", "volumeNamespace"),
    text("FSType", "fsType"),
    flag("ReadOnly", "readOnly"),
    pointer("SecretRef", "secretRef", LOCAL_OBJECT_REFERENCE),
];

pub(crate) static TYPED_LOCAL_OBJECT_REFERENCE: Shape =
    &[any("APIGroup", "apiGroup"), text("Kind", "kind"), text("Name", "name")];

pub(crate) static TYPED_OBJECT_REFERENCE: Shape =
    &[any("APIGroup", "apiGroup"), text("Kind", "kind"), text("Name", "name"), any("Namespace", "namespace")];

pub(crate) static VOLUME: Shape = &[
    text("Name", "name"),
    pointer("HostPath", "hostPath", HOST_PATH_VOLUME_SOURCE),
    pointer("EmptyDir", "emptyDir", EMPTY_DIR_VOLUME_SOURCE),
    pointer("GCEPersistentDisk", "gcePersistentDisk", GCE_PERSISTENT_DISK_VOLUME_SOURCE),
    pointer("AWSElasticBlockStore", "awsElasticBlockStore", AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE),
    pointer("GitRepo", "gitRepo", GIT_REPO_VOLUME_SOURCE),
    pointer("Secret", "secret", SECRET_VOLUME_SOURCE),
    pointer("NFS", "nfs", NFS_VOLUME_SOURCE),
    pointer("ISCSI", "iscsi", ISCSI_VOLUME_SOURCE),
    pointer("Glusterfs", "glusterfs", GLUSTERFS_VOLUME_SOURCE),
    pointer("PersistentVolumeClaim", "persistentVolumeClaim", PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE),
    pointer("RBD", "rbd", RBD_VOLUME_SOURCE),
    pointer("FlexVolume", "flexVolume", FLEX_VOLUME_SOURCE),
    pointer("Cinder", "cinder", CINDER_VOLUME_SOURCE),
    pointer("CephFS", "cephfs", CEPH_FS_VOLUME_SOURCE),
    pointer("Flocker", "flocker", FLOCKER_VOLUME_SOURCE),
    pointer("DownwardAPI", "downwardAPI", DOWNWARD_API_VOLUME_SOURCE),
    pointer("FC", "fc", FC_VOLUME_SOURCE),
    pointer("AzureFile", "azureFile", AZURE_FILE_VOLUME_SOURCE),
    pointer("ConfigMap", "configMap", CONFIG_MAP_VOLUME_SOURCE),
    pointer("VsphereVolume", "vsphereVolume", VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE),
    pointer("Quobyte", "quobyte", QUOBYTE_VOLUME_SOURCE),
    pointer("AzureDisk", "azureDisk", AZURE_DISK_VOLUME_SOURCE),
    pointer("PhotonPersistentDisk", "photonPersistentDisk", PHOTON_PERSISTENT_DISK_VOLUME_SOURCE),
    pointer("Projected", "projected", PROJECTED_VOLUME_SOURCE),
    pointer("PortworxVolume", "portworxVolume", PORTWORX_VOLUME_SOURCE),
    pointer("ScaleIO", "scaleIO", SCALE_IO_VOLUME_SOURCE),
    pointer("StorageOS", "storageos", STORAGE_OS_VOLUME_SOURCE),
    pointer("CSI", "csi", CSI_VOLUME_SOURCE),
    pointer("Ephemeral", "ephemeral", EPHEMERAL_VOLUME_SOURCE),
    pointer("Image", "image", IMAGE_VOLUME_SOURCE),
];

pub(crate) static VOLUME_PROJECTION: Shape = &[
    pointer("Secret", "secret", SECRET_PROJECTION),
    pointer("DownwardAPI", "downwardAPI", DOWNWARD_API_PROJECTION),
    pointer("ConfigMap", "configMap", CONFIG_MAP_PROJECTION),
    pointer("ServiceAccountToken", "serviceAccountToken", SERVICE_ACCOUNT_TOKEN_PROJECTION),
    pointer("ClusterTrustBundle", "clusterTrustBundle", CLUSTER_TRUST_BUNDLE_PROJECTION),
    pointer("PodCertificate", "podCertificate", POD_CERTIFICATE_PROJECTION),
];

pub(crate) static VOLUME_RESOURCE_REQUIREMENTS: Shape =
    &[any("Limits", "limits"), any("Requests", "requests")];

pub(crate) static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Shape = &[
    text("VolumePath", "volumePath"),
    text("FSType", "fsType"),
    text("StoragePolicyName", "storagePolicyName"),
    text("StoragePolicyID", "storagePolicyID"),
];
