//! The served resources, from discovery.

use corten_testkit::{Client, Request};
use serde_json::Value;

use crate::eventually;

/// A resource in one version.
#[derive(Clone, Debug)]
pub struct Served {
    /// Empty for the core group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its plural, as in paths.
    pub resource: String,
    /// Its kind.
    pub kind: String,
    /// True if it is namespaced.
    pub namespaced: bool,
    /// Its verbs.
    pub verbs: Vec<String>,
    /// Its subresources and their verbs.
    pub subresources: Vec<(String, Vec<String>)>,
}

impl Served {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of its collection, in a namespace if it is namespaced.
    pub fn collection(&self, namespace: &str) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match self.namespaced {
            true => format!("{root}/namespaces/{namespace}/{}", self.resource),
            false => format!("{root}/{}", self.resource),
        }
    }

    /// Returns true if a verb is served.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Returns true if a verb of a subresource is served.
    pub fn subresource_has(&self, subresource: &str, verb: &str) -> bool {
        let found = self.subresources.iter().find(|(name, _)| name == subresource);
        found.is_some_and(|(_, verbs)| verbs.iter().any(|v| v == verb))
    }
}

/// All resources of aggregated discovery.
pub fn served(client: &Client) -> Vec<Served> {
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut all = Vec::new();
    for root in ["/api", "/apis"] {
        let list = client.send(&Request::new("GET", root).accept(AGGREGATED)).expect(200);
        for group in items(&list["items"]) {
            for version in items(&group["versions"]) {
                for resource in items(&version["resources"]) {
                    all.push(Served {
                        group: text(&group["metadata"]["name"]),
                        version: text(&version["version"]),
                        resource: text(&resource["resource"]),
                        kind: text(&resource["responseKind"]["kind"]),
                        namespaced: resource["scope"] == "Namespaced",
                        verbs: texts(&resource["verbs"]),
                        subresources: items(&resource["subresources"])
                            .iter()
                            .map(|s| (text(&s["subresource"]), texts(&s["verbs"])))
                            .collect(),
                    });
                }
            }
        }
    }
    all
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    items(value).iter().map(text).collect()
}

/// Returns a created object as it is when the API server's own controllers have written its status: definitions get
/// their conditions after their creation.
pub fn settled(client: &Client, kind: &Served, path: &str, created: Value) -> Value {
    if kind.kind != "CustomResourceDefinition" {
        return created;
    }
    let mut settled = created;
    eventually("the definition is established", || {
        settled = client.get(path).expect(200);
        let conditions = settled["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Established" && c["status"] == "True"))
    });
    settled
}
