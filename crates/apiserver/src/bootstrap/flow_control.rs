//! The priority levels and flow schemas of API priority and fairness.
//!
//! Mandatory objects are always reconciled. Suggested objects are reconciled only while their annotation, or without one
//! their generation, shows that no administrator manages them. Objects that are neither any more and are still annotated as
//! the server's are deleted.

mod objects;

use corten_api::{Value, meta, time};

use super::{Failure, Kind, Local};
use objects::{Wanted, levels, schemas};

const LEVELS: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    version: "v1",
    resource: "prioritylevelconfigurations",
    kind: "PriorityLevelConfiguration",
};
const SCHEMAS: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    version: "v1",
    resource: "flowschemas",
    kind: "FlowSchema",
};
pub(super) const KINDS: &[Kind] = &[LEVELS, SCHEMAS];

const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const PRODUCER: &str = "?fieldManager=api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
const EXEMPT: &str = "exempt";

pub(super) async fn ensure(local: &Local<'_>) -> Result<(), Failure> {
    if KINDS.iter().any(|kind| local.cache(kind).is_none()) {
        return Ok(());
    }
    let (levels, schemas) = (levels(), schemas());
    futures_util::future::try_join(
        ensure_all(local, &LEVELS, &levels),
        ensure_all(local, &SCHEMAS, &schemas),
    )
    .await?;
    mark_dangling(local).await
}

async fn ensure_all(local: &Local<'_>, kind: &Kind, wanted: &[Wanted]) -> Result<(), Failure> {
    let ensured = wanted.iter().map(|wanted| ensure_one(local, kind, wanted));
    futures_util::future::try_join_all(ensured).await?;
    let objects = local.cache(kind).map(|cache| cache.snapshot("", None).objects).unwrap_or_default();
    let unwanted = objects.iter().filter(|object| {
        !wanted.iter().any(|wanted| meta::name(&wanted.object) == object.name)
            && auto_update(&object.tree()) == Some(true)
    });
    let removed = unwanted.map(|object| local.delete(kind, "", &object.name));
    futures_util::future::try_join_all(removed).await.map(|_| ())
}

async fn ensure_one(local: &Local<'_>, kind: &Kind, wanted: &Wanted) -> Result<(), Failure> {
    match local.get(kind, "", meta::name(&wanted.object)) {
        None => local.create(kind, &wanted.object, PRODUCER).await,
        Some(current) => match revised(&current, wanted) {
            Some(revised) => local.update(kind, &revised, PRODUCER).await,
            None => Ok(()),
        },
    }
}

/// The value of the annotation, if it has one.
fn auto_update(object: &Value) -> Option<bool> {
    match object.str_at(&["metadata", "annotations", AUTO_UPDATE])? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The corrected object, if it differs. Pure.
fn revised(current: &Value, wanted: &Wanted) -> Option<Value> {
    let unedited = meta::generation(current) == 1;
    let ours = wanted.mandatory || auto_update(current).unwrap_or(unedited);
    let mut spec = wanted.object.get("spec").cloned().unwrap_or_default();
    if meta::name(current) == EXEMPT
        && let Some(exempt) = current.at(&["spec", EXEMPT])
    {
        // The lendable percentage of the exempt level is the administrator's.
        spec.set(&[EXEMPT], exempt.clone());
    }
    let respecify = ours && current.get("spec") != Some(&spec);
    let annotate = auto_update(current) != Some(ours);
    if !respecify && !annotate {
        return None;
    }
    let mut revised = current.clone();
    if respecify {
        revised.set(&["spec"], spec);
    }
    if annotate {
        revised.set(&["metadata", "annotations", AUTO_UPDATE], if ours { "true" } else { "false" });
    }
    Some(revised)
}

/// Sets the condition Dangling of every flow schema.
async fn mark_dangling(local: &Local<'_>) -> Result<(), Failure> {
    let objects = local.cache(&SCHEMAS).map(|cache| cache.snapshot("", None).objects).unwrap_or_default();
    let mut marks = Vec::new();
    for schema in objects.iter().map(|object| object.tree()) {
        let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).unwrap_or_default();
        let exists = local.get(&LEVELS, "", level).is_some();
        if let Some(condition) = dangling(&schema, level, exists, &time::format(local.now())) {
            let mut mark = SCHEMAS.named("", meta::name(&schema));
            mark.set(&["status", "conditions"], vec![condition]);
            marks.push(mark);
        }
    }
    let marked = marks.iter().map(|mark| local.apply_status(&SCHEMAS, mark, CONSUMER));
    futures_util::future::try_join_all(marked).await.map(|_| ())
}

/// The condition of a flow schema, if it has to change. Pure.
fn dangling(schema: &Value, level: &str, exists: bool, now: &str) -> Option<Value> {
    let (status, reason, fact) = match exists {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {fact}");
    let mut conditions = schema.items_at(&["status", "conditions"]).iter();
    let current = conditions.find(|condition| condition.str_at(&["type"]) == Some("Dangling"));
    let says = |field: &str| current.and_then(|condition| condition.str_at(&[field]));
    if says("status") == Some(status) && says("reason") == Some(reason) && says("message") == Some(&*message)
    {
        return None;
    }
    let since = if says("status") == Some(status) { says("lastTransitionTime") } else { None };
    let mut condition = Value::object();
    condition.set(&["type"], "Dangling");
    condition.set(&["status"], status);
    condition.set(&["reason"], reason);
    condition.set(&["message"], message);
    condition.set(&["lastTransitionTime"], since.unwrap_or(now));
    Some(condition)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn level(annotation: Option<&str>, generation: i64, shares: i64) -> Value {
        let mut object = value!({"metadata": {"name": "system"}});
        object.set(&["metadata", "generation"], generation);
        object.set(&["spec", "shares"], shares);
        if let Some(annotation) = annotation {
            object.set(&["metadata", "annotations", AUTO_UPDATE], annotation);
        }
        object
    }

    #[test]
    fn suggested_objects_are_updated_until_an_administrator_edits_them() {
        let wanted = |mandatory| Wanted { mandatory, object: level(None, 0, 30) };
        // Annotation, generation, spec, mandatory → shares and annotation after, if anything changes.
        for (annotation, generation, shares, mandatory, after) in [
            (Some("true"), 1, 30, false, None),
            (Some("true"), 5, 9, false, Some((30, "true"))),
            (Some("false"), 5, 9, false, None),
            (Some("false"), 5, 9, true, Some((30, "true"))),
            (None, 1, 9, false, Some((30, "true"))),
            (None, 2, 9, false, Some((9, "false"))),
            (Some("maybe"), 2, 9, false, Some((9, "false"))),
            (None, 1, 30, true, Some((30, "true"))),
        ] {
            let found = revised(&level(annotation, generation, shares), &wanted(mandatory));
            let found = found.as_ref().map(|object| {
                let annotation = object.str_at(&["metadata", "annotations", AUTO_UPDATE]);
                (object.int_at(&["spec", "shares"]).unwrap(), annotation.unwrap())
            });
            assert_eq!(found, after, "{annotation:?} {generation} {shares} {mandatory}");
        }
    }

    #[test]
    fn the_exempt_level_may_lend() {
        let wanted = levels().into_iter().find(|wanted| meta::name(&wanted.object) == EXEMPT).unwrap();
        let mut current = wanted.object.clone();
        current.set(&["metadata", "annotations", AUTO_UPDATE], "true");
        current.set(&["spec", "exempt", "lendablePercent"], 50);
        assert_eq!(revised(&current, &wanted), None);
        current.set(&["spec", "type"], "Limited");
        let found = revised(&current, &wanted).unwrap();
        assert_eq!(found.str_at(&["spec", "type"]), Some("Exempt"));
        assert_eq!(found.int_at(&["spec", "exempt", "lendablePercent"]), Some(50));
    }

    #[test]
    fn schemas_without_a_level_are_dangling() {
        let first = dangling(&Value::object(), "system", true, "now").unwrap();
        assert_eq!(first.str_at(&["status"]), Some("False"));
        let mut schema = Value::object();
        schema.set(&["status", "conditions"], vec![first]);
        assert_eq!(dangling(&schema, "system", true, "later"), None);
        let gone = dangling(&schema, "system", false, "later").unwrap();
        assert_eq!((gone.str_at(&["status"]), gone.str_at(&["reason"])), (Some("True"), Some("NotFound")));
    }
}
