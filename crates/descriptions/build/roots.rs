//! The types of `k8s-openapi` from which all its others are reached.
//!
//! Everything below a root follows from its schema, so only kinds, and what API machinery exchanges besides kinds,
//! are named here. A new version of Kubernetes touches this table alone.

use k8s_openapi::{ListableResource, Resource};
use schemars::{JsonSchema, SchemaGenerator};

use crate::Listable;

macro_rules! roots {
    ($($($module:ident)::+ { $($listable:ident),* ; $($single:ty),* })*) => {
        /// Adds every type to the generator's definitions, and returns the kinds that have a list.
        pub(crate) fn visit(generator: &mut SchemaGenerator) -> Vec<Listable> {
            let mut listables = Vec::new();
            $({
                use k8s_openapi::$($module)::+::*;
                $(listables.push(visit_listable::<$listable>(generator));)*
                $(generator.subschema_for::<$single>();)*
            })*
            listables
        }
    };
}

fn visit_listable<T: JsonSchema + Resource + ListableResource>(generator: &mut SchemaGenerator) -> Listable {
    generator.subschema_for::<T>();
    Listable { type_name: T::schema_name().into_owned(), kind: T::KIND, list_kind: T::LIST_KIND }
}

// Per group and version: the kinds that have a list; the types that do not.
roots! {
    api::admissionregistration::v1 {
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration;
    }
    api::admissionregistration::v1alpha1 { MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding; }
    api::admissionregistration::v1beta1 { MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding; }
    api::apiserverinternal::v1alpha1 { StorageVersion; }
    api::apps::v1 { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet; }
    api::authentication::v1 { ; SelfSubjectReview, TokenRequest, TokenReview }
    api::authorization::v1 {
        ; LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview
    }
    api::autoscaling::v1 { HorizontalPodAutoscaler; Scale }
    api::autoscaling::v2 { HorizontalPodAutoscaler; }
    api::batch::v1 { CronJob, Job; }
    api::certificates::v1 { CertificateSigningRequest, ClusterTrustBundle, PodCertificateRequest; }
    api::certificates::v1beta1 { ClusterTrustBundle, PodCertificateRequest; }
    api::coordination::v1 { Lease; }
    api::coordination::v1alpha2 { LeaseCandidate; }
    api::coordination::v1beta1 { LeaseCandidate; }
    api::core::v1 {
        ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
        PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service,
        ServiceAccount; Binding
    }
    api::discovery::v1 { EndpointSlice; }
    api::events::v1 { Event; }
    api::flowcontrol::v1 { FlowSchema, PriorityLevelConfiguration; }
    api::lifecycle::v1alpha1 { Eviction, EvictionRequest; }
    api::networking::v1 { IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR; }
    api::node::v1 { RuntimeClass; }
    api::policy::v1 { PodDisruptionBudget; Eviction }
    api::rbac::v1 { ClusterRole, ClusterRoleBinding, Role, RoleBinding; }
    api::resource::v1 { DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice; }
    api::resource::v1alpha3 { DeviceTaintRule, ResourcePoolStatusRequest; }
    api::resource::v1beta1 { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice; }
    api::resource::v1beta2 { DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice; }
    api::scheduling::v1 { PriorityClass; }
    api::scheduling::v1alpha3 { CompositePodGroup, PodGroup, Workload; }
    api::scheduling::v1beta1 { PodGroup, Workload; }
    api::storage::v1 {
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass;
    }
    api::storagemigration::v1 { StorageVersionMigration; }
    api::storagemigration::v1beta1 { StorageVersionMigration; }
    apiextensions_apiserver::pkg::apis::apiextensions::v1 { CustomResourceDefinition; }
    apimachinery::pkg::apis::meta::v1 {
        ; APIGroupList, APIResourceList, APIVersions, DeleteOptions, ListMeta, Patch, Status,
        WatchEvent<Status>
    }
    apimachinery::pkg::version { ; Info }
    kube_aggregator::pkg::apis::apiregistration::v1 { APIService; }
}
