//! CSI drivers. A new driver has generation zero.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, value};

use crate::defaults::{fill_absent, is_zero, made};
use crate::prepare::same;
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, UNSET, age, boolean, cells, joined, name, str_at, text};
use crate::validation::fields::{IMMUTABLE, any_of, immutable, part};
use crate::validation::number::given;
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "csidrivers",
    storage_prefix: "csidrivers",
    generation: Generation { initial: 0, counts: &[&["spec"]] },
    default,
    validate_create: validate,
    validate_update,
    warnings,
    unconditional_update: false,
    delete_returns_object: true,
    columns: &[
        NAME,
        boolean("AttachRequired", "Whether volumes are attached to a node first.")
            .of("storage/v1.CSIDriverSpec", "attachRequired"),
        boolean("PodInfoOnMount", "Whether mounting needs to know the pod.")
            .of("storage/v1.CSIDriverSpec", "podInfoOnMount"),
        boolean("StorageCapacity", "Whether scheduling looks at the capacity left.")
            .of("storage/v1.CSIDriverSpec", "storageCapacity"),
        text("TokenRequests", "Audiences of the tokens it is given.")
            .of("storage/v1.CSIDriverSpec", "tokenRequests"),
        boolean("RequiresRepublish", "Whether mounts are renewed from time to time.")
            .of("storage/v1.CSIDriverSpec", "requiresRepublish"),
        text("Modes", "Kinds of volumes it provides.").of("storage/v1.CSIDriverSpec", "volumeLifecycleModes"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let flag = |key: &str, otherwise: bool| object.bool_at(&["spec", key]).unwrap_or(otherwise);
    let tokens = match object.at(&["spec", "tokenRequests"]).and_then(Value::as_array) {
        Some(requests) => requests.iter().map(|r| str_at(r, &["audience"])).collect::<Vec<_>>().join(","),
        None => UNSET.to_owned(),
    };
    let modes = match joined(object, &["spec", "volumeLifecycleModes"], ",") {
        none if none.is_empty() => NONE.to_owned(),
        modes => modes,
    };
    cells![
        name(object),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        tokens,
        flag("requiresRepublish", false),
        modes,
        age(object, context),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "attachRequired", true);
    fill_absent(spec, "podInfoOnMount", false);
    fill_absent(spec, "storageCapacity", false);
    fill_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill_absent(spec, "requiresRepublish", false);
    fill_absent(spec, "seLinuxMount", false);
    fill_absent(spec, "preventPodSchedulingIfMissing", false);
    if is_zero(spec, "volumeLifecycleModes") {
        spec.insert("volumeLifecycleModes", value!(["Persistent"]));
    }
}

const SPEC: Field<'static> = Field::new("spec");

fn validate(driver: &Value, errors: &mut ErrorList) {
    let spec = part(driver, "spec");
    let needed = [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ];
    for (_, field) in needed.into_iter().filter(|(key, _)| member(spec, key).is_none()) {
        errors.required(SPEC.child(field), "");
    }
    any_of(spec, "fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], &SPEC, errors);
    validate_token_requests(list(spec, "tokenRequests"), errors);
    for mode in list(spec, "volumeLifecycleModes") {
        if !matches!(mode.as_str(), Some("Persistent" | "Ephemeral")) {
            errors.not_supported(SPEC.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]);
        }
    }
    if member(spec, "seLinuxMount").is_none() {
        errors.required(SPEC.child("seLinuxMount"), "");
    }
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(seconds) = given(spec, period).filter(|seconds| *seconds < 10) {
        let why = "must be greater than or equal to 10 seconds";
        errors.invalid(SPEC.child(period), &Value::from(seconds), why);
    }
    let in_secrets = member(spec, "serviceAccountTokenInSecrets");
    if let Some(in_secrets) = in_secrets.filter(|_| list(spec, "tokenRequests").is_empty()) {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(SPEC.child("serviceAccountTokenInSecrets"), in_secrets, why);
    }
    if member(spec, "preventPodSchedulingIfMissing").is_none() {
        errors.required(SPEC.child("preventPodSchedulingIfMissing"), "");
    }
}

/// One token for each audience, for at least ten minutes.
fn validate_token_requests(requests: &[Value], errors: &mut ErrorList) {
    const LEAST: i64 = 10 * 60;
    const MOST: i64 = 1 << 32;
    let at = SPEC.child("tokenRequests");
    let repeats = Repeats::of(requests, |item| str_at(item, &["audience"]));
    for (i, request) in requests.iter().enumerate() {
        let (at, audience) = (at.index(i), str_at(request, &["audience"]));
        if repeats.at(i) {
            errors.duplicate(at.child("audience"), &Value::from(audience));
            continue;
        }
        let Some(seconds) = given(request, "expirationSeconds") else { continue };
        let why = match seconds {
            seconds if seconds < LEAST => "may not specify a duration less than 10 minutes",
            seconds if seconds > MOST => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        errors.invalid(at.child("expirationSeconds"), &Value::from(seconds), why);
    }
}

fn validate_update(driver: &Value, old: &Value, errors: &mut ErrorList) {
    validate(driver, errors);
    let (spec, old) = (part(driver, "spec"), part(old, "spec"));
    if !same(spec, old, &["attachRequired"]) {
        errors.invalid(SPEC.child("attachedRequired"), part(spec, "attachRequired"), IMMUTABLE);
    }
    immutable(spec, old, "volumeLifecycleModes", &SPEC, errors);
}

/// Warns about new token requests: there is a better way to get tokens.
fn warnings(driver: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = part(driver, "spec");
    let asks = !list(spec, "tokenRequests").is_empty()
        && old.is_none_or(|old| !same(driver, old, &["spec", "tokenRequests"]));
    if !asks || member(spec, "serviceAccountTokenInSecrets").is_some() {
        return Vec::new();
    }
    let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
    vec![warning.to_owned()]
}
