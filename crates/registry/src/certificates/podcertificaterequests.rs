//! Pod certificate requests: a kubelet requests a certificate on a pod's behalf.

mod validate;

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules, Selectable};
use crate::selector::labels;
use crate::table::{NAME, cells, field, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "certificates.k8s.io",
    resource: "podcertificaterequests",
    storage_version: "v1beta1",
    storage_prefix: "podcertificaterequests",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: validate::validate_subresource,
    unconditional_update: false,
    selectable: &[
        Selectable { label: "spec.signerName", value: |o| field(o, &["spec", "signerName"]) },
        Selectable { label: "spec.podName", value: |o| field(o, &["spec", "podName"]) },
        Selectable { label: "spec.nodeName", value: |o| field(o, &["spec", "nodeName"]) },
    ],
    columns: &[
        NAME,
        text("PodName", "The pod that will use the certificate.")
            .of("certificates/v1.PodCertificateRequestSpec", "podName"),
        text("ServiceAccountName", "The pod's service account.")
            .of("certificates/v1.PodCertificateRequestSpec", "serviceAccountName"),
        text("NodeName", "The node the pod is on.")
            .of("certificates/v1.PodCertificateRequestSpec", "nodeName"),
        text("SignerName", "Who is asked to sign.")
            .of("certificates/v1.PodCertificateRequestSpec", "signerName"),
        text("State", "Is the request Pending, Issued, Denied, or Failed?"),
        text("UnverifiedUserAnnotations", "What the pod's author tells the signer.")
            .of("certificates/v1.PodCertificateRequestSpec", "unverifiedUserAnnotations"),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let kinds = ["Issued", "Denied", "Failed"];
    let conditions = object.items_at(&["status", "conditions"]).iter();
    let state = conditions.map(|c| str_at(c, &["type"])).rfind(|kind| kinds.contains(kind));
    let spec = |key: &str| str_at(object, &["spec", key]);
    cells![
        name(object),
        spec("podName"),
        spec("serviceAccountName"),
        spec("nodeName"),
        spec("signerName"),
        state.unwrap_or("Pending"),
        labels(object.at(&["spec", "unverifiedUserAnnotations"])),
    ]
}
