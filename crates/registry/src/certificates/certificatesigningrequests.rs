//! Certificate signing requests. The server records the requesting user; the spec is immutable.

mod validate;

use std::collections::HashMap;

use corten_api::{Str, Value, time};
use jiff::SignedDuration;

use crate::prepare::copy;
use crate::rules::{NameRule, Path, Request, RowContext, Rules, Selectable};
use crate::table::{AGE, NAME, NONE, age, cells, condition, field, name, str_at, str_or, text, time_at};
use corten_api::duration::human_duration;

pub(crate) const RULES: Rules = Rules {
    group: "certificates.k8s.io",
    resource: "certificatesigningrequests",
    storage_prefix: "certificatesigningrequests",
    name: NameRule::PathSegment,
    prepare_create,
    prepare_update,
    prepare_subresource,
    reset_fields,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: validate::validate_subresource,
    selectable: &[Selectable { label: "spec.signerName", value: |o| field(o, &["spec", "signerName"]) }],
    columns: &[
        NAME,
        AGE,
        text("SignerName", SIGNER_NAME),
        text("Requestor", "Base64-encoded PKCS#10 CSR data"),
        text("RequestedDuration", "How long the certificate should be valid.")
            .of("certificates/v1.CertificateSigningRequestSpec", "expirationSeconds"),
        text("Condition", "Conditions applied to the request, such as approval or denial."),
    ],
    row,
    ..Rules::DEFAULT
};

/// The description of the signer's column, which is that of the first beta version.
const SIGNER_NAME: &str = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.";

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let lifetime = object.int_at(&["spec", "expirationSeconds"]);
    let lifetime = lifetime.map(|seconds| human_duration(SignedDuration::from_secs(seconds)));
    cells![
        name(object),
        age(object, context),
        str_or(object, &["spec", "signerName"], NONE),
        str_at(object, &["spec", "username"]),
        lifetime.unwrap_or_else(|| NONE.to_owned()),
        progress(object),
    ]
}

fn progress(object: &Value) -> String {
    let mut progress = match () {
        () if condition(object, "Denied").is_some() => "Denied",
        () if condition(object, "Approved").is_some() => "Approved",
        () => "Pending",
    }
    .to_owned();
    if condition(object, "Failed").is_some() {
        progress.push_str(",Failed");
    }
    if !str_at(object, &["status", "certificate"]).is_empty() {
        progress.push_str(",Issued");
    }
    progress
}

/// The user is the authenticated one, whatever the request says.
fn prepare_create(object: &mut Value, request: &Request<'_>) {
    let mut user = request.user.map(|user| user()).unwrap_or_default();
    for key in ["username", "uid", "groups", "extra"] {
        object.remove(&["spec", key]);
        if let Some(known) = user.remove(&[key]).filter(|v| !v.is_null()) {
            object.set(&["spec", key], known);
        }
    }
    object.set(&["status"], Value::object());
}

fn prepare_update(object: &mut Value, old: &Value, _: &Request<'_>) {
    copy(object, old, &["spec"]);
    copy(object, old, &["status"]);
}

/// Signers write the certificate, approvers the conditions; neither writes the other's part.
fn prepare_subresource(sub: &str, object: &mut Value, old: &Value, request: &Request<'_>) {
    copy(object, old, &["spec"]);
    match sub {
        "status" => {
            keep_conditions(object, old, "Approved");
            keep_conditions(object, old, "Denied");
        }
        "approval" => {
            let verdict = object.remove(CONDITIONS);
            copy(object, old, &["status"]);
            match verdict {
                Some(verdict) => object.set(CONDITIONS, verdict),
                None => {
                    object.remove(CONDITIONS);
                }
            }
        }
        _ => return,
    }
    date_conditions(object, old, request);
}

const CONDITIONS: &[&str] = &["status", "conditions"];

/// Restores the conditions of a type, if their number is unchanged.
fn keep_conditions(object: &mut Value, old: &Value, kind: &str) {
    let is_kind = |c: &&Value| c.str_at(&["type"]) == Some(kind);
    let kept: Vec<Value> = old.items_at(CONDITIONS).iter().filter(is_kind).cloned().collect();
    if object.items_at(CONDITIONS).iter().filter(is_kind).count() != kept.len() {
        return;
    }
    let mut kept = kept.into_iter();
    for condition in conditions_mut(object).filter(|c| c.str_at(&["type"]) == Some(kind)) {
        if let Some(old) = kept.next() {
            *condition = old;
        }
    }
}

/// Conditions without times get them: the previous ones, if they held before.
fn date_conditions(object: &mut Value, old: &Value, request: &Request<'_>) {
    let now = time::format(request.now);
    let mut since: HashMap<[Option<Str>; 2], Str> = HashMap::new();
    let held = |condition: &Value| ["type", "status"].map(|key| condition.str_at(&[key]).map(Str::new));
    for condition in old.items_at(CONDITIONS) {
        if let Some(time) = condition.str_at(&["lastTransitionTime"]) {
            since.entry(held(condition)).or_insert_with(|| Str::new(time));
        }
    }
    for condition in conditions_mut(object) {
        if time_at(condition, &["lastUpdateTime"]).is_none() {
            condition.set(&["lastUpdateTime"], now.clone());
        }
        if time_at(condition, &["lastTransitionTime"]).is_none() {
            let since = since.get(&held(condition)).unwrap_or(&now).clone();
            condition.set(&["lastTransitionTime"], since);
        }
    }
}

fn conditions_mut(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let conditions = object.get_mut("status").and_then(|s| s.get_mut("conditions"));
    conditions.and_then(Value::as_array_mut).into_iter().flatten()
}

fn reset_fields(sub: &str) -> &'static [Path] {
    match sub {
        "" => &[&["spec"], &["status"]],
        "status" => &[&["spec"], &["status", "conditions"]],
        "approval" => &[&["spec"], &["status", "certificate"]],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_server_sets_the_requesting_user() {
        let user = || value!({"username": "ann", "groups": ["g"]});
        let request = Request { now: Timestamp::UNIX_EPOCH, user: Some(&user) };
        let mut csr = value!({"spec": {"username": "root", "uid": "0", "request": "x"}, "status": {"a": 1}});
        RULES.prepare_for_create(&mut csr, &request);
        assert_eq!(csr.get("spec"), Some(&value!({"username": "ann", "groups": ["g"], "request": "x"})));
    }

    #[test]
    fn signers_and_approvers_keep_to_their_parts() {
        let request = Request { now: Timestamp::from_second(60).unwrap(), user: None };
        let approved = value!({
            "type": "Approved", "status": "True",
            "lastUpdateTime": "1970-01-01T00:00:00Z", "lastTransitionTime": "1970-01-01T00:00:00Z",
        });
        let old = value!({"spec": {"request": "x"}, "status": {"conditions": [(approved.clone())]}});
        let after = |sub: &str, status: Value| {
            let mut new = value!({"spec": {}, "status": status});
            RULES.prepare_for_update(sub, &mut new, &old, &request);
            assert_eq!(new.get("spec"), old.get("spec"));
            new.remove(&["status"]).unwrap_or_default()
        };
        let forged = value!({"type": "Approved", "status": "True", "message": "forged"});
        assert_eq!(
            after("status", value!({"certificate": "Yw==", "conditions": [forged]})),
            value!({"certificate": "Yw==", "conditions": [(approved.clone())]})
        );
        let denied = after(
            "approval",
            value!({"certificate": "Yw==", "conditions": [(approved.clone()), {"type": "Denied", "status": "True"}]}),
        );
        assert_eq!(denied.get("certificate"), None);
        assert_eq!(
            denied.items_at(&["conditions"])[1].str_at(&["lastTransitionTime"]),
            Some("1970-01-01T00:01:00Z")
        );
        assert_eq!(after("", value!({"certificate": "Yw=="})), value!({"conditions": [approved]}));
    }
}
