//! `patch`: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! A patch is applied to what was read and committed only if that is still current; one that lost a race is
//! applied again to the newer state, unless it names the version it is for.

use corten_api::status::{Details, ErrorList};
use corten_api::{Status, Value, json, managed, meta, patch, time, yaml};

use super::write::{Current, RACE_RETRIES, context, create_object, own_changes, replace};
use super::{list, prepare};
use crate::call::Call;
use crate::decode::{self, FieldValidation};
use crate::negotiate;
use crate::respond::{self, Answer};

/// The kinds of patch, by media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatchKind {
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

fn patch_kind(call: &Call) -> Result<PatchKind, Status> {
    let media_type = negotiate::content_type(&call.headers);
    PATCH_TYPES
        .iter()
        .find(|(name, _)| *name == media_type)
        .map(|(_, kind)| *kind)
        .ok_or_else(|| Status::unsupported_media_type(&PATCH_TYPES.map(|(name, _)| name)))
}

pub(crate) async fn patch(call: &mut Call, subresource: &str) -> Result<Answer, Status> {
    let kind = patch_kind(call)?;
    let validation = FieldValidation::parse(&call.query)?;
    let dry_run = call.dry_run()?;
    let wanted = call.wanted()?;
    let force = call.query.flag("force");
    check_patch_options(call, kind, force)?;
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
        let live = current.live(&call.served)?;
        let (mut new, warnings) = change.apply(call, subresource, &live, force, validation)?;
        let asked = meta::resource_version(&new).to_owned();
        let pinned = change.pins_revision();
        if pinned && asked != current.object.revision.to_string() {
            return Err(call.stale());
        }
        if !meta::uid(&new).is_empty() && meta::uid(&new) != meta::uid(&live) {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                meta::uid(&new),
                meta::uid(&live)
            );
            return Err(Status::conflict(call.served.group(), call.served.name(), &call.at.name, why));
        }
        prepare::agree_on_name(call, &mut new)?;
        prepare::agree_on_namespace(call, &mut new)?;
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

fn check_patch_options(call: &Call, kind: PatchKind, force: bool) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    let manager = call.query.text("fieldManager");
    if kind == PatchKind::Apply {
        if manager.is_empty() {
            errors.required("fieldManager", "is required for apply patch");
        }
    } else if force || call.query.get("force").is_some() {
        errors.forbidden("force", "may not be specified for non-apply patch");
    }
    managed::validate_manager(manager, "fieldManager", &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &errors)) }
}

/// A patch, read.
struct PatchBody {
    kind: PatchKind,
    tree: Value,
    strict: Vec<String>,
}

impl PatchBody {
    fn read(call: &Call, kind: PatchKind, validation: FieldValidation) -> Result<PatchBody, Status> {
        let mut strict = Vec::new();
        let tree = match kind {
            PatchKind::Apply => {
                let mut duplicates = Vec::new();
                let tree = yaml::to_value(&call.body, &mut duplicates)
                    .map_err(|e| Status::bad_request(format!("error decoding YAML: {e}")))?;
                strict.extend(yaml::strict_error(&duplicates));
                tree
            }
            _ => {
                let mut duplicates = Vec::new();
                let tree = json::parse_reporting(&call.body, Some(&mut duplicates))
                    .map_err(|e| Status::bad_request(e.to_string()))?;
                strict.extend(duplicates.iter().map(|d| format!("duplicate field {:?}", d.path)));
                tree
            }
        };
        if kind == PatchKind::Json {
            strict = patch::json::check(&tree).map_err(|e| e.to_status())?;
        }
        if validation == FieldValidation::Ignore {
            strict.clear();
        }
        let body = PatchBody { kind, tree, strict };
        if kind == PatchKind::Apply {
            body.check_applied(call)?;
        }
        Ok(body)
    }

    /// An applied configuration says what it is.
    fn check_applied(&self, call: &Call) -> Result<(), Status> {
        let expected = call.expected();
        let (kind, api_version) = (meta::kind(&self.tree), meta::api_version(&self.tree));
        if kind != expected.kind || api_version != expected.api_version {
            let (group, version) = corten_api::resources::split_api_version(api_version);
            let shown = if group.is_empty() { format!("/{version}") } else { format!("{group}/{version}") };
            let (group, version) = corten_api::resources::split_api_version(expected.api_version);
            let want = if group.is_empty() { format!("/{version}") } else { format!("{group}/{version}") };
            return Err(Status::bad_request(format!(
                "failed to create typed patch object ({}/{}; {shown}, Kind={kind}): expected {want}, Kind={}",
                call.at.namespace, call.at.name, expected.kind
            )));
        }
        Ok(())
    }

    /// Whether the patch itself says which version it is for.
    fn pins_revision(&self) -> bool {
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
    fn apply(
        &self,
        call: &Call,
        subresource: &str,
        live: &Value,
        force: bool,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let mut strict = self.strict.clone();
        if self.kind == PatchKind::Apply {
            let mut new = apply_configuration(call, subresource, Some(live), &self.tree, force)?;
            decode::conform_whole(&mut new, call.expected(), &mut Vec::new())?;
            call.default(&mut new);
            return Ok((new, decode::judge(strict, validation, call.expected())?));
        }
        let mut new = live.clone();
        match self.kind {
            PatchKind::Json => {
                patch::json::apply(&mut new, &self.tree).map_err(|e| patch_status(call, &e.to_status()))?
            }
            PatchKind::Merge => {
                require_object(&self.tree)?;
                patch::merge(&mut new, &self.tree).map_err(|e| e.to_status())?;
            }
            _ => {
                require_object(&self.tree)?;
                patch::strategic::apply(&mut new, &self.tree, &call.served.schema)
                    .map_err(|e| e.to_status())?;
            }
        }
        decode::conform_whole(&mut new, call.expected(), &mut strict)?;
        call.default(&mut new);
        let map = new.make_object();
        map.insert("kind", call.served.kind());
        map.insert("apiVersion", call.served.api_version.as_str());
        own_changes(call, subresource, Some(live), &mut new);
        Ok((new, decode::judge(strict, validation, call.expected())?))
    }

    fn apply_to_nothing(&self, call: &mut Call) -> Result<Value, Status> {
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
        if !meta::resource_version(&applied).is_empty() {
            return Err(call.not_found());
        }
        let mut object = apply_configuration(call, "", None, &applied, false)?;
        decode::conform_whole(&mut object, call.expected(), &mut Vec::new())?;
        call.default(&mut object);
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
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.go_kind()
        ))),
    }
}

/// A JSON patch that does not apply is about the patched object.
fn patch_status(call: &Call, status: &Status) -> Status {
    let mut status = status.clone();
    if status.code == 422 && status.details == Details::default() {
        status.details.kind = call.served.kind().to_owned();
        status.details.group = call.served.group().to_owned();
        status.details.name = call.at.name.to_string();
    }
    status
}

fn apply_configuration(
    call: &Call,
    subresource: &str,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Result<Value, Status> {
    let (manager, now) = (call.manager(), time::format(call.now));
    let filter = prepare::ownership_filter(call, subresource);
    managed::apply(&context(call, subresource, &manager, &now, filter.as_ref()), live, applied, force)
}
