//! The filter of a list or watch: namespace, name, labels and fields.

use corten_api::selector::{FieldSelector, LabelSelector};
use corten_api::{Status, Str};

use crate::catalog::Served;
use crate::object::Object;

#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Empty for all namespaces.
    pub namespace: Str,
    labels: Option<LabelSelector>,
    fields: Vec<FieldCondition>,
}

#[derive(Debug, Clone)]
struct FieldCondition {
    field: FieldOf,
    equal: bool,
    value: Str,
}

#[derive(Debug, Clone, Copy)]
enum FieldOf {
    Name,
    Namespace,
    /// By position in the resource's selectable fields.
    Selectable(usize),
}

/// The limit of a selector's requirements: each is matched against every object of a list and every event of a watch.
const MOST_REQUIREMENTS: usize = 1000;

fn bounded(requirements: usize) -> Result<(), Status> {
    match requirements > MOST_REQUIREMENTS {
        true => {
            Err(Status::bad_request(format!("a selector may have at most {MOST_REQUIREMENTS} requirements")))
        }
        false => Ok(()),
    }
}

impl Filter {
    /// Parses the selectors of a request on a resource.
    pub(crate) fn new(
        served: &Served,
        namespace: &Str,
        labels: &str,
        fields: &str,
    ) -> Result<Filter, Status> {
        let mut filter = Filter { namespace: namespace.clone(), ..Filter::default() };
        if !labels.is_empty() {
            let selector = LabelSelector::parse(labels).map_err(|e| Status::bad_request(e.to_string()))?;
            bounded(selector.requirements().len())?;
            filter.labels = Some(selector).filter(|s| !s.is_everything());
        }
        if !fields.is_empty() {
            let selector = FieldSelector::parse(fields).map_err(|e| Status::bad_request(e.to_string()))?;
            bounded(selector.requirements().len())?;
            for requirement in selector.requirements() {
                filter.fields.push(FieldCondition {
                    field: field_of(served, &requirement.field)?,
                    equal: requirement.equal,
                    value: requirement.value.clone(),
                });
            }
        }
        Ok(filter)
    }

    /// True if every object that matches has this value in a selectable field.
    pub(crate) fn requires(&self, served: &Served, field: &str, value: &str) -> bool {
        let Ok(FieldOf::Selectable(wanted)) = field_of(served, field) else { return false };
        let is_it = |condition: &FieldCondition| {
            condition.equal
                && condition.value == value
                && matches!(condition.field, FieldOf::Selectable(at) if at == wanted)
        };
        self.fields.iter().any(is_it)
    }

    /// Adds the name in the URL.
    pub(crate) fn named(mut self, name: &Str) -> Filter {
        if !name.is_empty() {
            self.fields.push(FieldCondition { field: FieldOf::Name, equal: true, value: name.clone() });
        }
        self
    }

    /// True if labels or fields are selected too.
    pub(crate) fn is_selective(&self) -> bool {
        self.labels.is_some() || !self.fields.is_empty()
    }

    /// The filter without the conditions that a conversion between versions can change the outcome of; `None` if there is no
    /// such condition.
    pub(crate) fn before_conversion(&self) -> Option<Filter> {
        let is_content = |condition: &FieldCondition| matches!(condition.field, FieldOf::Selectable(_));
        if self.labels.is_none() && !self.fields.iter().any(is_content) {
            return None;
        }
        let fields = self.fields.iter().filter(|condition| !is_content(condition)).cloned().collect();
        Some(Filter { namespace: self.namespace.clone(), labels: None, fields })
    }

    /// Returns true if a cluster-scoped object of this name that has no labels matches.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        let holds = |condition: &FieldCondition| {
            let value = if matches!(condition.field, FieldOf::Name) { name } else { "" };
            (condition.value == value) == condition.equal
        };
        self.fields.iter().all(holds) && self.labels.as_ref().is_none_or(|s| s.matches_with(|_| None))
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || object.namespace == self.namespace)
            && self.fields.iter().all(|condition| condition.holds(object))
            && self.labels.as_ref().is_none_or(|s| s.matches_with(|key| object.projection.label(key)))
    }
}

impl FieldCondition {
    fn holds(&self, object: &Object) -> bool {
        let value = match self.field {
            FieldOf::Name => &object.name,
            FieldOf::Namespace => &object.namespace,
            FieldOf::Selectable(i) => &object.projection.fields[i],
        };
        (*value == self.value) == self.equal
    }
}

fn field_of(served: &Served, field: &str) -> Result<FieldOf, Status> {
    match field {
        "metadata.name" => return Ok(FieldOf::Name),
        // As upstream: built-in resources without other selectable fields accept it even if they are cluster-scoped.
        "metadata.namespace"
            if served.resource.namespaced
                || served.custom().is_none() && served.rules.selectable.is_empty() =>
        {
            return Ok(FieldOf::Namespace);
        }
        _ => {}
    }
    if let Some(version) = served.custom() {
        let stored = served.cache.as_ref().and_then(|cache| cache.form.custom.as_ref());
        let position =
            stored.filter(|_| version.selects_by(field)).and_then(|s| s.selectable_position(field));
        let unsupported = || Status::bad_request(format!("field label not supported: {field}"));
        return position.map(FieldOf::Selectable).ok_or_else(unsupported);
    }
    let position = served.rules.selectable.iter().position(|s| s.label == field);
    position.map(FieldOf::Selectable).ok_or_else(|| Status::bad_request(unsupported(served, field)))
}

fn unsupported(served: &Served, field: &str) -> String {
    if served.rules.selectable.is_empty() {
        return format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }
    match served.kind() {
        "Job" => format!("field label {field:?} not supported for Job"),
        "ResourceSlice" => {
            format!("field label not supported for {}, Kind=ResourceSlice: {field}", served.api_version)
        }
        _ => format!("field label not supported: {field}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_with_too_many_requirements_are_rejected() {
        let requirements =
            |n: usize| LabelSelector::parse(&vec!["!a"; n].join(",")).unwrap().requirements().len();
        assert!(bounded(requirements(MOST_REQUIREMENTS)).is_ok());
        assert!(bounded(requirements(MOST_REQUIREMENTS + 1)).is_err_and(|refused| refused.code == 400));
    }
}
