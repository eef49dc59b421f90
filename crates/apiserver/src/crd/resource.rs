//! The serving state of one custom resource: its versions, its cache and its rows in the catalog.
//!
//! It lives as long as the definition's specification is unchanged. A changed specification gets a new one, so that every
//! object is seen through the new schema; the watches of the old one end, and clients begin new ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use corten_api::openapi::CustomVersion;
use corten_api::resources::{Resource, Subresource};
use corten_api::{Str, Value, meta};
use corten_customresources::selectable::Selectable;
use corten_registry::{self as registry};
use corten_store::Store;

use super::compiled_types::CompiledTypes;
use super::conversion::Converter;
use super::definition::{Conversion, Definition};
use super::growth::Growth;
use super::version::Version;
use crate::cache::Cache;
use crate::catalog::{Served, Type};
use crate::heavy;
use crate::object::{Form, FormId};
use crate::recent_writes::RecentWrites;

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A custom resource that can be served.
pub(super) struct CustomResource {
    /// Differs from that of every other one since the server started.
    id: u64,
    pub(super) digest: [u8; 32],
    pub(super) versions: Vec<Arc<Version>>,
    pub(super) converter: Arc<Converter>,
    definition: Definition,
    stored: Arc<StoredForm>,
    cache: OnceLock<Arc<Cache>>,
    has_ended: AtomicBool,
    served: OnceLock<Vec<Arc<Served>>>,
    /// The rows of discovery, one for each served version.
    resources: OnceLock<Box<[Arc<Resource>]>>,
    /// The served versions, as OpenAPI documents show them.
    openapi: OnceLock<Box<[Arc<CustomVersion>]>>,
}

/// The stored form of a custom resource.
pub(crate) struct StoredForm {
    version: Arc<Version>,
    /// True if objects stored in other versions are converted by setting their `apiVersion`.
    converts_in_place: bool,
    /// The selectable fields of all versions.
    selectable: Selectable,
    growth: Arc<Growth>,
}

impl std::fmt::Debug for StoredForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredForm").field("api_version", &self.version.api_version).finish_non_exhaustive()
    }
}

impl StoredForm {
    /// The values of the selectable fields.
    pub(crate) fn selectable_values(&self, object: &Value) -> Box<[Str]> {
        self.selectable.values(object).map(|(_, value)| Str::from(value)).collect()
    }

    /// The position of a selectable field.
    pub(crate) fn selectable_position(&self, name: &str) -> Option<usize> {
        self.selectable.names().position(|field| *field == name)
    }

    /// Counts the memory that cached objects take beyond what is stored.
    pub(crate) fn growth(&self) -> &Arc<Growth> {
        &self.growth
    }

    /// Brings a stored object to the current schema and to the stored version. False if it stays in another version, which
    /// only the conversion webhook can convert.
    pub(crate) fn normalize(&self, object: &mut Value) -> bool {
        if meta::api_version(object) != self.version.api_version {
            if !self.converts_in_place {
                return false;
            }
            object.set(&["apiVersion"], self.version.api_version.as_str());
        }
        self.version.normalize(object, self.growth.is_allowed());
        true
    }
}

impl CustomResource {
    /// The serving state of a definition, if it has a stored version.
    pub(super) fn new(definition: Definition, types: &Arc<CompiledTypes>) -> Option<CustomResource> {
        let storage = definition.storage_version()?;
        let versions: Vec<Arc<Version>> =
            (0..definition.versions.len()).map(|i| Arc::new(Version::new(&definition, i, types))).collect();
        let mut paths: Vec<&Str> = definition.versions.iter().flat_map(|v| &v.selectable_fields).collect();
        paths.sort();
        paths.dedup();
        let stored = Arc::new(StoredForm {
            version: versions[storage].clone(),
            converts_in_place: definition.conversion == Conversion::None,
            selectable: Selectable::of_paths(paths.into_iter().map(Str::as_str)),
            growth: Arc::new(Growth::new(&types.added_by_defaults)),
        });
        let converter = Arc::new(Converter::new(&definition, versions.clone(), storage));
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Some(CustomResource {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            digest: definition.digest,
            converter,
            stored,
            versions,
            cache: OnceLock::new(),
            has_ended: AtomicBool::new(false),
            served: OnceLock::new(),
            resources: OnceLock::new(),
            openapi: OnceLock::new(),
            definition,
        })
    }

    /// The resource in each served version.
    pub(super) fn served(&self, store: &Store, recent_writes: &Arc<RecentWrites>) -> &[Arc<Served>] {
        if let Some(served) = self.served.get() {
            return served;
        }
        // Not within the initialization: that would block the threads of other requests on the resource.
        let cache = self.started_cache(store, recent_writes);
        let served = || self.served_versions().map(|version| Arc::new(self.served_version(version, cache)));
        self.served.get_or_init(|| served().collect())
    }

    /// The resource in its stored version.
    pub(super) fn stored_version(&self, store: &Store, recent_writes: &Arc<RecentWrites>) -> Served {
        self.served_version(&self.stored.version, self.started_cache(store, recent_writes))
    }

    fn started_cache(&self, store: &Store, recent_writes: &Arc<RecentWrites>) -> &Arc<Cache> {
        let start = || self.cache.get_or_init(|| Cache::start(self.form(), store, recent_writes));
        // All objects are parsed, and other requests wait for them.
        let cache = self.cache.get().unwrap_or_else(|| heavy::blocking(start));
        if self.has_ended.load(Ordering::SeqCst) {
            cache.end();
        }
        cache
    }

    fn form(&self) -> Form {
        let (kind, api_version) = (&self.definition.names.kind, &self.stored.version.api_version);
        Form {
            id: FormId(self.id),
            rules: &registry::CUSTOM_RESOURCE,
            group: self.definition.group.clone(),
            resource: self.definition.names.plural.clone(),
            kind: kind.clone(),
            head: 0,
            namespaced: self.definition.namespaced,
            prefix: format!("/registry/{}/{}/", self.definition.group, self.definition.names.plural),
            api_version: api_version.clone(),
            custom: Some(self.stored.clone()),
        }
    }

    fn served_version(&self, version: &Arc<Version>, cache: &Arc<Cache>) -> Served {
        Served {
            resource: Arc::new(self.resource(version)),
            rules: &registry::CUSTOM_RESOURCE,
            is_stored_form: version.info.storage,
            api_version: version.api_version.clone(),
            objects: Type::Custom(version.clone()),
            converter: Some(self.converter.clone()),
            cache: Some(cache.clone()),
        }
    }

    /// The cache, if the resource was used.
    pub(super) fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.get()
    }

    fn served_versions(&self) -> impl Iterator<Item = &Arc<Version>> {
        self.versions.iter().filter(|version| version.info.served)
    }

    /// The rows of discovery, one for each served version.
    pub(super) fn resources(&self) -> &[Arc<Resource>] {
        let row = |version: &Arc<Version>| Arc::new(self.resource(version));
        self.resources.get_or_init(|| self.served_versions().map(row).collect())
    }

    /// The served versions, as OpenAPI documents show them.
    pub(super) fn openapi(&self) -> &[Arc<CustomVersion>] {
        let shown = |version: &Arc<Version>| Arc::new(self.openapi_version(version));
        self.openapi.get_or_init(|| self.served_versions().map(shown).collect())
    }

    fn openapi_version(&self, version: &Arc<Version>) -> CustomVersion {
        let (names, of) = (&self.definition.names, version.clone());
        let digest = self.digest.iter().map(|byte| format!("{byte:02x}"));
        CustomVersion {
            group: self.definition.group.to_string(),
            version: version.info.name.to_string(),
            kind: names.kind.to_string(),
            list_kind: names.list_kind.to_string(),
            plural: names.plural.to_string(),
            namespaced: self.definition.namespaced,
            has_status: version.info.has_status,
            has_scale: version.info.has_scale,
            selectable_fields: version.info.selectable_fields.iter().map(Str::to_string).collect(),
            preserve_unknown_fields: self.definition.preserve_unknown_fields,
            revision: digest.collect(),
            schema: Box::new(move || of.open_api_schema()),
        }
    }

    fn resource(&self, version: &Version) -> Resource {
        let names = &self.definition.names;
        let mut subresources = Vec::new();
        if version.info.has_status {
            subresources.push(Subresource {
                name: "status".into(),
                group_version: None,
                kind: names.kind.clone(),
                verbs: SUBRESOURCE_VERBS.to_vec(),
            });
        }
        if version.info.has_scale {
            subresources.push(Subresource {
                name: "scale".into(),
                group_version: Some(("autoscaling", "v1")),
                kind: "Scale".into(),
                verbs: SUBRESOURCE_VERBS.to_vec(),
            });
        }
        Resource {
            group: self.definition.group.clone(),
            version: version.info.name.clone(),
            name: names.plural.clone(),
            singular: names.singular.clone(),
            kind: names.kind.clone(),
            namespaced: self.definition.namespaced,
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            verbs: VERBS.to_vec(),
            subresources,
            storage_version: Some(self.stored.version.info.name.clone()),
        }
    }

    #[cfg(test)]
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Ends the watches: the resource is no longer served in this form.
    pub(super) fn end(&self) {
        // Set first: a cache that is being started meanwhile ends after its start.
        self.has_ended.store(true, Ordering::SeqCst);
        if let Some(cache) = self.cache() {
            cache.end();
        }
    }
}
