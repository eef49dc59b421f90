//! Where kinds are served, as a group tells in the list of its resources.

use corten_api::Value;

/// The group of an API version.
pub(crate) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Where a group in a version tells what it serves.
pub(crate) fn list_path(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

/// What a resource is called among all groups.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// The resource of a kind, in a list of resources.
pub(crate) fn plural<'a>(list: &'a Value, kind: &str) -> Option<&'a str> {
    let names = list.items_at(&["resources"]).iter().filter(|one| one.str_at(&["kind"]) == Some(kind));
    names.filter_map(|one| one.str_at(&["name"])).find(|name| !name.contains('/'))
}

/// Whether a list of resources has one of this name.
pub(crate) fn has(list: &Value, name: &str) -> bool {
    list.items_at(&["resources"]).iter().any(|one| one.str_at(&["name"]) == Some(name))
}
