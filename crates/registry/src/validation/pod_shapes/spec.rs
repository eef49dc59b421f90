//! Pods as upstream shows them, but for their containers and volumes.

use crate::validation::go_shape::{LABEL_SELECTOR, Shape, any, flag, list, number, part, pointer, text};
use crate::validation::pod_shapes::container::{
    APP_ARMOR_PROFILE, CONTAINER, EPHEMERAL_CONTAINER, RESOURCE_REQUIREMENTS, SE_LINUX_OPTIONS,
    SECCOMP_PROFILE, WINDOWS_SECURITY_CONTEXT_OPTIONS,
};
use crate::validation::pod_shapes::volume::VOLUME;

pub(crate) static AFFINITY: Shape = &[
    pointer("NodeAffinity", "nodeAffinity", NODE_AFFINITY),
    pointer("PodAffinity", "podAffinity", POD_AFFINITY),
    pointer("PodAntiAffinity", "podAntiAffinity", POD_ANTI_AFFINITY),
];

pub(crate) static EVICTION_RESPONDER: Shape = &[text("Name", "name"), any("Priority", "priority")];

pub(crate) static HOST_ALIAS: Shape = &[text("IP", "ip"), any("Hostnames", "hostnames")];

pub(crate) static HOST_IP: Shape = &[text("IP", "ip")];

pub(crate) static LOCAL_OBJECT_REFERENCE: Shape = &[text("Name", "name")];

pub(crate) static NODE_AFFINITY: Shape = &[
    pointer(
        "RequiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingIgnoredDuringExecution",
        NODE_SELECTOR,
    ),
    list(
        "PreferredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
        PREFERRED_SCHEDULING_TERM,
    ),
];

pub(crate) static NODE_SELECTOR: Shape =
    &[list("NodeSelectorTerms", "nodeSelectorTerms", NODE_SELECTOR_TERM)];

pub(crate) static NODE_SELECTOR_REQUIREMENT: Shape =
    &[text("Key", "key"), text("Operator", "operator"), any("Values", "values")];

pub(crate) static NODE_SELECTOR_TERM: Shape = &[
    list("MatchExpressions", "matchExpressions", NODE_SELECTOR_REQUIREMENT),
    list("MatchFields", "matchFields", NODE_SELECTOR_REQUIREMENT),
];

pub(crate) static POD_AFFINITY: Shape = &[
    list(
        "RequiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingIgnoredDuringExecution",
        POD_AFFINITY_TERM,
    ),
    list(
        "PreferredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
        WEIGHTED_POD_AFFINITY_TERM,
    ),
];

pub(crate) static POD_AFFINITY_TERM: Shape = &[
    pointer("LabelSelector", "labelSelector", LABEL_SELECTOR),
    any("Namespaces", "namespaces"),
    text("TopologyKey", "topologyKey"),
    pointer("NamespaceSelector", "namespaceSelector", LABEL_SELECTOR),
    any("MatchLabelKeys", "matchLabelKeys"),
    any("MismatchLabelKeys", "mismatchLabelKeys"),
];

pub(crate) static POD_ANTI_AFFINITY: Shape = &[
    list(
        "RequiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingIgnoredDuringExecution",
        POD_AFFINITY_TERM,
    ),
    list(
        "PreferredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
        WEIGHTED_POD_AFFINITY_TERM,
    ),
];

pub(crate) static POD_DNS_CONFIG: Shape = &[
    any("Nameservers", "nameservers"),
    any("Searches", "searches"),
    list("Options", "options", POD_DNS_CONFIG_OPTION),
];

pub(crate) static POD_DNS_CONFIG_OPTION: Shape = &[text("Name", "name"), any("Value", "value")];

pub(crate) static POD_IP: Shape = &[text("IP", "ip")];

pub(crate) static POD_OS: Shape = &[text("Name", "name")];

pub(crate) static POD_READINESS_GATE: Shape = &[text("ConditionType", "conditionType")];

pub(crate) static POD_RESOURCE_CLAIM: Shape = &[
    text("Name", "name"),
    any("ResourceClaimName", "resourceClaimName"),
    any("ResourceClaimTemplateName", "resourceClaimTemplateName"),
];

pub(crate) static POD_SCHEDULING_GATE: Shape = &[text("Name", "name")];

pub(crate) static POD_SCHEDULING_GROUP: Shape = &[any("PodGroupName", "podGroupName")];

pub(crate) static POD_SECURITY_CONTEXT: Shape = &[
    pointer("SELinuxOptions", "seLinuxOptions", SE_LINUX_OPTIONS),
    pointer("WindowsOptions", "windowsOptions", WINDOWS_SECURITY_CONTEXT_OPTIONS),
    any("RunAsUser", "runAsUser"),
    any("RunAsGroup", "runAsGroup"),
    any("RunAsNonRoot", "runAsNonRoot"),
    any("SupplementalGroups", "supplementalGroups"),
    any("SupplementalGroupsPolicy", "supplementalGroupsPolicy"),
    any("FSGroup", "fsGroup"),
    list("Sysctls", "sysctls", SYSCTL),
    any("FSGroupChangePolicy", "fsGroupChangePolicy"),
    pointer("SeccompProfile", "seccompProfile", SECCOMP_PROFILE),
    pointer("AppArmorProfile", "appArmorProfile", APP_ARMOR_PROFILE),
    any("SELinuxChangePolicy", "seLinuxChangePolicy"),
];

pub(crate) static POD_SPEC: Shape = &[
    list("Volumes", "volumes", VOLUME),
    list("InitContainers", "initContainers", CONTAINER),
    list("Containers", "containers", CONTAINER),
    list("EphemeralContainers", "ephemeralContainers", EPHEMERAL_CONTAINER),
    text("RestartPolicy", "restartPolicy"),
    any("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds"),
    any("ActiveDeadlineSeconds", "activeDeadlineSeconds"),
    text("DNSPolicy", "dnsPolicy"),
    any("NodeSelector", "nodeSelector"),
    text("ServiceAccountName", "serviceAccountName"),
    text("DeprecatedServiceAccount", "serviceAccount"),
    any("AutomountServiceAccountToken", "automountServiceAccountToken"),
    text("NodeName", "nodeName"),
    flag("HostNetwork", "hostNetwork"),
    flag("HostPID", "hostPID"),
    flag("HostIPC", "hostIPC"),
    any("ShareProcessNamespace", "shareProcessNamespace"),
    pointer("SecurityContext", "securityContext", POD_SECURITY_CONTEXT),
    list("ImagePullSecrets", "imagePullSecrets", LOCAL_OBJECT_REFERENCE),
    text("Hostname", "hostname"),
    text("Subdomain", "subdomain"),
    pointer("Affinity", "affinity", AFFINITY),
    text("SchedulerName", "schedulerName"),
    list("Tolerations", "tolerations", TOLERATION),
    list("HostAliases", "hostAliases", HOST_ALIAS),
    text("PriorityClassName", "priorityClassName"),
    any("Priority", "priority"),
    pointer("DNSConfig", "dnsConfig", POD_DNS_CONFIG),
    list("ReadinessGates", "readinessGates", POD_READINESS_GATE),
    any("RuntimeClassName", "runtimeClassName"),
    any("EnableServiceLinks", "enableServiceLinks"),
    any("PreemptionPolicy", "preemptionPolicy"),
    any("Overhead", "overhead"),
    list("TopologySpreadConstraints", "topologySpreadConstraints", TOPOLOGY_SPREAD_CONSTRAINT),
    any("SetHostnameAsFQDN", "setHostnameAsFQDN"),
    pointer("OS", "os", POD_OS),
    any("HostUsers", "hostUsers"),
    list("SchedulingGates", "schedulingGates", POD_SCHEDULING_GATE),
    list("ResourceClaims", "resourceClaims", POD_RESOURCE_CLAIM),
    pointer("Resources", "resources", RESOURCE_REQUIREMENTS),
    any("HostnameOverride", "hostnameOverride"),
    pointer("SchedulingGroup", "schedulingGroup", POD_SCHEDULING_GROUP),
    list("EvictionResponders", "evictionResponders", EVICTION_RESPONDER),
];

pub(crate) static PREFERRED_SCHEDULING_TERM: Shape =
    &[number("Weight", "weight"), part("Preference", "preference", NODE_SELECTOR_TERM)];

pub(crate) static SYSCTL: Shape = &[text("Name", "name"), text("Value", "value")];

pub(crate) static TOLERATION: Shape = &[
    text("Key", "key"),
    text("Operator", "operator"),
    text("Value", "value"),
    text("Effect", "effect"),
    any("TolerationSeconds", "tolerationSeconds"),
];

pub(crate) static TOPOLOGY_SPREAD_CONSTRAINT: Shape = &[
    number("MaxSkew", "maxSkew"),
    text("TopologyKey", "topologyKey"),
    text("WhenUnsatisfiable", "whenUnsatisfiable"),
    pointer("LabelSelector", "labelSelector", LABEL_SELECTOR),
    any("MinDomains", "minDomains"),
    any("NodeAffinityPolicy", "nodeAffinityPolicy"),
    any("NodeTaintsPolicy", "nodeTaintsPolicy"),
    any("MatchLabelKeys", "matchLabelKeys"),
];

pub(crate) static WEIGHTED_POD_AFFINITY_TERM: Shape =
    &[number("Weight", "weight"), part("PodAffinityTerm", "podAffinityTerm", POD_AFFINITY_TERM)];
