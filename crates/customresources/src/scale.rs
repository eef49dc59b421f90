//! The `scale` subresource of custom resources: replicas and label selector at the paths that the definition gives.

use corten_api::status::ErrorList;
use corten_api::{Str, Value, go, value};

/// The paths of `subresources.scale`.
#[derive(Debug, Clone)]
pub struct Scale {
    spec_replicas: Path,
    status_replicas: Path,
    label_selector: Option<Path>,
}

/// A path in dots, as the definition spells it, and its fields.
#[derive(Debug, Clone)]
struct Path {
    text: Str,
    fields: Vec<Str>,
}

impl Path {
    fn new(text: &str) -> Path {
        let fields = text.strip_prefix('.').unwrap_or(text).split('.').map(Str::new).collect();
        Path { text: Str::new(text), fields }
    }

    /// The value at the path; the error is upstream's for a value on the way that has no fields.
    fn find<'v>(&self, object: &'v Value) -> Result<Option<&'v Value>, String> {
        let mut value = object;
        for (i, field) in self.fields.iter().enumerate() {
            match value {
                Value::Null => return Ok(None),
                Value::Object(map) => match map.get(field) {
                    Some(member) => value = member,
                    None => return Ok(None),
                },
                other => return Err(wrong_type(&self.fields[..=i], other, "map[string]interface{}")),
            }
        }
        Ok(Some(value))
    }

    fn integer(&self, object: &Value) -> Result<Option<i64>, String> {
        match self.find(object)? {
            None => Ok(None),
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(other) => Err(wrong_type(&self.fields, other, "int64")),
        }
    }

    fn text<'v>(&self, object: &'v Value) -> Result<&'v str, String> {
        match self.find(object)? {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(wrong_type(&self.fields, other, "string")),
        }
    }

    fn validate_replicas(&self, object: &Value, errors: &mut ErrorList) {
        let (number, why) = match self.integer(object) {
            Err(why) => (0, why),
            Ok(Some(number)) if number < 0 => (number, "should be a non-negative integer".to_owned()),
            Ok(Some(number)) if number > i64::from(i32::MAX) => {
                (number, format!("should be less than or equal to {}", i32::MAX))
            }
            Ok(_) => return,
        };
        errors.invalid(self.text.as_str(), &Value::from(number), why);
    }
}

fn wrong_type(path: &[Str], value: &Value, expected: &str) -> String {
    let path: Vec<&str> = path.iter().map(Str::as_str).collect();
    let (shown, kind) = (go::plain(value), go::type_name(value));
    format!(".{} accessor error: {shown} is of the type {kind}, expected {expected}", path.join("."))
}

impl Scale {
    /// The `scale` subresource of a version of a definition, if it has one.
    pub fn of_version(version: &Value) -> Option<Scale> {
        let scale = version.at(&["subresources", "scale"]).filter(|scale| scale.as_object().is_some())?;
        let path = |key: &str| Path::new(scale.str_at(&[key]).unwrap_or_default());
        let selector = scale.str_at(&["labelSelectorPath"]);
        Some(Scale {
            spec_replicas: path("specReplicasPath"),
            status_replicas: path("statusReplicasPath"),
            label_selector: selector.filter(|path| !path.is_empty()).map(Path::new),
        })
    }

    /// The fields that lead to the desired replicas, for field management.
    pub fn spec_replicas_path(&self) -> &[Str] {
        &self.spec_replicas.fields
    }

    /// The path to the desired replicas as the definition spells it, for errors.
    pub fn spec_replicas_text(&self) -> &str {
        &self.spec_replicas.text
    }

    /// The `autoscaling/v1` `Scale` of an object, and true if the object has desired replicas.
    pub fn of(&self, object: &Value) -> Result<(Value, bool), String> {
        let desired = self.spec_replicas.integer(object)?;
        let actual = self.status_replicas.integer(object)?.unwrap_or(0);
        let selector = self.label_selector.as_ref().map_or(Ok(""), |path| path.text(object))?;
        let mut scale = value!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {},
            "status": {"replicas": (i64::from(actual as i32))},
        });
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.at(&["metadata", key]) {
                scale.set(&["metadata", key], value.clone());
            }
        }
        let replicas = desired.unwrap_or(0) as i32;
        if replicas != 0 {
            scale.set(&["spec", "replicas"], replicas);
        }
        if !selector.is_empty() {
            scale.set(&["status", "selector"], selector);
        }
        Ok((scale, desired.is_some()))
    }

    /// Sets the desired replicas of an object. The error is upstream's for a value on the way that has no fields.
    pub fn set_replicas(&self, object: &mut Value, replicas: i64) -> Result<(), String> {
        let fields = &self.spec_replicas.fields;
        let Some((last, parents)) = fields.split_last() else { return Ok(()) };
        let mut place = object;
        for (i, field) in parents.iter().enumerate() {
            let Value::Object(map) = place else { break };
            place = map.entry(field.clone());
            match place {
                Value::Object(_) => {}
                Value::Null => *place = Value::object(),
                _ => {
                    let path: Vec<&str> = fields[..=i].iter().map(Str::as_str).collect();
                    let path = path.join(".");
                    return Err(format!(
                        "value cannot be set because .{path} is not a map[string]interface{{}}"
                    ));
                }
            }
        }
        place.make_object().insert(last.clone(), replicas);
        Ok(())
    }

    /// Validates the desired replicas of an object.
    pub fn validate_spec(&self, object: &Value, errors: &mut ErrorList) {
        self.spec_replicas.validate_replicas(object, errors);
    }

    /// Validates the actual replicas and the label selector of an object.
    pub fn validate_status(&self, object: &Value, errors: &mut ErrorList) {
        self.status_replicas.validate_replicas(object, errors);
        if let Some(path) = &self.label_selector
            && let Err(why) = path.text(object)
        {
            errors.invalid(path.text.as_str(), &Value::from(""), why);
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    fn scale() -> Scale {
        let version = value!({"subresources": {"scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.count",
            "labelSelectorPath": ".status.selector",
        }}});
        Scale::of_version(&version).unwrap()
    }

    #[track_caller]
    fn check(object: &str, expected: Result<(&str, bool), &str>, errors: &str) {
        let object = json::parse(object.as_bytes()).unwrap();
        let made = scale().of(&object).map(|(scale, found)| (json::write_to_string(&scale), found));
        let made = made.as_ref().map(|(text, found)| (text.as_str(), *found)).map_err(String::as_str);
        assert_eq!(made, expected);
        let mut found = ErrorList::new();
        scale().validate_spec(&object, &mut found);
        scale().validate_status(&object, &mut found);
        assert_eq!(found.summary(), errors);
    }

    #[test]
    fn scales() {
        check(
            r#"{"metadata":{"name":"n","labels":{}},"spec":{"replicas":3},"status":{"count":2,"selector":"a=b"}}"#,
            Ok((
                r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"n"},"spec":{"replicas":3},"status":{"replicas":2,"selector":"a=b"}}"#,
                true,
            )),
            "",
        );
        check(
            "{}",
            Ok((
                r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{},"spec":{},"status":{"replicas":0}}"#,
                false,
            )),
            "",
        );
        let text = ".spec.replicas accessor error: x is of the type string, expected int64";
        check(
            r#"{"spec":{"replicas":"x"},"status":{"selector":{"a":1}}}"#,
            Err(text),
            &format!(
                "[.spec.replicas: Invalid value: 0: {text}, .status.selector: Invalid value: \"\": .status.selector accessor error: map[a:1] is of the type map[string]interface {{}}, expected string]"
            ),
        );
        check(
            r#"{"spec":{"replicas":-1},"status":{"count":3000000000}}"#,
            Ok((
                r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{},"spec":{"replicas":-1},"status":{"replicas":-1294967296}}"#,
                true,
            )),
            "[.spec.replicas: Invalid value: -1: should be a non-negative integer, .status.count: Invalid value: 3000000000: should be less than or equal to 2147483647]",
        );
    }

    #[test]
    fn replicas_are_set() {
        let mut object = value!({});
        scale().set_replicas(&mut object, 4).unwrap();
        assert_eq!(object, value!({"spec": {"replicas": 4}}));
        let error = scale().set_replicas(&mut value!({"spec": 1}), 4).unwrap_err();
        assert_eq!(error, "value cannot be set because .spec is not a map[string]interface{}");
    }
}
