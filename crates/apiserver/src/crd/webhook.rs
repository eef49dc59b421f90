//! ConversionReviews: the request to a conversion webhook, and the checks of its answer.
//!
//! Pure. The webhook may answer anything: an object keeps its identity and its metadata but for labels and annotations,
//! and an answer with other objects than those of the request is refused.

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, go, meta, names, value};

/// The review versions that this server can send, of those that the webhook accepts.
pub(super) fn review_version<'a>(accepted: impl IntoIterator<Item = &'a str>) -> Result<&'a str, String> {
    let mut accepted = accepted.into_iter();
    accepted
        .find(|version| matches!(*version, "v1" | "v1beta1"))
        .ok_or_else(|| "no supported conversion review versions".to_owned())
}

/// The review that asks for objects in another version.
pub(super) fn request(version: &str, uid: &str, objects: &[&Value], desired: &str) -> Value {
    let objects: Vec<Value> = objects.iter().map(|object| (*object).clone()).collect();
    value!({
        "apiVersion": (format!("apiextensions.k8s.io/{version}")),
        "kind": "ConversionReview",
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects},
        "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
    })
}

/// The converted objects of an answer, in the order of the request.
pub(super) fn converted(
    version: &str,
    uid: &str,
    originals: &[&Value],
    desired: &str,
    mut answer: Value,
) -> Result<Vec<Value>, String> {
    let (api_version, kind) = (meta::api_version(&answer), meta::kind(&answer));
    let expected = format!("apiextensions.k8s.io/{version}");
    if version == "v1" && (api_version != expected || kind != "ConversionReview") {
        let shown =
            if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
        return Err(format!(
            "failed: expected webhook response of {expected}, Kind=ConversionReview, got {shown}, Kind={kind}"
        ));
    }
    let Some(mut response) = answer.remove(&["response"]).filter(|response| !response.is_null()) else {
        return Err("failed: no response provided".to_owned());
    };
    let found = response.str_at(&["uid"]).unwrap_or_default();
    if version == "v1" && found != uid {
        return Err(format!("failed: expected response.uid={uid:?}, got {found:?}"));
    }
    let status = response.str_at(&["result", "status"]).unwrap_or_default();
    if status != "Success" {
        return Err(match response.str_at(&["result", "message"]) {
            Some(message) if !message.is_empty() => format!("failed: {message}"),
            _ => format!("failed: response.result.status was '{status}', not 'Success'"),
        });
    }
    let objects = match response.remove(&["convertedObjects"]) {
        Some(Value::Array(objects)) => objects,
        _ => Vec::new(),
    };
    if objects.len() != originals.len() {
        return Err(format!("returned {} objects, expected {}", objects.len(), originals.len()));
    }
    let place = |index: usize| match originals.len() {
        // As upstream reports an object that is not in a list.
        1 => ("returned invalid object".to_owned(), "returned invalid metadata".to_owned()),
        _ => (
            format!("returned invalid converted object at index {index}"),
            format!("returned invalid metadata in object at index {index}"),
        ),
    };
    let checked = objects.into_iter().zip(originals).enumerate();
    checked.map(|(i, (object, original))| check(place(i), object, original, desired)).collect()
}

/// One converted object with the metadata of its original. Errors begin with one of the texts for objects and metadata.
fn check(
    (of_object, of_metadata): (String, String),
    mut object: Value,
    original: &Value,
    desired: &str,
) -> Result<Value, String> {
    let invalid = |why: String| format!("{of_object}: {why}");
    let found = meta::api_version(&object);
    if found != desired {
        return Err(invalid(format!("invalid groupVersion (expected {desired}, received {found})")));
    }
    let (expected, found) = (meta::kind(original), meta::kind(&object));
    if expected != found {
        return Err(invalid(format!("invalid kind (expected {expected}, received {found})")));
    }
    for (what, of) in
        [("name", meta::name as fn(&Value) -> &str), ("namespace", meta::namespace), ("UID", meta::uid)]
    {
        let (expected, found) = (of(original), of(&object));
        if expected != found {
            return Err(invalid(format!("must have the same {what}: {expected} != {found}")));
        }
    }
    restore_metadata(original, &mut object).map_err(|why| format!("{of_metadata}: {why}"))?;
    Ok(object)
}

/// Restores the metadata of the original, except for labels and annotations.
fn restore_metadata(original: &Value, object: &mut Value) -> Result<(), String> {
    let sent = match object.get("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(sent)) => sent,
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", go::type_name(other)));
        }
    };
    let mut metadata = original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for key in ["labels", "annotations"] {
        match sent.get(key) {
            Some(new @ Value::Object(pairs)) => {
                check_texts(key, pairs)?;
                if metadata.get(key) != Some(new) {
                    check_pairs(key, new)?;
                }
                metadata.insert(key, pairs.clone());
            }
            None | Some(Value::Null) => drop(metadata.remove(key)),
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{key} of type {} in converted object",
                    go::type_name(other)
                ));
            }
        }
    }
    object.set(&["metadata"], metadata);
    Ok(())
}

fn check_texts(key: &str, pairs: &Map) -> Result<(), String> {
    match pairs.iter().find(|(_, value)| value.as_str().is_none()) {
        Some((name, value)) => Err(format!(
            "metadata.{key}[{name}] must be a string, but is {} in converted object",
            go::type_name(value)
        )),
        None => Ok(()),
    }
}

/// Validates labels or annotations that the webhook changed.
fn check_pairs(key: &str, pairs: &Value) -> Result<(), String> {
    let mut errors = ErrorList::new();
    let metadata = Field::new("metadata");
    match key {
        "labels" => names::validate_labels(Some(pairs), &metadata.child("labels"), &mut errors),
        _ => names::validate_annotations(Some(pairs), &metadata.child("annotation"), &mut errors),
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.summary()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original() -> Value {
        value!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}, "generation": 3}})
    }

    fn answer(objects: Value) -> Value {
        value!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "r", "convertedObjects": objects, "result": {"status": "Success"}},
        })
    }

    #[track_caller]
    fn check(answer: Value, expected: &Result<Value, &str>) {
        let found = converted("v1", "r", &[&original()], "g/v2", answer);
        assert_eq!(
            found.as_ref().map(|found| &found[0]).map_err(String::as_str),
            expected.as_ref().map_err(|e| *e)
        );
    }

    #[test]
    fn metadata_of_the_original_is_restored() {
        check(
            answer(
                value!([{"apiVersion": "g/v2", "kind": "K", "metadata": {"name": "a", "uid": "u", "labels": {"m": "2"}, "generation": 9}, "spec": 1}]),
            ),
            &Ok(
                value!({"apiVersion": "g/v2", "kind": "K", "metadata": {"name": "a", "uid": "u", "labels": {"m": "2"}, "generation": 3}, "spec": 1}),
            ),
        );
    }

    #[test]
    fn invalid_answers_are_refused() {
        check(
            value!({}),
            &Err(
                "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
            ),
        );
        check(answer(value!([])), &Err("returned 0 objects, expected 1"));
        check(
            answer(value!([{"apiVersion": "g/v1", "kind": "K"}])),
            &Err("returned invalid object: invalid groupVersion (expected g/v2, received g/v1)"),
        );
        check(
            answer(value!([{"apiVersion": "g/v2", "kind": "K", "metadata": {"name": "b", "uid": "u"}}])),
            &Err("returned invalid object: must have the same name: a != b"),
        );
        check(
            answer(
                value!([{"apiVersion": "g/v2", "kind": "K", "metadata": {"name": "a", "uid": "u", "labels": {"l": 1}}}]),
            ),
            &Err(
                "returned invalid metadata: metadata.labels[l] must be a string, but is int64 in converted object",
            ),
        );
        let mut failed = answer(value!([]));
        failed.set(&["response", "result"], value!({"status": "Failed", "message": "no"}));
        check(failed, &Err("failed: no"));
    }
}
