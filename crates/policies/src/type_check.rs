//! Type checks of validating policies: warnings about expressions that do not fit the types that a policy matches.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use corten_api::Value as Tree;
use corten_cel::schema::Schema;
use corten_cel::{Environment, Type};

use crate::environment::{Declared, variables, with_types};
use crate::policy::{declared_type, has_params, items, text};

/// Maximum number of types that one rule of a policy is checked against.
pub const MAX_TYPES: usize = 10;

/// A kind that a policy matches, and its type if it is known.
#[derive(Clone, Debug)]
pub struct CheckedKind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub schema: Arc<Schema>,
}

/// A warning about an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The path of the expression.
    pub field_ref: String,
    pub warning: String,
}

/// Resources of a policy's rules that can be checked: group, version and resource, in order. Rules with wildcards in
/// groups or versions are left out, as are subresources.
pub fn resources(spec: &Tree) -> Vec<Vec<(String, String, String)>> {
    let rules = spec.get("matchConstraints").map(|constraints| items(constraints, "resourceRules"));
    rules.unwrap_or_default().iter().map(rule_resources).collect()
}

fn rule_resources(rule: &Tree) -> Vec<(String, String, String)> {
    let texts = |field: &str| -> Vec<&str> { items(rule, field).iter().filter_map(Tree::as_str).collect() };
    let (mut groups, mut versions) = (texts("apiGroups"), texts("apiVersions"));
    let mut resources = texts("resources");
    resources.retain(|resource| !resource.contains(['*', '/']));
    if groups.iter().chain(&versions).any(|name| name.contains('*')) {
        return Vec::new();
    }
    groups.sort_unstable();
    versions.sort_unstable();
    resources.sort_unstable();
    let mut found = Vec::new();
    for group in &groups {
        for version in &versions {
            for resource in &resources {
                // A rule with many unknown resources is not checked as a whole.
                if found.len() < 100 * MAX_TYPES {
                    found.push(((*group).to_owned(), (*version).to_owned(), (*resource).to_owned()));
                }
            }
        }
    }
    found
}

/// Checks the expressions of a policy against the kinds that it matches, which are in order of group, version and kind.
pub fn check(spec: &Tree, kinds: &[CheckedKind], params: Option<&(&str, Arc<Schema>)>) -> Vec<Warning> {
    let environments: Vec<(String, Environment)> =
        kinds.iter().map(|kind| (kind.to_string(), environment(spec, kind, params))).collect();
    let mut warnings = Vec::new();
    for (at, validation) in items(spec, "validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = text(validation, field);
            if field == "messageExpression" && expression.is_empty() {
                continue;
            }
            let found: Vec<String> = environments
                .iter()
                .filter_map(|(kind, environment)| {
                    environment.check(expression).err().map(|issues| format!("{kind}: {issues}\n"))
                })
                .collect();
            if !found.is_empty() {
                let field_ref = format!("spec.validations[{at}].{field}");
                warnings.push(Warning { field_ref, warning: found.join("\n") });
            }
        }
    }
    warnings
}

fn environment(spec: &Tree, kind: &CheckedKind, params: Option<&(&str, Arc<Schema>)>) -> Environment {
    let ty = |name: &str, schema: &Arc<Schema>| schema.to_type(name).unwrap_or(Type::Dyn);
    let params = params.map_or(Type::Dyn, |(name, schema)| ty(name, schema));
    let declared = Declared { params: has_params(spec), authorizer: true, patch_types: false };
    let object = ty(&kind.kind, &kind.schema);
    let base = with_types(&Environment::stored(), declared, object, params);
    let mut record = Arc::new(variables());
    for variable in items(spec, "variables") {
        let checked = base.with_record(record.clone()).check(text(variable, "expression"));
        let ty = checked.map_or(Type::Dyn, |checked| declared_type(checked.output()));
        Arc::make_mut(&mut record).push(text(variable, "name").into(), ty);
    }
    base.with_record(record)
}

impl std::fmt::Display for CheckedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}
