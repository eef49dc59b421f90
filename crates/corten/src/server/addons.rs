//! The addons of a new cluster: the default storage class, and the role that reads resource metrics.
//!
//! An addon is installed once; a ConfigMap records which ones were. Users may change or delete it afterwards. An addon that
//! is turned off is deleted, as far as users have not changed it.

use corten_api::{Value, meta, value};
use corten_client::{Client, DeleteOptions, Error, Key, Kind, kinds};

/// The addons' names for `--disable`.
pub(super) const LOCAL_STORAGE: &str = "local-storage";
pub(super) const METRICS_SERVER: &str = "metrics-server";

struct Addon {
    name: &'static str,
    /// The addon's key in the ConfigMap.
    mark: &'static str,
    objects: fn() -> Vec<(&'static Kind, Value)>,
    /// True if users have not changed the relevant fields of an object.
    is_ours: fn(&Value) -> bool,
}

const ADDONS: [Addon; 2] = [
    Addon {
        name: LOCAL_STORAGE,
        mark: "local-path",
        objects: || vec![(&kinds::STORAGE_CLASSES, storage_class())],
        is_ours: |class| class.str_at(&["provisioner"]) == Some(corten_controllers::LOCAL_PATH_PROVISIONER),
    },
    Addon {
        name: METRICS_SERVER,
        mark: "v1beta1.metrics.k8s.io",
        objects: || vec![(&kinds::CLUSTER_ROLES, metrics_reader())],
        is_ours: |_| true,
    },
];

fn marker() -> Key {
    Key::new("kube-system", "corten-addons")
}

/// Reconciles the addons. A failure is logged: the cluster works without them.
pub(super) async fn install(client: &Client, wanted: impl Fn(&str) -> bool) {
    for addon in &ADDONS {
        let result = match wanted(addon.name) {
            true => add(client, addon).await,
            false => remove(client, addon).await,
        };
        if let Err(error) = result {
            tracing::warn!(addon = addon.name, err = %error, "cannot reconcile addon");
        }
    }
}

async fn add(client: &Client, addon: &Addon) -> Result<(), Error> {
    let made = made(client).await?;
    if made.as_ref().is_some_and(|made| made.at(&["data", addon.name]).is_some()) {
        return Ok(());
    }
    for (kind, object) in (addon.objects)() {
        match client.create(kind, &object).await {
            Err(error) if !error.already_exists() => return Err(error),
            _ => {}
        }
    }
    let is_new = made.is_none();
    let mut made = made.unwrap_or_else(|| kinds::CONFIG_MAPS.new_object("kube-system", &marker().name));
    made.set(&["data", addon.name], addon.mark);
    match is_new {
        true => client.create(&kinds::CONFIG_MAPS, &made).await.map(drop),
        false => client.update(&kinds::CONFIG_MAPS, &made, "").await.map(drop),
    }
}

async fn remove(client: &Client, addon: &Addon) -> Result<(), Error> {
    let Some(mut made) = made(client).await? else { return Ok(()) };
    if made.remove(&["data", addon.name]).is_none() {
        return Ok(());
    }
    for (kind, object) in (addon.objects)() {
        let key = Key::new("", meta::name(&object));
        let found = client.get(kind, &key).await.ok();
        if found.is_some_and(|found| (addon.is_ours)(&found)) {
            client.delete(kind, &key, &DeleteOptions::default()).await?;
        }
    }
    client.update(&kinds::CONFIG_MAPS, &made, "").await.map(drop)
}

/// The record of installed addons.
async fn made(client: &Client) -> Result<Option<Value>, Error> {
    match client.get(&kinds::CONFIG_MAPS, &marker()).await {
        Err(error) if error.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

fn storage_class() -> Value {
    let mut class = kinds::STORAGE_CLASSES.new_object("", "local-path");
    class.set(&["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"], "true");
    for (field, value) in [
        ("provisioner", corten_controllers::LOCAL_PATH_PROVISIONER),
        ("reclaimPolicy", "Delete"),
        ("volumeBindingMode", "WaitForFirstConsumer"),
    ] {
        class.set(&[field], value!(value));
    }
    class
}

/// Lets users who may view a namespace read its resource metrics. Metrics servers bring a role of their own name.
fn metrics_reader() -> Value {
    let mut role = kinds::CLUSTER_ROLES.new_object("", "corten:metrics-reader");
    for to in ["admin", "edit", "view"] {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{to}");
        role.set(&["metadata", "labels", label.as_str()], "true");
    }
    let rule = value!({
        "apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"],
    });
    role.set(&["rules"], vec![rule]);
    role
}
