//! The user of a request, as authentication determines it.

use std::collections::BTreeMap;

use corten_api::{Map, Value};

/// The group with all permissions.
pub const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous requests.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of anonymous requests.
pub const ANONYMOUS: &str = "system:anonymous";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub fn anonymous() -> User {
        User { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..User::default() }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The user as a `UserInfo`.
    pub fn to_value(&self) -> Value {
        let list = |items: &[String]| Value::Array(items.iter().map(|i| Value::from(i.as_str())).collect());
        let mut map = Map::new();
        map.insert("username", self.name.as_str());
        if !self.uid.is_empty() {
            map.insert("uid", self.uid.as_str());
        }
        if !self.groups.is_empty() {
            map.insert("groups", list(&self.groups));
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter().map(|(key, values)| (key.as_str().into(), list(values)));
            map.insert("extra", Value::Object(extra.collect()));
        }
        Value::Object(map)
    }
}
