//! The requests about the past, and what their responses say.

use anyhow::{Context, bail};
use corten_api::{Map, Str, Value, json, meta};
use corten_client::Client;
use jiff::Timestamp;

use super::moment::Moment;
use super::target::{Target, encoded};

/// One version of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Version {
    pub(super) revision: String,
    pub(super) time: Option<Timestamp>,
    /// `None` for a deletion.
    pub(super) object: Option<Value>,
}

impl Version {
    /// True if the object was created by this write: its times agree, as far as they are known.
    pub(super) fn is_creation(&self) -> bool {
        let created =
            self.object.as_ref().and_then(|object| object.str_at(&["metadata", "creationTimestamp"]));
        let created = created.and_then(|text| text.parse::<Timestamp>().ok());
        created.zip(self.time).is_some_and(|(created, time)| time.as_second() - created.as_second() <= 1)
    }
}

/// The objects of a time.
#[derive(Debug)]
pub(super) struct PastObjects {
    pub(super) revision: String,
    pub(super) time: Option<Timestamp>,
    pub(super) objects: Vec<Value>,
}

/// The last versions of an object before a revision, newest first.
pub(super) async fn versions(
    client: &Client,
    target: &Target,
    before: Option<&str>,
    limit: usize,
) -> anyhow::Result<Vec<Version>> {
    let mut path = format!("{}?history.corten.io/versions=true&limit={limit}", target.path());
    if let Some(before) = before {
        path.push_str(&format!("&history.corten.io/before={}", encoded(before)));
    }
    let response = read(client, &path, "ObjectHistory").await?;
    let versions = response.items_at(&["versions"]).iter().map(|version| Version {
        revision: version.str_at(&["revision"]).unwrap_or_default().to_owned(),
        time: version.str_at(&["time"]).and_then(|time| time.parse().ok()),
        object: version.at(&["object"]).cloned(),
    });
    Ok(versions.collect())
}

/// The object or the objects of a collection at a time.
pub(super) async fn objects_at(client: &Client, path: &str, at: &Moment) -> anyhow::Result<PastObjects> {
    let path = format!("{path}?history.corten.io/at={}", encoded(&at.to_string()));
    let response = read(client, &path, "PastObjects").await?;
    Ok(PastObjects {
        revision: response.str_at(&["revision"]).unwrap_or_default().to_owned(),
        time: response.str_at(&["time"]).and_then(|time| time.parse().ok()),
        objects: response.items_at(&["items"]).to_vec(),
    })
}

async fn read(client: &Client, path: &str, kind: &str) -> Result<Value, anyhow::Error> {
    let response = client.read(path).await?;
    if meta::kind(&response) != kind {
        bail!("the server is not Corten, or of a version without history");
    }
    Ok(response)
}

/// The object now; `None` if there is none.
pub(super) async fn current(client: &Client, path: &str) -> anyhow::Result<Option<Value>> {
    match client.read(path).await {
        Err(error) if error.is_not_found() => Ok(None),
        found => found.map(Some).with_context(|| format!("cannot read {path}")),
    }
}

/// The managers of a write: those whose entries it added or changed. An entry that only lost fields, to another manager, is
/// not one of them; without any, it is the last manager, who wrote the same fields twice in a second.
pub(super) fn manager(after: &Value, before: Option<&Value>) -> String {
    let entries = |object: &Value| object.items_at(&["metadata", "managedFields"]).to_vec();
    let known = before.map(entries).unwrap_or_default();
    let all = entries(after);
    let time = |entry: &Value| entry.str_at(&["time"]).unwrap_or_default().to_owned();
    let changed =
        all.iter().filter(|entry| !known.contains(entry) && !known.iter().any(|old| lost_fields(old, entry)));
    let changed: Vec<&Value> = changed.collect();
    let last = if changed.is_empty() { all.iter().max_by_key(|entry| time(entry)) } else { None };
    let names = changed.into_iter().chain(last).filter_map(Value::as_object).map(described);
    names.collect::<Vec<_>>().join(", ")
}

/// True if an entry is an older one with fewer fields.
fn lost_fields(old: &Value, new: &Value) -> bool {
    let is_same = |field: &&str| old.str_at(&[field]) == new.str_at(&[field]);
    let length =
        |entry: &Value| entry.at(&["fieldsV1"]).map_or(0, |fields| json::write_to_string(fields).len());
    ["manager", "operation", "subresource", "time"].iter().all(is_same) && length(new) < length(old)
}

fn described(entry: &Map) -> String {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).map(Str::new).unwrap_or_default();
    match (text("manager"), text("operation"), text("subresource")) {
        (manager, operation, subresource) if subresource.is_empty() => format!("{manager} ({operation})"),
        (manager, operation, subresource) => format!("{manager} ({operation} {subresource})"),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn the_manager_is_that_of_the_changed_entries() {
        let of = |entries: Vec<Value>| {
            let mut object = Value::object();
            object.set(&["metadata", "managedFields"], entries);
            object
        };
        let entry = |manager: &str, operation: &str, time: &str, fields: &str| value!({"manager": (manager), "operation": (operation), "time": (time), "fieldsV1": (fields)});
        let created = entry("kubectl-create", "Update", "2026-01-01T00:00:00Z", "f:a and f:b");
        let lost = entry("kubectl-create", "Update", "2026-01-01T00:00:00Z", "f:b");
        let mut applied = entry("kubectl", "Apply", "2026-01-01T00:00:00Z", "f:a");
        let before = of(vec![created.clone()]);
        assert_eq!(manager(&before, None), "kubectl-create (Update)");
        assert_eq!(manager(&of(vec![lost, applied.clone()]), Some(&before)), "kubectl (Apply)");
        applied.set(&["subresource"], "status");
        assert_eq!(manager(&of(vec![created, applied]), Some(&before)), "kubectl (Apply status)");
        assert_eq!(manager(&before, Some(&before)), "kubectl-create (Update)");
        assert_eq!(manager(&Value::object(), None), "");
    }
}
