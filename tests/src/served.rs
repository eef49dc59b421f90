//! What a server offers, as its discovery says.

use corten_testkit::{Client, Request};
use serde_json::Value;

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
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What can be done to it.
    pub verbs: Vec<String>,
    /// Its subresources and what can be done to them.
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

    /// The path of its collection, in a namespace if it lives in one.
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

    /// Whether a verb is offered.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Whether a verb is offered on a subresource.
    pub fn subresource_has(&self, subresource: &str, verb: &str) -> bool {
        let found = self.subresources.iter().find(|(name, _)| name == subresource);
        found.is_some_and(|(_, verbs)| verbs.iter().any(|v| v == verb))
    }
}

/// Everything that aggregated discovery lists.
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
