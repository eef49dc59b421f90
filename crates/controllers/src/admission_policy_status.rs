//! Type checks of ValidatingAdmissionPolicies: warnings in the status about expressions that do not fit the matched types.
//!
//! Watches policies. Writes the status of those whose specification it has not checked yet. Types of custom resources are
//! read from the API server's OpenAPI documents.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use corten_api::resources::{self, schema_of, split_api_version};
use corten_api::{Value, value};
use corten_cel::schema::Schema;
use corten_client::{Caches, Change, Error, Key, Patch, kinds};
use corten_policies::declared;
use corten_policies::type_check::{self, CheckedKind, MAX_TYPES};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

const NAME: &str = "validatingadmissionpolicy-status-controller";
const MANAGER: &str = "validatingadmissionpolicy-status";
/// Maximum number of documents that are read for one policy.
const MAX_DOCUMENTS: usize = 20;

pub(crate) struct AdmissionPolicyStatus;

/// The state of one policy.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist or is checked already.
    policy: Option<Value>,
    /// Documents that were asked for; none if they could not be read.
    documents: HashMap<String, Option<Value>>,
}

impl Controller for AdmissionPolicyStatus {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch { kind: &kinds::VALIDATING_ADMISSION_POLICIES, keys: changed }]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let policy = caches.of(&kinds::VALIDATING_ADMISSION_POLICIES).get(key).map(|policy| policy.tree());
        World { policy: policy.filter(is_unchecked), ..World::default() }
    }

    fn ask(&self, world: &World) -> Vec<String> {
        let Some(policy) = &world.policy else { return Vec::new() };
        let mut missing = Vec::new();
        let mut need = |path: String| {
            if !world.documents.contains_key(&path) && !missing.contains(&path) {
                missing.push(path);
            }
        };
        let types = Types { documents: &world.documents };
        types.of_policy(policy, &mut need);
        types.of_params(policy, &mut need);
        missing.truncate(MAX_DOCUMENTS.saturating_sub(world.documents.len()));
        missing
    }

    fn learn(&self, world: &mut World, path: &str, answer: Result<Value, Error>) {
        world.documents.insert(path.to_owned(), answer.ok());
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        let Some(policy) = &world.policy else { return Plan::done() };
        let types = Types { documents: &world.documents };
        let kinds = types.of_policy(policy, &mut |_| {});
        let params = types.of_params(policy, &mut |_| {});
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let params = params.as_ref().map(|(kind, schema)| (kind.as_str(), schema.clone()));
        let warnings: Vec<Value> = type_check::check(spec, &kinds, params.as_ref())
            .into_iter()
            .map(|found| value!({ "fieldRef": (found.field_ref), "warning": (found.warning) }))
            .collect();
        let mut checking = value!({});
        if !warnings.is_empty() {
            checking.set(&["expressionWarnings"], warnings);
        }
        let kind = &kinds::VALIDATING_ADMISSION_POLICIES;
        let mut object = kind.new_object("", &key.name);
        let generation = policy.int_at(&["metadata", "generation"]).unwrap_or_default();
        object.set(&["status", "observedGeneration"], generation);
        object.set(&["status", "typeChecking"], checking);
        let patch = Patch::Apply { manager: MANAGER, force: true, object };
        Plan::done().then(Action::Patch { kind, key: key.clone(), patch, subresource: "status" })
    }
}

fn changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    keys.push(change.object().key.clone());
}

fn is_unchecked(policy: &Value) -> bool {
    let generation = policy.int_at(&["metadata", "generation"]).unwrap_or_default();
    generation > policy.int_at(&["status", "observedGeneration"]).unwrap_or_default()
}

/// The types that a policy refers to. Documents that are not read yet are asked for.
struct Types<'w> {
    documents: &'w HashMap<String, Option<Value>>,
}

type Need<'n> = &'n mut dyn FnMut(String);

impl Types<'_> {
    /// The kinds that a policy matches, in order of group, version and kind.
    fn of_policy(&self, policy: &Value, need: Need<'_>) -> Vec<CheckedKind> {
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let mut found: BTreeMap<(String, String, String), CheckedKind> = BTreeMap::new();
        for rule in type_check::resources(spec) {
            let mut count = 0;
            for (group, version, resource) in rule {
                for (group, kind) in self.kinds_of(&group, &version, &resource, need) {
                    count += 1;
                    if let Some(schema) = self.schema(&group, &version, &kind, need) {
                        let known = (group.clone(), version.clone(), kind.clone());
                        let version = version.clone();
                        found.insert(known, CheckedKind { group, version, kind, schema });
                    }
                    // Upstream leaves the other rules out as well.
                    if count == MAX_TYPES {
                        return found.into_values().collect();
                    }
                }
            }
        }
        found.into_values().collect()
    }

    /// The kind of a policy's parameters and its type.
    fn of_params(&self, policy: &Value, need: Need<'_>) -> Option<(String, Arc<Schema>)> {
        let kind = policy.at(&["spec", "paramKind"])?;
        let (group, version) = split_api_version(kind.str_at(&["apiVersion"])?);
        let kind = kind.str_at(&["kind"])?;
        Some((kind.to_owned(), self.schema(group, version, kind, need)?))
    }

    /// Groups and kinds of a resource. The empty group stands for all built-in ones.
    fn kinds_of(&self, group: &str, version: &str, resource: &str, need: Need<'_>) -> Vec<(String, String)> {
        let is_known = |known: &&resources::Resource| {
            known.version == version && known.name == resource && (group.is_empty() || known.group == group)
        };
        let mut kinds: Vec<(String, String)> = resources::all()
            .iter()
            .filter(is_known)
            .map(|known| (known.group.to_string(), known.kind.to_string()))
            .collect();
        if kinds.is_empty() && !group.is_empty() {
            let path = format!("/apis/{group}/{version}");
            let Some(document) = self.documents.get(&path) else {
                need(path);
                return kinds;
            };
            let listed = document.as_ref().map(|document| document.items_at(&["resources"]));
            let found =
                listed.unwrap_or_default().iter().filter(|listed| listed.str_at(&["name"]) == Some(resource));
            kinds.extend(
                found.filter_map(|found| Some((group.to_owned(), found.str_at(&["kind"])?.to_owned()))),
            );
        }
        kinds
    }

    fn schema(&self, group: &str, version: &str, kind: &str, need: Need<'_>) -> Option<Arc<Schema>> {
        let is_built_in =
            resources::all().iter().any(|known| known.group == group && known.version == version);
        if is_built_in {
            return schema_of(group, version, kind).map(|schema| declared::built_in(&schema));
        }
        let path = format!("/openapi/v3/apis/{group}/{version}");
        let Some(document) = self.documents.get(&path) else {
            need(path);
            return None;
        };
        let schemas = document.as_ref()?.at(&["components", "schemas"])?.as_object()?;
        let is_wanted = |schema: &&Value| {
            schema.items_at(&["x-kubernetes-group-version-kind"]).iter().any(|known| {
                known.str_at(&["group"]) == Some(group)
                    && known.str_at(&["version"]) == Some(version)
                    && known.str_at(&["kind"]) == Some(kind)
            })
        };
        schemas.iter().map(|(_, schema)| schema).find(is_wanted).map(declared::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(spec: Value) -> Value {
        value!({ "metadata": { "name": "p", "generation": 2 }, "spec": spec, "status": { "observedGeneration": 1 } })
    }

    fn status(world: &World) -> Value {
        let plan = AdmissionPolicyStatus.plan(&Key::new("", "p"), world, Timestamp::UNIX_EPOCH);
        let mut actions = plan.actions();
        match actions.next() {
            Some(Action::Patch { patch: Patch::Apply { object, .. }, subresource: "status", .. }) => {
                object.get("status").cloned().unwrap_or_default()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unchecked_policies_get_a_status() {
        let rules = value!([{ "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"] }]);
        let spec = value!({ "matchConstraints": { "resourceRules": rules }, "validations": [{ "expression": "object.replicas > 1" }] });
        let world = World { policy: Some(policy(spec)), ..World::default() };
        assert!(AdmissionPolicyStatus.ask(&world).is_empty());
        let status = status(&world);
        assert_eq!(status.int_at(&["observedGeneration"]), Some(2));
        let warnings = status.items_at(&["typeChecking", "expressionWarnings"]);
        assert_eq!(warnings[0].str_at(&["fieldRef"]), Some("spec.validations[0].expression"));
        assert!(!is_unchecked(
            &value!({ "metadata": { "generation": 1 }, "status": { "observedGeneration": 1 } })
        ));
    }

    #[test]
    fn types_of_custom_resources_are_read() {
        let rules =
            value!([{ "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"] }]);
        let spec = value!({ "matchConstraints": { "resourceRules": rules }, "validations": [{ "expression": "object.spec.other > 1" }] });
        let mut world = World { policy: Some(policy(spec)), ..World::default() };
        let asked = AdmissionPolicyStatus.ask(&world);
        assert_eq!(asked, ["/apis/example.com/v1"]);
        let listed = value!({ "resources": [{ "name": "widgets", "kind": "Widget" }] });
        AdmissionPolicyStatus.learn(&mut world, &asked[0], Ok(listed));
        let asked = AdmissionPolicyStatus.ask(&world);
        assert_eq!(asked, ["/openapi/v3/apis/example.com/v1"]);
        let schema = value!({
            "type": "object",
            "properties": { "spec": { "type": "object", "properties": { "size": { "type": "integer" } } } },
            "x-kubernetes-group-version-kind": [{ "group": "example.com", "version": "v1", "kind": "Widget" }],
        });
        let document = value!({ "components": { "schemas": { "com.example.v1.Widget": schema } } });
        AdmissionPolicyStatus.learn(&mut world, &asked[0], Ok(document));
        assert!(AdmissionPolicyStatus.ask(&world).is_empty());
        assert_eq!(status(&world).items_at(&["typeChecking", "expressionWarnings"]).len(), 1);
    }
}
