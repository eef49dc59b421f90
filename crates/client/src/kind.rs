//! A kind of object and its place in the API.

use corten_api::resources::Resource;
use corten_api::{Str, Value, meta};

use crate::Key;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub group: Str,
    pub version: Str,
    /// The resource name in URLs.
    pub plural: Str,
    /// The `kind` field of objects.
    pub kind: Str,
    pub namespaced: bool,
    /// A field selector such as `spec.nodeName=n1`; empty for all objects.
    pub fields: Str,
    /// Restricts to this namespace; empty for all.
    pub namespace: Str,
}

impl Kind {
    pub(crate) const fn built_in(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Kind {
        Kind {
            group: Str::new_static(group),
            version: Str::new_static(version),
            plural: Str::new_static(plural),
            kind: Str::new_static(kind),
            namespaced,
            fields: Str::new_static(""),
            namespace: Str::new_static(""),
        }
    }

    /// The objects of a kind that a field selector matches.
    #[must_use]
    pub fn with_fields(&self, fields: impl Into<Str>) -> Kind {
        Kind { fields: fields.into(), ..self.clone() }
    }

    /// A single object of a kind, to be watched alone.
    #[must_use]
    pub fn only(&self, key: &Key) -> Kind {
        let fields = Str::from(format!("metadata.name={}", key.name));
        Kind { fields, namespace: key.namespace.clone(), ..self.clone() }
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of a collection; all namespaces if `namespace` is empty.
    pub fn collection(&self, namespace: &str) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            "" => format!("{root}/{}", self.plural),
            namespace => format!("{root}/namespaces/{namespace}/{}", self.plural),
        }
    }

    /// The path of an object, or of one of its subresources.
    pub fn path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let mut path = self.collection(if self.namespaced { namespace } else { "" });
        path.push('/');
        for byte in name.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                    path.push(byte as char)
                }
                byte => path.push_str(&format!("%{byte:02X}")),
            }
        }
        if !subresource.is_empty() {
            path.push('/');
            path.push_str(subresource);
        }
        path
    }

    /// An object of this kind with a name only.
    pub fn new_object(&self, namespace: &str, name: &str) -> Value {
        let mut object = Value::object();
        object.set(&["apiVersion"], self.api_version());
        object.set(&["kind"], self.kind.clone());
        object.set(&["metadata", "name"], name);
        if self.namespaced {
            meta::set_text(&mut object, "namespace", namespace);
        }
        object
    }
}

impl From<&Resource> for Kind {
    fn from(resource: &Resource) -> Kind {
        Kind {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.name.clone(),
            kind: resource.kind.clone(),
            namespaced: resource.namespaced,
            fields: Str::default(),
            namespace: Str::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds;

    #[test]
    fn paths() {
        assert_eq!(kinds::PODS.path("n", "p", "status"), "/api/v1/namespaces/n/pods/p/status");
        assert_eq!(kinds::NODES.path("", "n", ""), "/api/v1/nodes/n");
        assert_eq!(kinds::DEPLOYMENTS.collection(""), "/apis/apps/v1/deployments");
        assert_eq!(
            kinds::CLUSTER_ROLES.path("", "a/b", ""),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%2Fb"
        );
    }
}
