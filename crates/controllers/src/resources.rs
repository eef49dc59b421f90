//! API resources, as the discovery document of a group version lists them.

use corten_api::Value;

/// The group of an API version.
pub(crate) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The path of the discovery document of a group version.
pub(crate) fn list_path(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

/// The name of a resource, qualified by its group.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// The resource of a kind, in a list of resources.
pub(crate) fn plural<'a>(list: &'a Value, kind: &str) -> Option<&'a str> {
    let names = list.items_at(&["resources"]).iter().filter(|one| one.str_at(&["kind"]) == Some(kind));
    names.filter_map(|one| one.str_at(&["name"])).find(|name| !name.contains('/'))
}

/// True if a list of resources has one of this name.
pub(crate) fn has(list: &Value, name: &str) -> bool {
    list.items_at(&["resources"]).iter().any(|one| one.str_at(&["name"]) == Some(name))
}
