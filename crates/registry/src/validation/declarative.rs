//! Errors of upstream's declarative validation, which follow those of its other validation.
//!
//! The table lists the rules that upstream enforces by declarations for kinds that have other rules too; where a kind has only
//! one sort of rules, the order is the same. Paths are those of the stored version, without positions and keys. Upstream
//! validates declarations in the version of the request, so that the paths of errors differ in `resource.k8s.io/v1beta1`.

use corten_api::status::{ErrorList, FieldError, FieldErrorKind};

/// A sort of error that is declared.
#[derive(Clone, Copy)]
enum Sort {
    Required,
    Invalid,
    /// A number below a fixed minimum.
    Minimum,
    Immutable,
    NotSupported,
    Duplicate,
    TooLong,
    TooMany,
}

use Sort::{Duplicate, Immutable, Invalid, Minimum, NotSupported, Required, TooLong, TooMany};

/// Fields and the sorts of their errors that are declared.
type Declarations = &'static [(&'static str, &'static [Sort])];

const RBAC_RULES: Declarations = &[("rules.verbs", &[Required])];
const RBAC_BINDINGS: Declarations = &[("subjects.name", &[Required]), ("roleRef.name", &[Required])];

/// Of one request for devices, as a field of `exactly` or an item of `firstAvailable`.
const DEVICE_REQUEST: Declarations = &[
    ("selectors", &[TooMany]),
    ("allocationMode", &[NotSupported]),
    ("tolerations.key", &[Invalid]),
    ("tolerations.operator", &[NotSupported]),
    ("tolerations.effect", &[NotSupported]),
    ("derivedAttributes", &[TooMany]),
    ("derivedAttributes.name", &[Required, Invalid]),
    ("derivedAttributes.expression", &[Required]),
];

const CLAIM: Declarations = &[
    ("spec", &[Immutable]),
    ("spec.devices.requests", &[Duplicate, TooMany]),
    ("spec.devices.requests.firstAvailable", &[Duplicate, TooMany]),
    ("spec.devices.requests.firstAvailable.deviceClassName", &[Required, Invalid]),
    ("spec.devices.constraints", &[TooMany]),
    ("spec.devices.constraints.requests", &[Duplicate, TooMany]),
    ("spec.devices.constraints.matchAttribute", &[Invalid]),
    ("spec.devices.constraints.distinctAttribute", &[Invalid]),
    ("spec.devices.config", &[TooMany]),
    ("spec.devices.config.requests", &[Duplicate, TooMany]),
    ("spec.devices.config.opaque.driver", &[Required, Invalid, TooLong]),
    ("status.allocation.devices.results", &[TooMany]),
    ("status.allocation.devices.results.driver", &[Required, Invalid, TooLong]),
    ("status.allocation.devices.results.pool", &[Required, Invalid]),
    ("status.allocation.devices.results.tolerations.key", &[Invalid]),
    ("status.allocation.devices.results.tolerations.operator", &[NotSupported]),
    ("status.allocation.devices.results.tolerations.effect", &[NotSupported]),
    ("status.allocation.devices.results.bindingConditions", &[TooMany]),
    ("status.allocation.devices.results.bindingFailureConditions", &[TooMany]),
    ("status.allocation.devices.results.shareID", &[Invalid]),
    ("status.allocation.devices.config", &[TooMany]),
    ("status.allocation.devices.config.source", &[Required, NotSupported]),
    ("status.allocation.devices.config.requests", &[Duplicate, TooMany]),
    ("status.allocation.devices.config.opaque.driver", &[Required, Invalid, TooLong]),
    ("status.reservedFor", &[Duplicate, TooMany]),
    ("status.devices", &[Duplicate]),
    ("status.devices.shareID", &[Invalid]),
    ("status.devices.networkData.interfaceName", &[TooLong]),
    ("status.devices.networkData.ips", &[Duplicate, TooMany]),
    ("status.devices.networkData.hardwareAddress", &[TooLong]),
];

const DEVICE_CLASS: Declarations = &[
    ("metadata.name", &[Invalid]),
    ("spec.selectors", &[TooMany]),
    ("spec.config", &[TooMany]),
    ("spec.config.opaque.driver", &[Required, Invalid, TooLong]),
    ("spec.extendedResourceName", &[Invalid]),
];

const SLICE: Declarations = &[
    ("spec.devices.attributes", &[Invalid]),
    ("spec.devices.consumesCounters", &[Duplicate, TooMany]),
    ("spec.devices.consumesCounters.counterSet", &[Required, Invalid]),
    ("spec.devices.consumesCounters.counters", &[Required, Invalid]),
    ("spec.devices.consumesCounters.compatibilityGroups", &[Duplicate, TooMany, Invalid]),
    ("spec.devices.taints.effect", &[Required, NotSupported]),
    ("spec.devices.bindingConditions", &[TooMany]),
    ("spec.devices.bindingFailureConditions", &[TooMany]),
    ("spec.sharedCounters", &[Duplicate, TooMany]),
    ("spec.sharedCounters.name", &[Required, Invalid]),
    ("spec.sharedCounters.counters", &[Required, Invalid]),
];

/// The declarations of a resource.
fn declarations(group: &str, resource: &str) -> Declarations {
    match (group, resource) {
        ("", "replicationcontrollers") => &[
            ("metadata.name", &[Invalid]),
            ("spec.replicas", &[Invalid]),
            ("spec.minReadySeconds", &[Invalid]),
        ],
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            &[("spec.policyName", &[Required]), ("spec.validationActions", &[Required])]
        }
        ("autoscaling", _) => &[("spec.minReplicas", &[Minimum]), ("spec.maxReplicas", &[Required, Minimum])],
        ("batch", "cronjobs") => &[("spec.schedule", &[Required])],
        ("discovery.k8s.io", _) => &[
            ("addressType", &[Required, NotSupported, Immutable]),
            ("endpoints.addresses", &[Required, TooMany]),
        ],
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => &[
            ("spec.type", &[Required]),
            ("spec.limited", &[Required]),
            ("spec.limited.limitResponse.type", &[Required]),
            ("spec.limited.limitResponse.queuing", &[Required]),
        ],
        ("networking.k8s.io", "networkpolicies") => {
            &[("spec.ingress.from.ipBlock.cidr", &[Required]), ("spec.egress.to.ipBlock.cidr", &[Required])]
        }
        ("networking.k8s.io", "ingressclasses") => {
            &[("spec.parameters.kind", &[Required]), ("spec.parameters.name", &[Required])]
        }
        ("networking.k8s.io", "ipaddresses") => &[
            ("spec.parentRef", &[Required, Immutable]),
            ("spec.parentRef.resource", &[Required]),
            ("spec.parentRef.name", &[Required]),
        ],
        ("node.k8s.io", _) => &[("handler", &[Required, Invalid, Immutable])],
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => RBAC_RULES,
        ("rbac.authorization.k8s.io", _) => RBAC_BINDINGS,
        ("resource.k8s.io", "deviceclasses") => DEVICE_CLASS,
        ("resource.k8s.io", "devicetaintrules") => &[("spec.taint.effect", &[Required, NotSupported])],
        ("resource.k8s.io", "resourceclaims" | "resourceclaimtemplates") => CLAIM,
        ("resource.k8s.io", "resourceslices") => SLICE,
        ("storage.k8s.io", "storageclasses") => &[
            ("provisioner", &[Required, Immutable]),
            ("parameters", &[Immutable]),
            ("reclaimPolicy", &[Immutable]),
            ("volumeBindingMode", &[Immutable]),
        ],
        ("storage.k8s.io", "volumeattachments") => {
            &[("spec", &[Immutable]), ("spec.attacher", &[Required, Invalid, TooLong])]
        }
        _ => &[],
    }
}

/// Moves the errors of declarations behind all others.
pub(crate) fn move_last(group: &str, resource: &str, errors: &mut ErrorList) {
    if errors.0.len() < 2 || declarations(group, resource).is_empty() {
        return;
    }
    // What is immutable and has changed is not looked into: the errors there are those of the other validation.
    let changed: Vec<String> = errors
        .0
        .iter()
        .filter(|error| Immutable.fits(error))
        .filter(|error| error.field == "roleRef" || is_declared(group, resource, error))
        .map(|error| format!("{}.", error.field))
        .collect();
    let is_last = |error: &FieldError| {
        is_declared(group, resource, error)
            && !changed.iter().any(|changed| error.field.starts_with(changed.as_str()))
    };
    errors.0.sort_by_cached_key(|error| is_last(error).then(|| place_among_declared(resource, error)));
    if resource == "resourceslices" {
        let others = errors.0.iter().take_while(|error| !is_last(error)).count();
        order_devices(&mut errors.0[others..]);
    }
}

/// Orders declared errors of devices: those of taints and binding conditions follow those of the other fields.
fn order_devices(declared: &mut [FieldError]) {
    fn device_and_field(error: &FieldError) -> Option<(&str, &str)> {
        error.field.strip_prefix("spec.devices[")?.split_once("].")
    }
    let device = |error: &FieldError| device_and_field(error).map(|(device, _)| device.to_owned());
    let is_late = |error: &FieldError| {
        let field = device_and_field(error).map_or("", |(_, field)| field);
        ["taints", "bind"].iter().any(|late| field.starts_with(late))
    };
    for of_one in declared.chunk_by_mut(|a, b| device(a) == device(b)) {
        of_one.sort_by_key(is_late);
    }
}

/// The place of a field among those that are declared, where other validation has another order.
fn place_among_declared(resource: &str, error: &FieldError) -> usize {
    const STATUS_OF_CLAIM: [&str; 3] = ["status.allocation", "status.reservedFor", "status.devices"];
    match resource {
        "resourceclaims" => {
            STATUS_OF_CLAIM.iter().position(|field| error.field.starts_with(field)).unwrap_or_default()
        }
        _ => 0,
    }
}

/// Gives the errors of declarations the paths that they have in the version of a request.
pub(crate) fn name_fields_in_version(group: &str, resource: &str, version: &str, errors: &mut ErrorList) {
    if (group, version) != ("resource.k8s.io", "v1beta1") {
        return;
    }
    for error in errors.0.iter_mut().filter(|error| is_declared(group, resource, error)) {
        error.field = match resource {
            "resourceslices" => below_basic(&error.field),
            _ => error.field.replacen("].exactly.", "].", 1),
        };
    }
    if resource != "resourceslices" {
        order_flat_requests(errors);
    }
}

/// Orders the errors of requests for devices as the fields are in `v1beta1`, where those of `exactly` are around
/// `firstAvailable`.
fn order_flat_requests(errors: &mut ErrorList) {
    let request = |error: &FieldError| request_and_field(&error.field).map(|(request, _)| request.to_owned());
    let follows_alternatives = |error: &FieldError| {
        let field = request_and_field(&error.field).map_or("", |(_, field)| field);
        ["tolerations", "derivedAttributes"].iter().any(|late| field.starts_with(late))
    };
    for of_one in errors.0.chunk_by_mut(|a, b| request(a) == request(b)) {
        of_one.sort_by_key(follows_alternatives);
    }
}

/// The index of a request for devices, and the path of one of its fields.
fn request_and_field(path: &str) -> Option<(&str, &str)> {
    path.split_once("devices.requests[")?.1.split_once("].")
}

/// The path of a device's field where it is one of `basic`.
fn below_basic(path: &str) -> String {
    match path.strip_prefix("spec.devices[").and_then(|rest| rest.split_once("].")) {
        Some((index, field)) => format!("spec.devices[{index}].basic.{field}"),
        None => path.to_owned(),
    }
}

fn is_declared(group: &str, resource: &str, error: &FieldError) -> bool {
    let path = without_positions(&error.field);
    let mut path = path.as_str();
    match resource {
        "resourceclaimtemplates" => match path.strip_prefix("spec.") {
            Some(of_claim) => path = of_claim,
            // That of a template is immutable without a declaration.
            None => return false,
        },
        // Only the values of attributes have declarations, not the names.
        "resourceslices" if path == "spec.devices.attributes" && !error.field.ends_with(']') => return false,
        _ => {}
    }
    let request = ["exactly.", "firstAvailable."].into_iter().find_map(|form| {
        path.strip_prefix("spec.devices.requests.").and_then(|field| field.strip_prefix(form))
    });
    let lists = |list: Declarations, path: &str| {
        list.iter().any(|(field, sorts)| *field == path && sorts.iter().any(|sort| sort.fits(error)))
    };
    request.is_some_and(|field| group == "resource.k8s.io" && lists(DEVICE_REQUEST, field))
        || lists(declarations(group, resource), path)
}

impl Sort {
    fn fits(self, error: &FieldError) -> bool {
        let is_immutable = error.detail == "field is immutable";
        match self {
            Required => error.kind == FieldErrorKind::Required,
            Invalid => error.kind == FieldErrorKind::Invalid && !is_immutable,
            Minimum => {
                let minimum = error.detail.strip_prefix("must be greater than or equal to ");
                minimum.is_some_and(|minimum| minimum.bytes().all(|byte| byte.is_ascii_digit()))
            }
            Immutable => error.kind == FieldErrorKind::Invalid && is_immutable,
            NotSupported => error.kind == FieldErrorKind::NotSupported,
            Duplicate => error.kind == FieldErrorKind::Duplicate,
            TooLong => error.kind == FieldErrorKind::TooLong,
            TooMany => error.kind == FieldErrorKind::TooMany,
        }
    }
}

/// A path without positions and keys.
fn without_positions(path: &str) -> String {
    let mut depth = 0usize;
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(group: &str, resource: &str, found: &[(&str, FieldErrorKind)]) -> Vec<String> {
        let mut errors = ErrorList::new();
        for (field, kind) in found {
            errors.0.push(FieldError {
                kind: *kind,
                field: (*field).to_owned(),
                bad_value: None,
                detail: String::new(),
            });
        }
        move_last(group, resource, &mut errors);
        name_fields_in_version(group, resource, "v1beta1", &mut errors);
        errors.0.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn errors_below_a_changed_immutable_field_keep_their_place() {
        let errors = || {
            let mut errors = ErrorList::new();
            errors.required("spec.attacher", "");
            errors.required("spec.source", "");
            errors
        };
        let mut of_update = errors();
        of_update.invalid("spec", &corten_api::Value::Null, "field is immutable");
        let mut of_create = errors();
        let fields = |errors: &mut ErrorList| {
            move_last("storage.k8s.io", "volumeattachments", errors);
            errors.0.iter().map(|error| error.field.clone()).collect::<Vec<_>>()
        };
        assert_eq!(fields(&mut of_update), ["spec.attacher", "spec.source", "spec"]);
        assert_eq!(fields(&mut of_create), ["spec.source", "spec.attacher"]);
    }

    #[test]
    fn declared_errors_follow_others() {
        use FieldErrorKind::{Duplicate, Forbidden, Invalid, Required};
        let found = [("spec.attacher", Required), ("spec.source", Required), ("spec.nodeName", Invalid)];
        assert_eq!(
            ordered("storage.k8s.io", "volumeattachments", &found),
            ["spec.source", "spec.nodeName", "spec.attacher"]
        );
        let cidr = "spec.egress[0].to[1].ipBlock.cidr";
        let found = [(cidr, Required), ("spec.egress[0].to[1]", Forbidden)];
        assert_eq!(ordered("networking.k8s.io", "networkpolicies", &found), ["spec.egress[0].to[1]", cidr]);
        let found = [
            ("spec.spec.devices.constraints[0].requests[1]", Duplicate),
            ("spec.spec.devices.constraints[0].requests[1]", Invalid),
            ("spec.spec.devices.requests[0].exactly.tolerations[0].key", Invalid),
            ("spec.spec.devices.requests[0].exactly.count", Invalid),
        ];
        assert_eq!(
            ordered("resource.k8s.io", "resourceclaimtemplates", &found),
            [
                "spec.spec.devices.constraints[0].requests[1]",
                "spec.spec.devices.requests[0].exactly.count",
                "spec.spec.devices.constraints[0].requests[1]",
                "spec.spec.devices.requests[0].tolerations[0].key",
            ]
        );
        let found = [
            ("spec.devices.requests[0].exactly.allocationMode", FieldErrorKind::NotSupported),
            ("spec.devices.requests[0].exactly.tolerations[0].effect", FieldErrorKind::NotSupported),
            (
                "spec.devices.requests[0].firstAvailable[0].tolerations[0].effect",
                FieldErrorKind::NotSupported,
            ),
            ("spec.devices.requests[1].exactly.allocationMode", FieldErrorKind::NotSupported),
        ];
        assert_eq!(
            ordered("resource.k8s.io", "resourceclaims", &found),
            [
                "spec.devices.requests[0].allocationMode",
                "spec.devices.requests[0].firstAvailable[0].tolerations[0].effect",
                "spec.devices.requests[0].tolerations[0].effect",
                "spec.devices.requests[1].allocationMode",
            ]
        );
        let keys = "spec.devices[3].attributes";
        let found = [
            (keys, Invalid),
            ("spec.devices[3].attributes[a.b/c]", Invalid),
            ("spec.devices[3].name", Invalid),
        ];
        assert_eq!(
            ordered("resource.k8s.io", "resourceslices", &found),
            [keys, "spec.devices[3].name", "spec.devices[3].basic.attributes[a.b/c]"]
        );
        let found = [
            ("spec.devices[0].taints[0].key", Invalid),
            ("spec.devices[0].taints[0].effect", Required),
            ("spec.devices[0].consumesCounters[0].counterSet", Required),
            ("spec.devices[1].consumesCounters[0].counterSet", Required),
        ];
        assert_eq!(
            ordered("resource.k8s.io", "resourceslices", &found),
            [
                "spec.devices[0].taints[0].key",
                "spec.devices[0].basic.consumesCounters[0].counterSet",
                "spec.devices[0].basic.taints[0].effect",
                "spec.devices[1].basic.consumesCounters[0].counterSet",
            ]
        );
    }
}
