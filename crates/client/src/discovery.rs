//! API discovery: every kind in every version that a server serves, and the groups whose servers did not answer.

use corten_api::{Str, Value};

use crate::{Client, Error, Kind};

/// The media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A kind and its verbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub kind: Kind,
    pub verbs: Vec<Str>,
    /// True if this is the server's preferred version of the kind.
    pub preferred: bool,
    /// The singular and the short names.
    pub aliases: Vec<Str>,
}

impl Served {
    pub fn has_verbs(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|has| has == verb))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    pub served: Vec<Served>,
    /// Group versions whose servers did not respond, with the reason.
    pub failed: Vec<(String, String)>,
}

impl Discovery {
    /// Every kind once, in its preferred version.
    pub fn preferred(&self) -> impl Iterator<Item = &Served> {
        self.served.iter().filter(|served| served.preferred)
    }

    /// The kind with this apiVersion and kind.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let is = |served: &&Served| served.kind.kind == kind && served.kind.api_version() == api_version;
        self.served.iter().find(is).map(|served| &served.kind)
    }

    /// Adds the content of one discovery document.
    fn read(&mut self, document: &Value) {
        for group in document.items_at(&["items"]) {
            let name = group.str_at(&["metadata", "name"]).unwrap_or_default();
            let mut known: Vec<Str> = Vec::new();
            for version in group.items_at(&["versions"]) {
                let number = version.str_at(&["version"]).unwrap_or_default();
                if version.str_at(&["freshness"]) == Some("Stale") {
                    let failed = corten_api::resources::api_version(name, number);
                    self.failed.push((failed, format!("stale GroupVersion discovery: {name}/{number}")));
                }
                for resource in version.items_at(&["resources"]) {
                    let mut served = served(name, number, resource);
                    served.preferred = !known.contains(&served.kind.plural);
                    if served.preferred {
                        known.push(served.kind.plural.clone());
                    }
                    self.served.push(served);
                }
            }
        }
    }
}

fn served(group: &str, version: &str, resource: &Value) -> Served {
    let text = |path: &[&str]| Str::new(resource.str_at(path).unwrap_or_default());
    let kind = Kind {
        group: group.into(),
        version: version.into(),
        plural: text(&["resource"]),
        kind: text(&["responseKind", "kind"]),
        namespaced: resource.str_at(&["scope"]) == Some("Namespaced"),
        fields: Str::default(),
        namespace: Str::default(),
    };
    let verbs = resource.items_at(&["verbs"]).iter().filter_map(Value::as_str).map(Str::new).collect();
    let mut aliases: Vec<Str> =
        resource.items_at(&["shortNames"]).iter().filter_map(Value::as_str).map(Str::new).collect();
    aliases.push(text(&["singularResource"]));
    Served { kind, verbs, preferred: false, aliases }
}

impl Client {
    /// Discovers all kinds that the server serves.
    pub async fn discover(&self) -> Result<Discovery, Error> {
        let mut discovery = Discovery::default();
        for root in ["/api", "/apis"] {
            discovery.read(&self.read_as(root, AGGREGATED).await?);
        }
        Ok(discovery)
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn the_first_version_is_preferred() {
        let resource = |name: &str| value!({"resource": (name), "responseKind": {"kind": "K"}, "scope": "Namespaced", "verbs": ["list"]});
        let document = value!({"items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v1", "freshness": "Current", "resources": [(resource("a"))]},
            {"version": "v1beta1", "freshness": "Stale", "resources": [(resource("a")), (resource("b"))]},
        ]}]});
        let mut discovery = Discovery::default();
        discovery.read(&document);
        let preferred: Vec<_> =
            discovery.preferred().map(|s| (s.kind.version.as_str(), s.kind.plural.as_str())).collect();
        assert_eq!(preferred, [("v1", "a"), ("v1beta1", "b")]);
        assert_eq!(discovery.failed.len(), 1);
        assert_eq!(discovery.kind("g/v1", "K").map(|k| k.plural.as_str()), Some("a"));
        assert_eq!(discovery.kind("g/v2", "K"), None);
    }
}
