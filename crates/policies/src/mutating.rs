//! Mutating policies: the patches that a policy makes for one request with one parameter.
//!
//! A mutation is evaluated with the object as the mutations before it left it. `configuration` makes the tree of an
//! `Object`, which is merged by the type of the object; `json_patch` the operations of a JSON patch.

#[cfg(test)]
mod tests;
mod values;

use corten_api::schema::Struct;
use corten_api::{Value as Tree, managed, patch};
use corten_cel::Value;

use crate::POLICY_COST_BUDGET;
use crate::activation::{Activation, Bindings, Composited, Request};
use crate::expression::{Expression, Returns};
use crate::match_conditions::{FailurePolicy, MatchConditions, Matched};
use crate::policy::{Composition, items, text};

/// A compiled MutatingAdmissionPolicy.
#[derive(Debug)]
pub struct MutatingPolicy {
    conditions: MatchConditions,
    variables: Box<Composited>,
    mutations: Box<[Mutation]>,
}

#[derive(Debug)]
enum Mutation {
    ApplyConfiguration(Expression),
    JsonPatch(Expression),
}

impl MutatingPolicy {
    /// Compiles the specification of a stored policy.
    pub fn compile(spec: &Tree) -> MutatingPolicy {
        let composition = Composition::of_spec(spec);
        let environment = composition.environment();
        let patches = composition.patch_environment();
        let mutation = |mutation: &Tree| {
            let expression = |kind: &str, returns| {
                let expression = mutation.get(kind).map(|kind| text(kind, "expression")).unwrap_or_default();
                Expression::compile(&patches, expression, returns)
            };
            match text(mutation, "patchType") {
                "JSONPatch" => Mutation::JsonPatch(expression("jsonPatch", Returns::JsonPatch)),
                _ => Mutation::ApplyConfiguration(expression(
                    "applyConfiguration",
                    Returns::ApplyConfiguration,
                )),
            }
        };
        MutatingPolicy {
            conditions: MatchConditions::compile_in(
                &environment,
                spec.get("matchConditions"),
                FailurePolicy::of(spec),
            ),
            mutations: items(spec, "mutations").iter().map(mutation).collect(),
            variables: composition.into_variables(),
        }
    }

    /// The outcome of the match conditions.
    pub fn matches(&self, request: &dyn Request, params: Option<&Tree>) -> Matched {
        self.conditions.evaluate_with(request, params, &self.variables)
    }

    /// The number of mutations.
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// The object after one of the mutations; none if it stays as it is. `schema` is the type of the object.
    pub fn mutate(
        &self,
        at: usize,
        request: &dyn Request,
        params: Option<&Tree>,
        schema: &Struct,
    ) -> Result<Option<Tree>, String> {
        let (Some(mutation), Some(object)) = (self.mutations.get(at), request.object()) else {
            return Ok(None);
        };
        let (Mutation::ApplyConfiguration(expression) | Mutation::JsonPatch(expression)) = mutation;
        if let Err(error) = &expression.program {
            return Err(error.to_string());
        }
        let bindings = Bindings { params, namespace: true, authorizer: true };
        let activation = Activation::new(request, bindings, &self.variables);
        let mut budget = POLICY_COST_BUDGET;
        let value = activation.evaluate(expression, &mut budget)??;
        match mutation {
            Mutation::ApplyConfiguration(_) => configure(object, &value, schema).map(Some),
            Mutation::JsonPatch(_) => patched(object, &value),
        }
    }
}

fn configure(object: &Tree, value: &Value<'_>, schema: &Struct) -> Result<Tree, String> {
    let Value::Object(configuration) = value else {
        let ty = value.type_name();
        return Err(format!("unsupported return type from ApplyConfiguration expression: {ty}"));
    };
    values::check_type_names(value).map_err(|why| format!("type mismatch: {why}"))?;
    let mut tree = values::fields(configuration)?;
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key) {
            tree.set(&[key], value.clone());
        }
    }
    managed::merge_configuration(schema, object, &tree).map_err(|why| format!("error applying patch: {why}"))
}

fn patched(object: &Tree, value: &Value<'_>) -> Result<Option<Tree>, String> {
    let operations = values::operations(value)?;
    let mut result = object.clone();
    match patch::json::apply(&mut result, &operations) {
        Ok(()) => Ok(Some(result)),
        // A test that fails leaves the object as it is.
        Err(patch::json::Error::Refused(why)) if why.ends_with(": test failed") => Ok(None),
        Err(why) => Err(format!("JSON Patch: {why}")),
    }
}
