//! What this server serves: every resource of every enabled version, with its schema, rules and cache.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::resources::{self, Resource};
use corten_api::schema::StructRef;
use corten_registry::{self as registry, Rules};
use corten_store::Store;

use crate::cache::{Cache, Recent};
use crate::object::Form;
use crate::resource_metrics;

/// One resource in one version.
pub(crate) struct Served {
    pub resource: &'static Resource,
    pub rules: &'static Rules,
    pub schema: StructRef,
    pub api_version: String,
    /// `None` for resources that are only ever answered, never kept.
    pub cache: Option<Arc<Cache>>,
    /// Whether the served form is the stored form.
    pub is_stored_form: bool,
}

impl Served {
    pub(crate) fn group(&self) -> &'static str {
        self.resource.group
    }

    pub(crate) fn name(&self) -> &'static str {
        self.resource.name
    }

    /// Whether these are the namespaces themselves, which end differently from everything in them.
    pub(crate) fn is_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.name == "namespaces"
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.resource.kind
    }
}

#[derive(Default)]
pub(crate) struct Catalog {
    by_path: HashMap<(&'static str, &'static str, &'static str), Arc<Served>>,
    resources: Vec<&'static Resource>,
    caches: HashMap<(&'static str, &'static str), Arc<Cache>>,
    recent: Arc<Recent>,
}

/// Which versions are served: GA ones, as changed by `--runtime-config`.
#[derive(Debug, Clone, Default)]
pub struct RuntimeConfig(Vec<(String, bool)>);

impl RuntimeConfig {
    /// Reads `api/all=true,apps/v1=false,resource.k8s.io/v1beta1=true,batch/v1/jobs=false`.
    pub fn parse(text: &str) -> Result<RuntimeConfig, String> {
        let mut settings = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, "true"));
            let enabled = match value {
                "true" | "" => true,
                "false" => false,
                other => return Err(format!("--runtime-config: {key}={other} is neither true nor false")),
            };
            let known = matches!(key, "api/all" | "api/ga" | "api/beta" | "api/alpha" | "api/legacy")
                || resources::all().iter().any(|r| {
                    let version = key_of(r);
                    key == version || key == format!("{version}/{}", r.name)
                });
            if !known {
                return Err(format!(
                    "--runtime-config: unknown API {key}; give group/version, such as apps/v1"
                ));
            }
            settings.push((key.to_owned(), enabled));
        }
        Ok(RuntimeConfig(settings))
    }

    fn serves(&self, resource: &Resource) -> bool {
        let find = |key: &str| self.0.iter().rev().find(|(k, _)| k == key).map(|(_, enabled)| *enabled);
        let version = key_of(resource);
        let class = match resource.version {
            v if v.contains("alpha") => "api/alpha",
            v if v.contains("beta") => "api/beta",
            _ => "api/ga",
        };
        find(&format!("{version}/{}", resource.name))
            .or_else(|| find(&version))
            .or_else(|| find(class))
            .or_else(|| find("api/all"))
            .unwrap_or_else(|| resource.stable())
    }
}

fn key_of(resource: &Resource) -> String {
    let group = if resource.group.is_empty() { "api" } else { resource.group };
    format!("{group}/{}", resource.version)
}

impl Catalog {
    /// Loads every served resource's objects from the store. `metrics` is whether there are any to serve.
    pub(crate) fn load(store: &Store, config: &RuntimeConfig, metrics: bool) -> Catalog {
        let serves = |resource: &Resource| match resource.group {
            resource_metrics::GROUP => metrics,
            _ => config.serves(resource),
        };
        let mut catalog = Catalog::default();
        for resource in resources::all().iter().filter(|r| serves(r)) {
            let (Some(schema), Some(rules)) =
                (resource.schema(), registry::rules(resource.group, resource.name))
            else {
                continue;
            };
            let cache = rules.stored.then(|| catalog.cache_for(rules, store)).flatten();
            let api_version = resource.api_version();
            let served = Served {
                is_stored_form: cache.as_ref().is_some_and(|c| c.form.api_version == api_version),
                resource,
                rules,
                schema,
                api_version,
                cache,
            };
            catalog.by_path.insert((resource.group, resource.version, resource.name), Arc::new(served));
            catalog.resources.push(resource);
        }
        catalog
    }

    fn cache_for(&mut self, rules: &'static Rules, store: &Store) -> Option<Arc<Cache>> {
        let (group, name) = rules.stored_as.unwrap_or((rules.group, rules.resource));
        if let Some(cache) = self.caches.get(&(group, name)) {
            return Some(cache.clone());
        }
        let rules = registry::rules(group, name)?;
        let stored = resources::all()
            .iter()
            .find(|r| r.group == group && r.name == name && r.version == rules.storage_version)?;
        let api_version = stored.api_version();
        let form = Form {
            rules,
            kind: stored.kind,
            head: corten_api::encoded::head_len(stored.kind, &api_version) as u32,
            namespaced: stored.namespaced,
            prefix: format!("/registry/{}/", rules.storage_prefix),
            api_version,
        };
        let cache = Cache::start(form, store, &self.recent);
        self.caches.insert((group, name), cache.clone());
        Some(cache)
    }

    pub(crate) fn get(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Served>> {
        self.by_path.get(&(group, version, resource)).cloned()
    }

    /// The cache of a stored resource, whatever version it is served in.
    pub(crate) fn cache(&self, group: &str, resource: &str) -> Option<Arc<Cache>> {
        self.caches.get(&(group, resource)).cloned()
    }

    pub(crate) fn caches(&self) -> impl Iterator<Item = &Arc<Cache>> {
        self.caches.values()
    }

    /// Whether any version of a group is served.
    pub(crate) fn serves_group(&self, group: &str) -> bool {
        self.resources.iter().any(|r| r.group == group)
    }

    /// In order of priority, as discovery lists them.
    pub(crate) fn resources(&self) -> &[&'static Resource] {
        &self.resources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &str, group: &str, version: &str, served: bool) {
        let config = RuntimeConfig::parse(config).unwrap();
        let resource = resources::all().iter().find(|r| r.group == group && r.version == version).unwrap();
        assert_eq!(config.serves(resource), served, "{group}/{version}");
    }

    #[test]
    fn versions_by_runtime_config() {
        check("", "apps", "v1", true);
        check("", "resource.k8s.io", "v1beta1", false);
        check("resource.k8s.io/v1beta1=true", "resource.k8s.io", "v1beta1", true);
        check("api/beta=true", "resource.k8s.io", "v1beta2", true);
        check("api/all=true", "resource.k8s.io", "v1alpha3", true);
        check("apps/v1=false", "apps", "v1", false);
        assert!(RuntimeConfig::parse("bogus/v1").is_err());
        assert!(RuntimeConfig::parse("apps/v1=maybe").is_err());
    }
}
