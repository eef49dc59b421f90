//! Label selectors.

use std::fmt;

use super::SelectorError;
use crate::names;
use crate::status::ErrorList;
use crate::value::{Map, Str, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// The requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: Str,
    operator: Operator,
    /// Sorted: a selector may have many, and is compared with every object of a list.
    values: Vec<Str>,
}

impl Requirement {
    /// Checks key and values.
    pub fn new(key: &str, operator: Operator, mut values: Vec<Str>) -> Result<Requirement, SelectorError> {
        let mut errors = ErrorList::new();
        if let Some(complaint) = key_complaint(key) {
            errors.invalid("key", &Value::from(key), complaint);
        }
        let count = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        if let Some(complaint) = count {
            errors.invalid("values", &list(&values), complaint);
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (i, value) in values.iter().enumerate().filter(|(_, value)| integer(value).is_none()) {
                let complaint = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.invalid(format!("values[{i}]"), &Value::from(value.as_str()), complaint);
            }
        }
        for (i, value) in values.iter().enumerate() {
            let complaints = names::label_value(value);
            if !complaints.is_empty() {
                let field = format!("values[{i}][{key}]");
                errors.invalid(field, &Value::from(value.as_str()), complaints.join("; "));
            }
        }
        if errors.is_empty() {
            values.sort_unstable();
            Ok(Requirement { key: Str::new(key), operator, values })
        } else {
            Err(SelectorError(errors.summary()))
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[Str] {
        &self.values
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.binary_search_by(|value| value.as_str().cmp(label)).is_ok();
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compares(label).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.compares(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compares(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((integer(label?)?, integer(self.values.first()?)?))
    }
}

/// The errors of a label key, in one line.
pub(super) fn key_complaint(key: &str) -> Option<String> {
    let complaints = names::qualified_name(key);
    (!complaints.is_empty()).then(|| complaints.join("; "))
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// An empty list is printed as Go's nil here.
fn list(values: &[Str]) -> Value {
    match values {
        [] => Value::Null,
        _ => Value::Array(values.iter().cloned().map(Value::String).collect()),
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let (before, after) = match self.operator {
            Operator::DoesNotExist => return write!(f, "!{key}"),
            Operator::Exists => return f.write_str(key),
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::GreaterThan => (">", ""),
            Operator::LessThan => ("<", ""),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
        };
        let mut values: Vec<&str> = self.values.iter().map(Str::as_str).collect();
        values.sort_unstable();
        write!(f, "{key}{before}{}{after}", values.join(","))
    }
}

/// A selector over labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    /// In order of key. `None` selects nothing.
    requirements: Option<Vec<Requirement>>,
}

impl LabelSelector {
    pub const fn everything() -> LabelSelector {
        LabelSelector { requirements: Some(Vec::new()) }
    }

    pub const fn nothing() -> LabelSelector {
        LabelSelector { requirements: None }
    }

    /// All of the requirements at once.
    pub fn all(mut requirements: Vec<Requirement>) -> LabelSelector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements: Some(requirements) }
    }

    /// Parses a query parameter: `a=b,c!=d,e in (x,y),!f`.
    pub fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
        super::parse::parse(text).map(LabelSelector::all)
    }

    /// A `metav1.LabelSelector`. Without one nothing is selected, with an empty one everything.
    pub fn from_object(selector: Option<&Value>) -> Result<LabelSelector, SelectorError> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(LabelSelector::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in
            selector.get("matchLabels").and_then(Value::as_object).into_iter().flat_map(Map::iter)
        {
            let value = Str::new(value.as_str().unwrap_or_default());
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in selector.items_at(&["matchExpressions"]) {
            requirements.push(from_expression(expression)?);
        }
        Ok(LabelSelector::all(requirements))
    }

    /// Exactly these labels, unchecked: the plain selectors of services and replication controllers.
    pub fn from_labels(labels: &Map) -> LabelSelector {
        let equals = |(key, value): (&Str, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![Str::new(value.as_str().unwrap_or_default())],
        };
        LabelSelector { requirements: Some(labels.iter().map(equals).collect()) }
    }

    /// Returns true if the labels satisfy the selector.
    pub fn matches(&self, labels: &Map) -> bool {
        self.matches_with(|key| labels.get(key).map(|value| value.as_str().unwrap_or_default()))
    }

    /// Returns true if an object's labels satisfy the selector.
    pub fn matches_object(&self, object: &Value) -> bool {
        static NONE: Map = Map::new();
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_object);
        self.matches(labels.unwrap_or(&NONE))
    }

    /// Returns true if the labels that `get` returns satisfy the selector.
    pub fn matches_with<'l>(&self, get: impl Fn(&str) -> Option<&'l str>) -> bool {
        match &self.requirements {
            Some(requirements) => requirements.iter().all(|wanted| wanted.matches(get(&wanted.key))),
            None => false,
        }
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// The one value that the selector requires of a label, if any.
    pub fn require_exact_match(&self, label: &str) -> Option<&str> {
        let wanted = self.requirements().iter().find(|wanted| wanted.key == label)?;
        match (wanted.operator, wanted.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

fn from_expression(expression: &Value) -> Result<Requirement, SelectorError> {
    let text = |field| expression.get(field).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => {
            let quoted = crate::status::quoted(other);
            return Err(SelectorError(format!("{quoted} is not a valid label selector operator")));
        }
    };
    let values = expression.items_at(&["values"]).iter().filter_map(Value::as_str).map(Str::new).collect();
    Requirement::new(text("key"), operator, values)
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}
