//! Cluster trust bundles: root certificates for everybody. A name may start with the signer's and a colon.

use corten_api::Value;

use crate::rules::{NameRule, RowContext, Rules, Selectable};
use crate::table::{NAME, NONE, cells, field, name, str_or, text};

pub(crate) const RULES: Rules = Rules {
    group: "certificates.k8s.io",
    resource: "clustertrustbundles",
    storage_version: "v1beta1",
    storage_prefix: "clustertrustbundles",
    name: NameRule::PathSegment,
    unconditional_update: false,
    selectable: &[Selectable { label: "spec.signerName", value: |o| field(o, &["spec", "signerName"]) }],
    columns: &[NAME, text("SignerName", "The signer whose roots these are.")],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_or(object, &["spec", "signerName"], NONE)]
}
