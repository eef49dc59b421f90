//! `patch`: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! A patch is applied to the object as read and committed only if that is still current; after a conflict it is applied
//! again to the newer state, unless it contains a resourceVersion.

use corten_api::conform::{Extent, TypeError, conform, convert};
use corten_api::status::ErrorList;
use corten_api::{Status, Value, go, json, managed, meta, patch, yaml};

use super::write::{CreatedBy, Current, Ownership, RACE_RETRIES, create_object, replace};
use super::{list, prepare};
use crate::call::Call;
use crate::decode::{self, Expected, FieldValidation};
use crate::negotiate;
use crate::respond::{self, Answer};
use crate::write_options::WriteOptions;

/// The kinds of patch, by media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

const PATCH_TYPES: [(&str, PatchKind); 4] = [
    ("application/json-patch+json", PatchKind::Json),
    ("application/merge-patch+json", PatchKind::Merge),
    ("application/strategic-merge-patch+json", PatchKind::Strategic),
    ("application/apply-patch+yaml", PatchKind::Apply),
];

pub(super) fn patch_kind(call: &Call) -> Result<PatchKind, Status> {
    let media_type = negotiate::content_type(&call.headers);
    // The type of a custom resource has no merge keys.
    let is_custom = call.served.custom().is_some() && call.at.subresource != "scale";
    let supported = PATCH_TYPES.iter().filter(|(_, kind)| !is_custom || *kind != PatchKind::Strategic);
    let found = supported.clone().find(|(name, _)| *name == media_type).map(|(_, kind)| *kind);
    found.ok_or_else(|| match is_custom {
        true => Status::unsupported_media_type(&supported.map(|(name, _)| *name).collect::<Vec<_>>()),
        false => Status::unsupported_patch(),
    })
}

pub(crate) async fn patch(call: &mut Call, subresource: &str) -> Result<Answer, Status> {
    let kind = patch_kind(call)?;
    let force = call.query.flag("force");
    let WriteOptions { validation, dry_run } = patch_options(call, kind, force)?;
    let wanted = call.wanted()?;
    let change = PatchBody::read(call, kind, validation)?;
    let cache = list::cache(call)?.clone();
    let mut warned = false;
    for _ in 0..RACE_RETRIES {
        let Some(current) = Current::read(call, &cache).await? else {
            if kind != PatchKind::Apply || !subresource.is_empty() {
                return Err(call.not_found());
            }
            let object = change.apply_to_nothing(call)?;
            let stored = create_object(call, object, dry_run, CreatedBy::Change).await?;
            return respond::object(201, call, &stored, wanted).await;
        };
        let (mut new, warnings) = {
            let owner = Ownership::of(call, subresource);
            let live = current.live(&call.served)?;
            let apply = || {
                let defaults = |object: &mut Value| call.default(object);
                change.apply(call.expected(), &owner.context(call), &live, force, validation, &defaults)
            };
            let mut outcome = apply();
            while owner.convert_pending(call).await {
                outcome = apply();
            }
            outcome?
        };
        // Warnings about the patch are sent with errors of the patched object, too.
        if !std::mem::replace(&mut warned, true) {
            call.warnings.extend(warnings);
        }
        let pinned = pinned_revision(&new, current.object.revision)?;
        if pinned.is_some_and(|revision| revision != current.object.revision) {
            return Err(call.stale());
        }
        let pinned = change.pins_revision();
        prepare::agree_on_name(call, &mut new)?;
        prepare::agree_on_namespace(call, &mut new)?;
        meta::set_text(&mut new, "resourceVersion", &current.object.revision.to_string());
        match replace(call, subresource, &cache, &current, new, dry_run).await? {
            Some(stored) => return respond::object(200, call, &stored, wanted).await,
            None if pinned => return Err(call.stale()),
            None => {}
        }
    }
    Err(call.stale())
}

/// The revision that a patched object requires; `None` without a resourceVersion.
fn pinned_revision(new: &Value, current: u64) -> Result<Option<u64>, Status> {
    match meta::resource_version(new) {
        "" | "0" => Ok(None),
        text if text == current.to_string() => Ok(Some(current)),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| Status::unexplained(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}

pub(super) fn patch_options(call: &Call, kind: PatchKind, force: bool) -> Result<WriteOptions, Status> {
    let mut errors = ErrorList::new();
    if kind == PatchKind::Apply {
        if call.query.text("fieldManager").is_empty() {
            errors.required("fieldManager", "is required for apply patch");
        }
    } else if force || call.query.get("force").is_some() {
        errors.forbidden("force", "may not be specified for non-apply patch");
    }
    WriteOptions::read_after(&call.query, "PatchOptions", errors)
}

/// A decoded patch.
pub(super) struct PatchBody {
    kind: PatchKind,
    tree: Value,
    strict: Vec<String>,
}

impl PatchBody {
    pub(super) fn read(
        call: &Call,
        kind: PatchKind,
        validation: FieldValidation,
    ) -> Result<PatchBody, Status> {
        let mut strict = Vec::new();
        let tree = match kind {
            PatchKind::Apply => {
                let mut duplicates = Vec::new();
                let tree = yaml::to_value(&call.body, &mut duplicates)
                    .map_err(|e| Status::bad_request(format!("error encoding patch: {e}")))?;
                if let (FieldValidation::Strict, Some(why)) = (validation, yaml::strict_error(&duplicates)) {
                    let prefix = yaml::PATCH_ERROR_PREFIX;
                    return Err(Status::bad_request(format!("error strict decoding patch: {prefix}{why}")));
                }
                strict.extend(duplicates.iter().map(ToString::to_string));
                tree
            }
            _ => {
                let mut duplicates = Vec::new();
                let tree = json::parse_reporting(&call.body, Some(&mut duplicates))
                    .map_err(|_| Status::bad_request("invalid JSON patch"))?;
                strict.extend(duplicates.iter().map(|d| format!("duplicate field {:?}", d.path)));
                tree
            }
        };
        if kind == PatchKind::Merge && !matches!(tree, Value::Object(_) | Value::Null) {
            return Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                tree.go_kind()
            )));
        }
        if kind == PatchKind::Json {
            strict = patch::json::check(&tree).map_err(|e| e.to_status())?;
        }
        if validation == FieldValidation::Ignore {
            strict.clear();
        }
        decode::check_size(&tree)?;
        Ok(PatchBody { kind, tree, strict })
    }

    /// Requires kind and apiVersion in an applied configuration.
    fn check_applied(&self, expected: Expected<'_>) -> Result<(), Status> {
        if !matches!(self.tree, Value::Object(_) | Value::Null) {
            return Err(Status::bad_request(format!(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                self.tree.go_kind()
            )));
        }
        let (kind, api_version) = (meta::kind(&self.tree), meta::api_version(&self.tree));
        if kind != expected.kind || api_version != expected.api_version {
            let shown =
                if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
            return Err(Status::bad_request(format!("invalid object type: {shown}, Kind={kind}")));
        }
        Ok(())
    }

    /// True if the patch itself contains a resourceVersion.
    pub(super) fn pins_revision(&self) -> bool {
        match self.kind {
            PatchKind::Json => self.tree.as_array().is_some_and(|ops| {
                ops.iter().any(|op| {
                    op.str_at(&["path"]) == Some("/metadata/resourceVersion")
                        && op.str_at(&["op"]) != Some("test")
                })
            }),
            _ => self.tree.str_at(&["metadata", "resourceVersion"]).is_some_and(|v| !v.is_empty()),
        }
    }

    /// The object after the patch, with updated managedFields, and warnings.
    pub(super) fn apply(
        &self,
        expected: Expected<'_>,
        owner: &managed::Context<'_>,
        live: &Value,
        force: bool,
        validation: FieldValidation,
        defaults: &dyn Fn(&mut Value),
    ) -> Result<(Value, Vec<String>), Status> {
        let mut strict = self.strict.clone();
        if self.kind == PatchKind::Apply {
            self.check_applied(expected)?;
            let mut new = managed::apply(owner, Some(live), &self.tree, force)?;
            decode::conform_applied(&mut new, &self.tree, expected)?;
            defaults(&mut new);
            return Ok((new, decode::apply_validation(strict, validation, expected)?));
        }
        let mut new = live.clone();
        match self.kind {
            PatchKind::Json => patch::json::apply(&mut new, &self.tree).map_err(|e| e.to_status())?,
            PatchKind::Merge => patch::merge(&mut new, &self.tree).map_err(|e| e.to_status())?,
            _ if self.tree.is_null() => {}
            _ => {
                require_object(&self.tree)?;
                patch::strategic::apply(&mut new, &self.tree, expected.schema).map_err(|e| e.to_status())?;
            }
        }
        decode::check_size(&new)?;
        // Errors of a strategic patch show the patch; those of any other show the patched object before conversion.
        let shown = (self.kind != PatchKind::Strategic).then(|| new.clone());
        let invalid_patch = |why: &str| self.invalid_patch(shown.as_ref(), expected, why);
        if self.kind != PatchKind::Strategic && expected.custom.is_none() {
            decode::check_patched_kind(&new, expected).map_err(|why| invalid_patch(&why))?;
        }
        match expected.custom {
            Some(version) => version.decode(&mut new, &mut strict).map_err(|e| invalid_patch(&e.message))?,
            None if self.kind == PatchKind::Strategic => convert(&mut new, expected.schema, &mut strict)
                .map_err(|e| invalid_patch(&self.type_error_message(&e)))?,
            None => conform(&mut new, expected.schema, Extent::Whole, &mut strict)
                .map_err(|e| invalid_patch(&self.type_error_message(&e)))?,
        }
        if validation == FieldValidation::Strict && !strict.is_empty() {
            return Err(invalid_patch(&format!("strict decoding error: {}", strict.join(", "))));
        }
        let warnings = decode::apply_validation(strict, validation, expected)?;
        defaults(&mut new);
        let map = new.make_object();
        map.insert("kind", expected.kind);
        map.insert("apiVersion", expected.api_version);
        managed::update(owner, Some(live), &mut new);
        Ok((new, warnings))
    }

    /// The message of a type error in the patched object: upstream encodes and decodes it, except for strategic patches.
    fn type_error_message(&self, error: &TypeError) -> String {
        match self.kind {
            PatchKind::Strategic => error.converting.clone(),
            _ => error.to_string(),
        }
    }

    /// The error of a patch that does not result in an object of the kind.
    fn invalid_patch(&self, patched: Option<&Value>, expected: Expected<'_>, why: &str) -> Status {
        let shown = match (patched, self.kind) {
            (None, _) => patch::shown(&self.tree),
            (Some(patched), PatchKind::Json) => {
                go::json_patched(patched, expected.schema, &go::Decoded::by_json_patch(&self.tree))
            }
            (Some(patched), _) => {
                go::json_patched(patched, expected.schema, &go::Decoded::by_merge_patch(&self.tree))
            }
        };
        let mut errors = ErrorList::new();
        errors.invalid("patch", &Value::from(shown), why);
        Status::invalid("", "", "", &errors)
    }

    fn apply_to_nothing(&self, call: &mut Call) -> Result<Value, Status> {
        self.check_applied(call.expected())?;
        let mut object = {
            let owner = Ownership::of(call, "");
            managed::apply(&owner.context(call), None, &self.tree, false)?
        };
        prepare::agree_on_name(call, &mut object)?;
        prepare::agree_on_namespace(call, &mut object)?;
        if !meta::uid(&object).is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                meta::uid(&object)
            );
            return Err(Status::conflict(call.served.group(), call.served.name(), &call.at.name, why));
        }
        decode::conform_applied(&mut object, &self.tree, call.expected())?;
        call.default(&mut object);
        // A new object has no resourceVersion to apply to.
        meta::set_text(&mut object, "resourceVersion", "");
        let validation = FieldValidation::parse(&call.query)?;
        let warnings = decode::apply_validation(self.strict.clone(), validation, call.expected())?;
        call.warnings.extend(warnings);
        Ok(object)
    }
}

/// Refuses a merge patch that is not an object.
fn require_object(tree: &Value) -> Result<(), Status> {
    match tree {
        Value::Object(_) => Ok(()),
        other => Err(Status::bad_request(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.go_kind()
        ))),
    }
}
