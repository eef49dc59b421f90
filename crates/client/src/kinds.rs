//! The built-in kinds that parts of a cluster watch and write, in the version they do it in.

use crate::Kind;

pub static PODS: Kind = Kind::built_in("", "v1", "pods", "Pod", true);
pub static NODES: Kind = Kind::built_in("", "v1", "nodes", "Node", false);
pub static NAMESPACES: Kind = Kind::built_in("", "v1", "namespaces", "Namespace", false);
pub static SERVICES: Kind = Kind::built_in("", "v1", "services", "Service", true);
pub static ENDPOINTS: Kind = Kind::built_in("", "v1", "endpoints", "Endpoints", true);
pub static CONFIG_MAPS: Kind = Kind::built_in("", "v1", "configmaps", "ConfigMap", true);
pub static SECRETS: Kind = Kind::built_in("", "v1", "secrets", "Secret", true);
pub static SERVICE_ACCOUNTS: Kind = Kind::built_in("", "v1", "serviceaccounts", "ServiceAccount", true);
pub static EVENTS: Kind = Kind::built_in("", "v1", "events", "Event", true);
pub static PERSISTENT_VOLUMES: Kind =
    Kind::built_in("", "v1", "persistentvolumes", "PersistentVolume", false);
pub static PERSISTENT_VOLUME_CLAIMS: Kind =
    Kind::built_in("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true);
pub static REPLICATION_CONTROLLERS: Kind =
    Kind::built_in("", "v1", "replicationcontrollers", "ReplicationController", true);
pub static RESOURCE_QUOTAS: Kind = Kind::built_in("", "v1", "resourcequotas", "ResourceQuota", true);
pub static LIMIT_RANGES: Kind = Kind::built_in("", "v1", "limitranges", "LimitRange", true);
pub static POD_TEMPLATES: Kind = Kind::built_in("", "v1", "podtemplates", "PodTemplate", true);
pub static DEPLOYMENTS: Kind = Kind::built_in("apps", "v1", "deployments", "Deployment", true);
pub static REPLICA_SETS: Kind = Kind::built_in("apps", "v1", "replicasets", "ReplicaSet", true);
pub static STATEFUL_SETS: Kind = Kind::built_in("apps", "v1", "statefulsets", "StatefulSet", true);
pub static DAEMON_SETS: Kind = Kind::built_in("apps", "v1", "daemonsets", "DaemonSet", true);
pub static CONTROLLER_REVISIONS: Kind =
    Kind::built_in("apps", "v1", "controllerrevisions", "ControllerRevision", true);
pub static JOBS: Kind = Kind::built_in("batch", "v1", "jobs", "Job", true);
pub static CRON_JOBS: Kind = Kind::built_in("batch", "v1", "cronjobs", "CronJob", true);
pub static HORIZONTAL_POD_AUTOSCALERS: Kind =
    Kind::built_in("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true);
/// The scale of anything: served as a subresource only.
pub static SCALES: Kind = Kind::built_in("autoscaling", "v1", "scales", "Scale", true);
pub static POD_DISRUPTION_BUDGETS: Kind =
    Kind::built_in("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true);
pub static ENDPOINT_SLICES: Kind =
    Kind::built_in("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true);
pub static LEASES: Kind = Kind::built_in("coordination.k8s.io", "v1", "leases", "Lease", true);
pub static CLUSTER_ROLES: Kind =
    Kind::built_in("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false);
pub static CLUSTER_ROLE_BINDINGS: Kind =
    Kind::built_in("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false);
pub static VALIDATING_ADMISSION_POLICIES: Kind = Kind::built_in(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    false,
);
pub static ROLES: Kind = Kind::built_in("rbac.authorization.k8s.io", "v1", "roles", "Role", true);
pub static ROLE_BINDINGS: Kind =
    Kind::built_in("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true);
pub static CERTIFICATE_SIGNING_REQUESTS: Kind = Kind::built_in(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    false,
);
pub static CLUSTER_TRUST_BUNDLES: Kind =
    Kind::built_in("certificates.k8s.io", "v1", "clustertrustbundles", "ClusterTrustBundle", false);
pub static POD_CERTIFICATE_REQUESTS: Kind =
    Kind::built_in("certificates.k8s.io", "v1", "podcertificaterequests", "PodCertificateRequest", true);
pub static STORAGE_CLASSES: Kind =
    Kind::built_in("storage.k8s.io", "v1", "storageclasses", "StorageClass", false);
pub static VOLUME_ATTACHMENTS: Kind =
    Kind::built_in("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false);
pub static VOLUME_ATTRIBUTES_CLASSES: Kind =
    Kind::built_in("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", false);
pub static CSI_NODES: Kind = Kind::built_in("storage.k8s.io", "v1", "csinodes", "CSINode", false);
pub static CSI_DRIVERS: Kind = Kind::built_in("storage.k8s.io", "v1", "csidrivers", "CSIDriver", false);
pub static CSI_STORAGE_CAPACITIES: Kind =
    Kind::built_in("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", true);
pub static RUNTIME_CLASSES: Kind =
    Kind::built_in("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false);
pub static PRIORITY_CLASSES: Kind =
    Kind::built_in("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false);
pub static SERVICE_CIDRS: Kind =
    Kind::built_in("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", false);
pub static IP_ADDRESSES: Kind = Kind::built_in("networking.k8s.io", "v1", "ipaddresses", "IPAddress", false);
pub static NETWORK_POLICIES: Kind =
    Kind::built_in("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true);
pub static INGRESSES: Kind = Kind::built_in("networking.k8s.io", "v1", "ingresses", "Ingress", true);
pub static CUSTOM_RESOURCE_DEFINITIONS: Kind = Kind::built_in(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    false,
);
pub static API_SERVICES: Kind =
    Kind::built_in("apiregistration.k8s.io", "v1", "apiservices", "APIService", false);
pub static TOKEN_REVIEWS: Kind =
    Kind::built_in("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false);
pub static SUBJECT_ACCESS_REVIEWS: Kind =
    Kind::built_in("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false);
