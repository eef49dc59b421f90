//! AdmissionReviews: the request that a webhook gets, and its response, which is verified. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Map, Status, Value, json, meta, patch};

use super::configuration::{ReviewVersion, WebhookKind};

impl ReviewVersion {
    fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The limit of operations in a webhook's patch, as of those in a client's.
const MAX_OPERATIONS: usize = 10_000;

/// The review to send.
pub(super) fn request(version: ReviewVersion, request: Map) -> Value {
    let mut review = Map::with_capacity(3);
    review.insert("kind", "AdmissionReview");
    review.insert("apiVersion", version.api_version());
    review.insert("request", request);
    Value::Object(review)
}

/// A verified response.
#[derive(Debug, PartialEq)]
pub(super) struct Response {
    pub verdict: Verdict,
    pub warnings: Vec<String>,
    pub annotations: Vec<(String, String)>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Allowed, with the operations of a JSON patch, if there are any.
    Allowed(Option<Value>),
    /// Denied, with the `Status` of the response.
    Denied(Option<Value>),
}

/// A response that cannot be used.
#[derive(Debug, PartialEq)]
pub(super) enum Unusable {
    /// The review is not a valid response.
    Invalid(String),
    /// The patch cannot be decoded.
    Patch(String),
    /// The patch is of an unknown type.
    PatchType(String),
}

/// Verifies the response to a review.
pub(super) fn response(
    kind: WebhookKind,
    version: ReviewVersion,
    uid: &str,
    review: &Value,
) -> Result<Response, Unusable> {
    let invalid = |why: String| Err(Unusable::Invalid(why));
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
        return invalid("webhook response was absent".to_owned());
    };
    let patch = match response.str_at(&["patch"]).unwrap_or_default() {
        "" => None,
        text => match STANDARD.decode(text) {
            Ok(bytes) => Some(bytes),
            Err(error) => return invalid(format!("illegal base64 data in response.patch: {error}")),
        },
    };
    let patch_type = response.get("patchType").and_then(Value::as_str);
    if version == ReviewVersion::V1 {
        verify_identity(version, uid, review, response)?;
        verify_patch(kind, patch.is_some(), patch_type)?;
    }
    let allowed = response.bool_at(&["allowed"]) == Some(true);
    let patch = patch.filter(|_| kind == WebhookKind::Mutating && allowed);
    let verdict = match (allowed, patch) {
        (false, _) => Verdict::Denied(response.get("status").filter(|status| !status.is_null()).cloned()),
        (true, None) => Verdict::Allowed(None),
        (true, Some(patch)) => {
            if version == ReviewVersion::V1
                && let Some(other) = patch_type.filter(|kind| *kind != "JSONPatch")
            {
                return Err(Unusable::PatchType(other.to_owned()));
            }
            Verdict::Allowed(operations(&patch).map_err(Unusable::Patch)?)
        }
    };
    let texts = |key: &str| response.items_at(&[key]).iter().filter_map(Value::as_str).map(str::to_owned);
    let annotations = response.get("auditAnnotations").and_then(Value::as_object);
    let annotations = annotations.map(|map| {
        map.iter().filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect()
    });
    Ok(Response {
        verdict,
        warnings: texts("warnings").collect(),
        annotations: annotations.unwrap_or_default(),
    })
}

fn verify_identity(
    version: ReviewVersion,
    uid: &str,
    review: &Value,
    response: &Value,
) -> Result<(), Unusable> {
    let answered = response.str_at(&["uid"]).unwrap_or_default();
    if answered != uid {
        return Err(Unusable::Invalid(format!("expected response.uid={uid:?}, got {answered:?}")));
    }
    let (expected, kind, found) = (version.api_version(), meta::kind(review), meta::api_version(review));
    if kind != "AdmissionReview" || found != expected {
        let found = if found.contains('/') { found.to_owned() } else { format!("/{found}") };
        return Err(Unusable::Invalid(format!(
            "expected webhook response of {expected}, Kind=AdmissionReview, got {found}, Kind={kind}"
        )));
    }
    Ok(())
}

fn verify_patch(kind: WebhookKind, has_patch: bool, patch_type: Option<&str>) -> Result<(), Unusable> {
    let why = match (kind, has_patch, patch_type) {
        (WebhookKind::Mutating, true, None) => "webhook returned response.patch but not response.patchType",
        (WebhookKind::Mutating, false, Some(_)) => {
            "webhook returned response.patchType but not response.patch"
        }
        (WebhookKind::Mutating, true, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (WebhookKind::Validating, true, _) => "validating webhook may not return response.patch",
        (WebhookKind::Validating, false, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(Unusable::Invalid(why.to_owned()))
}

/// The operations of a patch; `None` if there are none.
fn operations(patch: &[u8]) -> Result<Option<Value>, String> {
    let operations = json::parse(patch).map_err(|error| error.to_string())?;
    match &operations {
        Value::Null => return Ok(None),
        Value::Array(list) if list.is_empty() => return Ok(None),
        Value::Array(list) if list.len() > MAX_OPERATIONS => {
            return Err(format!("the patch has more than {MAX_OPERATIONS} operations"));
        }
        Value::Array(_) => {}
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
                other.go_kind()
            ));
        }
    }
    patch::json::check(&operations).map_err(|error| error.to_string())?;
    Ok(Some(operations))
}

/// The refusal of a request by a webhook, with the `Status` of its response.
pub(super) fn denial(webhook: &str, result: Option<&Value>) -> Status {
    let denied = format!("admission webhook {webhook:?} denied the request");
    let empty = Value::Null;
    let result = result.unwrap_or(&empty);
    let mut status = Status::from_value(result);
    let code = result.int_at(&["code"]).unwrap_or(0);
    status.code = u16::try_from(code).ok().filter(|code| (400..=599).contains(code)).unwrap_or(400);
    status.message = match (result.str_at(&["message"]), result.str_at(&["reason"])) {
        (Some(message), _) if !message.is_empty() => format!("{denied}: {message}"),
        (_, Some(reason)) if !reason.is_empty() => format!("{denied}: {reason}"),
        _ => format!("{denied} without explanation"),
    };
    status
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn review(response: Value) -> Value {
        value!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": (response)})
    }

    fn verify(kind: WebhookKind, review: &Value) -> Result<Verdict, Unusable> {
        response(kind, ReviewVersion::V1, "u", review).map(|response| response.verdict)
    }

    fn patch(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn responses_are_verified_with_upstreams_messages() {
        use WebhookKind::{Mutating, Validating};
        let table = [
            (Validating, value!({}), "webhook response was absent"),
            (Validating, review(value!({"uid": "v"})), "expected response.uid=\"u\", got \"v\""),
            (
                Validating,
                value!({"response": {"uid": "u", "allowed": true}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (
                Validating,
                review(value!({"uid": "u", "allowed": true, "patch": (patch("[]"))})),
                "validating webhook may not return response.patch",
            ),
            (
                Validating,
                review(value!({"uid": "u", "allowed": true, "patchType": "JSONPatch"})),
                "validating webhook may not return response.patchType",
            ),
            (
                Mutating,
                review(value!({"uid": "u", "allowed": true, "patch": (patch("[]"))})),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                Mutating,
                review(value!({"uid": "u", "allowed": true, "patchType": "JSONPatch"})),
                "webhook returned response.patchType but not response.patch",
            ),
            (
                Mutating,
                review(value!({"uid": "u", "allowed": true, "patch": (patch("[]")), "patchType": ""})),
                "webhook returned invalid response.patchType of \"\"",
            ),
        ];
        for (kind, review, expected) in table {
            assert_eq!(verify(kind, &review), Err(Unusable::Invalid(expected.to_owned())));
        }
    }

    #[test]
    fn patches_are_decoded_and_limited() {
        let mutate = |text: &str, kind: &str| {
            let response = value!({"uid": "u", "allowed": true, "patch": (patch(text)), "patchType": (kind)});
            verify(WebhookKind::Mutating, &review(response))
        };
        assert_eq!(mutate("[]", "JSONPatch"), Ok(Verdict::Allowed(None)));
        let add = r#"[{"op":"add","path":"/a","value":1}]"#;
        assert!(matches!(mutate(add, "JSONPatch"), Ok(Verdict::Allowed(Some(_)))));
        assert_eq!(mutate(add, "Other"), Err(Unusable::PatchType("Other".to_owned())));
        assert!(matches!(mutate("{}", "JSONPatch"), Err(Unusable::Patch(_))));
        assert!(matches!(mutate("[", "JSONPatch"), Err(Unusable::Patch(_))));
        let many =
            format!("[{}]", vec![r#"{"op":"test","path":"/a","value":1}"#; MAX_OPERATIONS + 1].join(","));
        assert!(matches!(mutate(&many, "JSONPatch"), Err(Unusable::Patch(_))));
    }

    #[test]
    fn reviews_of_v1beta1_are_not_identified() {
        let review =
            value!({"response": {"allowed": true, "patch": (patch(r#"[{"op":"remove","path":"/a"}]"#))}});
        let found = response(WebhookKind::Mutating, ReviewVersion::V1Beta1, "u", &review).unwrap();
        assert!(matches!(found.verdict, Verdict::Allowed(Some(_))));
        let found = response(WebhookKind::Validating, ReviewVersion::V1Beta1, "u", &review).unwrap();
        assert_eq!(found.verdict, Verdict::Allowed(None));
    }

    #[test]
    fn denials_carry_the_status_of_the_webhook() {
        let table = [
            (None, 400, "", "admission webhook \"w\" denied the request without explanation"),
            (
                Some(value!({"code": 200, "status": "Success", "reason": "Because"})),
                400,
                "Because",
                "admission webhook \"w\" denied the request: Because",
            ),
            (
                Some(value!({"code": 403, "reason": "Forbidden", "message": "no"})),
                403,
                "Forbidden",
                "admission webhook \"w\" denied the request: no",
            ),
            (
                Some(value!({"code": 99999, "message": "no"})),
                400,
                "",
                "admission webhook \"w\" denied the request: no",
            ),
        ];
        for (result, code, reason, message) in table {
            let status = denial("w", result.as_ref());
            assert_eq!((status.code, &*status.reason, status.message.as_str()), (code, reason, message));
        }
    }
}
