//! `patch`: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! A patch is applied to what was read and committed only if that is still current; one that lost a race is
//! applied again to the newer state, unless it names the version it is for.

use corten_api::conform::{Extent, TypeError, conform};
use corten_api::status::ErrorList;
use corten_api::{Status, Value, json, managed, meta, patch, yaml};

use super::write::{Current, Ownership, RACE_RETRIES, create_object, replace};
use super::{list, prepare};
use crate::call::Call;
use crate::decode::{self, Expected, FieldValidation};
use crate::negotiate;
use crate::options::WriteOptions;
use crate::respond::{self, Answer};

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
    PATCH_TYPES
        .iter()
        .find(|(name, _)| *name == media_type)
        .map(|(_, kind)| *kind)
        .ok_or_else(Status::unsupported_patch)
}

pub(crate) async fn patch(call: &mut Call, subresource: &str) -> Result<Answer, Status> {
    let kind = patch_kind(call)?;
    let force = call.query.flag("force");
    let WriteOptions { validation, dry_run } = patch_options(call, kind, force)?;
    let wanted = call.wanted()?;
    let change = PatchBody::read(call, kind, validation)?;
    let cache = list::cache(call)?.clone();
    for _ in 0..RACE_RETRIES {
        let Some(current) = Current::read(call, &cache) else {
            if kind != PatchKind::Apply || !subresource.is_empty() {
                return Err(call.not_found());
            }
            let object = change.apply_to_nothing(call)?;
            let stored = create_object(call, object, dry_run).await?;
            return respond::object(201, &call.served, &stored, wanted, &call.table_query()?);
        };
        let (mut new, warnings) = {
            let owner = Ownership::of(call, subresource);
            let live = current.live(&call.served)?;
            let defaults = |object: &mut Value| call.default(object);
            change.apply(call.expected(), &owner.context(call), &live, force, validation, &defaults)?
        };
        let pinned = pinned_revision(&new, current.object.revision)?;
        if pinned.is_some_and(|revision| revision != current.object.revision) {
            return Err(call.stale());
        }
        let pinned = change.pins_revision();
        prepare::agree_on_name(call, &mut new)?;
        prepare::agree_on_namespace(call, &mut new)?;
        prepare::drop_doubled_owners(call, &mut new, " after mutating admission happens");
        meta::set_text(&mut new, "resourceVersion", &current.object.revision.to_string());
        match replace(call, subresource, &cache, &current, new, dry_run).await? {
            Some(stored) => {
                call.warnings.extend(warnings);
                return respond::object(200, &call.served, &stored, wanted, &call.table_query()?);
            }
            None if pinned => return Err(call.stale()),
            None => {}
        }
    }
    Err(call.stale())
}

/// The revision a patched object is for; `None` if it does not say.
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

/// A patch, read.
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
                let tree = yaml::to_value(&call.body, &mut duplicates).map_err(|e| {
                    Status::bad_request(format!("error decoding YAML: {}{e}", yaml::PATCH_ERROR_PREFIX))
                })?;
                if let (FieldValidation::Strict, Some(why)) = (validation, yaml::strict_error(&duplicates)) {
                    let prefix = yaml::PATCH_ERROR_PREFIX;
                    return Err(Status::bad_request(format!("error strict decoding YAML: {prefix}{why}")));
                }
                strict.extend(duplicates.iter().map(ToString::to_string));
                tree
            }
            _ => {
                let mut duplicates = Vec::new();
                let tree =
                    json::parse_reporting(&call.body, Some(&mut duplicates)).map_err(|e| match kind {
                        PatchKind::Strategic => Status::bad_request(e.to_string()),
                        _ => Status::bad_request(format!("error decoding patch: {e}")),
                    })?;
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

    /// An applied configuration says what it is.
    fn check_applied(&self, expected: Expected<'_>) -> Result<(), Status> {
        if !matches!(self.tree, Value::Object(_) | Value::Null) {
            return Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
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

    /// Whether the patch itself says which version it is for.
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

    /// The object after the patch, with its owners, and what there is to warn of.
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
            decode::conform_whole(&mut new, expected, &mut Vec::new())?;
            defaults(&mut new);
            return Ok((new, decode::judge(strict, validation, expected)?));
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
        // Only a strategic patch is told as it was sent; of any other the outcome is shown as it was.
        let shown = (self.kind != PatchKind::Strategic).then(|| new.clone());
        let unfit = |why: &str| self.unfit(shown.as_ref(), why);
        conform(&mut new, expected.schema, Extent::Whole, &mut strict)
            .map_err(|e| unfit(&self.misfit(&e)))?;
        if validation == FieldValidation::Strict && !strict.is_empty() {
            return Err(unfit(&format!("strict decoding error: {}", strict.join(", "))));
        }
        let warnings = decode::judge(strict, validation, expected)?;
        defaults(&mut new);
        let map = new.make_object();
        map.insert("kind", expected.kind);
        map.insert("apiVersion", expected.api_version);
        managed::update(owner, Some(live), &mut new);
        Ok((new, warnings))
    }

    /// What is wrong with the outcome's types: only strategic patches are not written out and read again.
    fn misfit(&self, error: &TypeError) -> String {
        match self.kind {
            PatchKind::Strategic => error.converting.clone(),
            _ => error.to_string(),
        }
    }

    /// A patch whose outcome is not an object of the kind.
    fn unfit(&self, patched: Option<&Value>, why: &str) -> Status {
        let shown = match patched {
            None => patch::shown(&self.tree),
            Some(patched) => json::write_to_string(patched),
        };
        let mut errors = ErrorList::new();
        errors.invalid("patch", &Value::from(shown), why);
        Status::invalid("", "", "", &errors)
    }

    fn apply_to_nothing(&self, call: &mut Call) -> Result<Value, Status> {
        self.check_applied(call.expected())?;
        let mut applied = self.tree.clone();
        prepare::agree_on_name(call, &mut applied)?;
        prepare::agree_on_namespace(call, &mut applied)?;
        if !meta::uid(&applied).is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                meta::uid(&applied)
            );
            return Err(Status::conflict(call.served.group(), call.served.name(), &call.at.name, why));
        }
        let mut object = {
            let owner = Ownership::of(call, "");
            managed::apply(&owner.context(call), None, &applied, false)?
        };
        decode::conform_whole(&mut object, call.expected(), &mut Vec::new())?;
        call.default(&mut object);
        // A version to apply to means nothing where there is none.
        meta::set_text(&mut object, "resourceVersion", "");
        let validation = FieldValidation::parse(&call.query)?;
        let warnings = decode::judge(self.strict.clone(), validation, call.expected())?;
        call.warnings.extend(warnings);
        Ok(object)
    }
}

/// A patch that is not an object cannot be merged.
fn require_object(tree: &Value) -> Result<(), Status> {
    match tree {
        Value::Object(_) => Ok(()),
        other => Err(Status::bad_request(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.go_kind()
        ))),
    }
}
