//! The served resources: every resource of every enabled version, with its type, rules and cache.
//!
//! Built-in resources are fixed at start; custom resources come and go with their definitions (`crd`).

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::Str;
use corten_api::openapi::CustomVersion;
use corten_api::resources::{self, Resource};
use corten_api::schema::StructRef;
use corten_registry::{self as registry, Rules};
use corten_store::Store;

use crate::cache::Cache;
use crate::crd;
use crate::object::{Form, FormId};
use crate::recent_writes::RecentWrites;
use crate::resource_metrics;

/// One resource in one version.
pub(crate) struct Served {
    pub resource: Arc<Resource>,
    pub rules: &'static Rules,
    pub objects: Type,
    pub api_version: String,
    /// `None` for resources that are not stored.
    pub cache: Option<Arc<Cache>>,
    /// True if the served version is the stored version.
    pub is_stored_form: bool,
    /// The conversion between the versions of a custom resource.
    pub converter: Option<Arc<crd::Converter>>,
}

/// The type of a resource's objects.
pub(crate) enum Type {
    BuiltIn(StructRef),
    Custom(Arc<crd::Version>),
}

impl Served {
    pub(crate) fn group(&self) -> &str {
        &self.resource.group
    }

    pub(crate) fn name(&self) -> &str {
        &self.resource.name
    }

    /// True for namespaces themselves, which are deleted differently from the objects in them.
    pub(crate) fn is_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.name == "namespaces"
    }

    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    /// The kind of lists.
    pub(crate) fn list_kind(&self) -> String {
        match &self.objects {
            Type::BuiltIn(_) => format!("{}List", self.resource.kind),
            Type::Custom(version) => version.list_kind().to_owned(),
        }
    }

    /// The version of a custom resource's definition.
    pub(crate) fn custom(&self) -> Option<&Arc<crd::Version>> {
        match &self.objects {
            Type::BuiltIn(_) => None,
            Type::Custom(version) => Some(version),
        }
    }

    /// The type; that of a custom resource is compiled if it was not used recently.
    pub(crate) fn schema(&self) -> StructRef {
        match &self.objects {
            Type::BuiltIn(schema) => schema.clone(),
            Type::Custom(version) => version.compiled().typed().clone(),
        }
    }

    /// True if lists of this version consist of objects' texts: they are stored in it, or were converted to it before.
    pub(crate) fn sends_converted_text(&self) -> bool {
        self.is_stored_form || self.converter.is_some()
    }

    /// True if objects of this version are sent as they are stored, without a conversion.
    pub(crate) fn sends_stored_text(&self) -> bool {
        self.is_stored_form && self.cache.as_ref().is_none_or(|cache| !cache.has_foreign())
    }
}

pub(crate) struct Catalog {
    by_path: HashMap<(Str, Str, Str), Arc<Served>>,
    resources: Vec<Arc<Resource>>,
    built_in: Vec<&'static Resource>,
    caches: HashMap<(Str, Str), Arc<Cache>>,
    /// The versions of each built-in resource that is served in several, by the address of their cache.
    equivalents: HashMap<usize, Vec<Arc<Served>>>,
    recent_writes: Arc<RecentWrites>,
    pub(crate) definitions: Arc<crd::Definitions>,
}

/// The served versions: the GA ones, as changed by `--runtime-config`.
#[derive(Debug, Clone, Default)]
pub struct RuntimeConfig(Vec<(String, bool)>);

impl RuntimeConfig {
    /// Parses `api/all=true,apps/v1=false,resource.k8s.io/v1beta1=true,batch/v1/jobs=false`.
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
                    "--runtime-config: unknown API {key}; use group/version, such as apps/v1"
                ));
            }
            settings.push((key.to_owned(), enabled));
        }
        Ok(RuntimeConfig(settings))
    }

    fn serves(&self, resource: &Resource) -> bool {
        let find = |key: &str| self.0.iter().rev().find(|(k, _)| k == key).map(|(_, enabled)| *enabled);
        let version = key_of(resource);
        let class = match resource.version.as_str() {
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

/// The identity of a cache.
fn address(cache: &Arc<Cache>) -> usize {
    Arc::as_ptr(cache) as usize
}

fn key_of(resource: &Resource) -> String {
    let group = if resource.group.is_empty() { "api" } else { &resource.group };
    format!("{group}/{}", resource.version)
}

impl Catalog {
    /// Loads the objects of every served resource from the store. `metrics` enables `metrics.k8s.io`.
    pub(crate) fn load(store: &Store, config: &RuntimeConfig, metrics: bool) -> Catalog {
        let serves = |resource: &Resource| match resource.group.as_str() {
            resource_metrics::GROUP => metrics,
            _ => config.serves(resource),
        };
        let recent_writes = Arc::default();
        let mut catalog = Catalog {
            by_path: HashMap::new(),
            resources: Vec::new(),
            built_in: Vec::new(),
            caches: HashMap::new(),
            equivalents: HashMap::new(),
            definitions: crd::Definitions::start(store, &recent_writes),
            recent_writes,
        };
        for resource in resources::all().iter().filter(|r| serves(r)) {
            let (Some(schema), Some(rules)) =
                (resource.schema(), registry::rules(&resource.group, &resource.name))
            else {
                continue;
            };
            let cache = rules.stored.then(|| catalog.cache_for(rules, store)).flatten();
            let api_version = resource.api_version();
            catalog.built_in.push(resource);
            let resource = Arc::new(resource.clone());
            let served = Served {
                is_stored_form: cache.as_ref().is_some_and(|c| c.form.api_version == api_version),
                resource: resource.clone(),
                rules,
                objects: Type::BuiltIn(schema),
                api_version,
                cache,
                converter: None,
            };
            let path = (resource.group.clone(), resource.version.clone(), resource.name.clone());
            let served = Arc::new(served);
            if let Some(cache) = &served.cache {
                catalog.equivalents.entry(address(cache)).or_default().push(served.clone());
            }
            catalog.by_path.insert(path, served);
            catalog.resources.push(resource);
        }
        catalog.equivalents.retain(|_, versions| versions.len() > 1);
        catalog
    }

    fn cache_for(&mut self, rules: &'static Rules, store: &Store) -> Option<Arc<Cache>> {
        let (group, name) = rules.stored_as.unwrap_or((rules.group, rules.resource));
        if let Some(cache) = self.caches.get(&(group.into(), name.into())) {
            return Some(cache.clone());
        }
        let rules = registry::rules(group, name)?;
        let stored = resources::all()
            .iter()
            .find(|r| r.group == group && r.name == name && r.version == rules.storage_version)?;
        let api_version = stored.api_version();
        let form = Form {
            id: FormId::default(),
            rules,
            group: group.into(),
            resource: name.into(),
            kind: stored.kind.clone(),
            head: corten_api::encoded::head_len(&stored.kind, &api_version) as u32,
            namespaced: stored.namespaced,
            prefix: format!("/registry/{}/", rules.storage_prefix),
            api_version,
            custom: None,
        };
        let cache = Cache::start(form, store, &self.recent_writes);
        self.caches.insert((group.into(), name.into()), cache.clone());
        Some(cache)
    }

    /// The other versions of a resource: those with the same stored objects.
    pub(crate) fn equivalents(&self, of: &Arc<Served>) -> Vec<Arc<Served>> {
        let others = |versions: &[Arc<Served>]| {
            versions.iter().filter(|other| other.api_version != of.api_version).cloned().collect()
        };
        match (&of.converter, &of.cache) {
            (Some(converter), _) => {
                let versions = converter.versions().filter_map(|api_version| {
                    let (group, version) = api_version.split_once('/')?;
                    self.definitions.get(group, version, of.name())
                });
                others(&versions.collect::<Vec<_>>())
            }
            (None, Some(cache)) => {
                self.equivalents.get(&address(cache)).map(|v| others(v)).unwrap_or_default()
            }
            (None, None) => Vec::new(),
        }
    }

    pub(crate) fn get(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Served>> {
        let built_in = self.by_path.get(&(group.into(), version.into(), resource.into())).cloned();
        built_in.or_else(|| self.definitions.get(group, version, resource))
    }

    /// The cache of a stored resource, for all its served versions.
    pub(crate) fn cache(&self, group: &str, resource: &str) -> Option<Arc<Cache>> {
        self.caches.get(&(group.into(), resource.into())).cloned()
    }

    pub(crate) fn caches(&self) -> Vec<Arc<Cache>> {
        self.caches.values().cloned().chain(self.definitions.caches()).collect()
    }

    /// True if any version of a built-in group is served.
    pub(crate) fn has_built_in_group(&self, group: &str) -> bool {
        self.resources.iter().any(|r| r.group == group)
    }

    /// The served versions of custom resources, as OpenAPI documents show them.
    pub(crate) fn custom_versions(&self) -> Arc<[Arc<CustomVersion>]> {
        self.definitions.openapi()
    }

    /// In order of priority, as discovery lists them.
    pub(crate) fn resources(&self) -> Vec<Arc<Resource>> {
        let custom = self.definitions.resources();
        // A built-in resource is never replaced by a custom one of the same name.
        let is_new = |custom: &&Arc<Resource>| {
            let path = (custom.group.clone(), custom.version.clone(), custom.name.clone());
            !self.by_path.contains_key(&path)
        };
        self.resources.iter().chain(custom.iter().filter(is_new)).cloned().collect()
    }

    /// The built-in resources, in order of priority.
    pub(crate) fn built_in(&self) -> &[&'static Resource] {
        &self.built_in
    }
}

#[cfg(test)]
impl Catalog {
    /// A built-in resource without a cache.
    pub(crate) fn served_for_test(group: &str, name: &str) -> Served {
        let resource =
            resources::all().iter().find(|r| r.group == group && r.name == name).expect("a resource");
        Served {
            resource: Arc::new(resource.clone()),
            rules: registry::rules(group, name).expect("its rules"),
            objects: Type::BuiltIn(resource.schema().expect("its type")),
            api_version: resource.api_version(),
            cache: None,
            is_stored_form: true,
            converter: None,
        }
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
