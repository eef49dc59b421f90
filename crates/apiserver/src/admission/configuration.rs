//! The configuration of admission plugins: the file of `--admission-control-config-file`.
//!
//! Webhooks and policies can have directories of manifests (`manifests`), which are read at start and whenever they change.
//! Webhooks can have a kubeconfig with credentials for their servers, which is read at start. A configuration of another
//! plugin is refused.

mod reloads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use corten_api::{Value, meta, yaml};
use corten_serving::metrics::Exposition;
use corten_sys::files::Entries;

use super::manifests::{self, Manifests};
use crate::Server;
use crate::webhook_client::KubeconfigUsers;
use reloads::Reloads;

/// The version of the plugins' configurations.
const VERSION: &str = "apiserver.config.k8s.io/v1";
/// The versions of the file, which are equal.
const FILE_VERSIONS: [&str; 2] = [VERSION, "apiserver.k8s.io/v1alpha1"];
const WEBHOOKS: &str = "WebhookAdmissionConfiguration";
/// Maximum size of the file.
const MAX_BYTES: u64 = 3 << 20;

/// A plugin that can have manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Configurable {
    plugin: &'static str,
    /// The kind of its configuration.
    configuration: &'static str,
    /// The kinds of its manifests.
    pub(super) kinds: &'static [&'static str],
}

pub(super) const VALIDATING_POLICIES: Configurable = Configurable {
    plugin: "ValidatingAdmissionPolicy",
    configuration: "ValidatingAdmissionPolicyConfiguration",
    kinds: &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
};
pub(super) const MUTATING_POLICIES: Configurable = Configurable {
    plugin: "MutatingAdmissionPolicy",
    configuration: "MutatingAdmissionPolicyConfiguration",
    kinds: &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
};
pub(super) const VALIDATING_WEBHOOKS: Configurable = Configurable {
    plugin: "ValidatingAdmissionWebhook",
    configuration: WEBHOOKS,
    kinds: &["ValidatingWebhookConfiguration"],
};
pub(super) const MUTATING_WEBHOOKS: Configurable = Configurable {
    plugin: "MutatingAdmissionWebhook",
    configuration: WEBHOOKS,
    kinds: &["MutatingWebhookConfiguration"],
};

const ALL: [Configurable; 4] =
    [VALIDATING_POLICIES, MUTATING_POLICIES, VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS];

/// A directory of manifests and what it had at start.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) of: Configurable,
    pub(super) path: PathBuf,
    pub(super) manifests: Arc<Manifests>,
}

/// The configurations of all plugins.
#[derive(Debug, Clone, Default)]
pub(super) struct PluginConfigurations {
    pub(super) directories: Vec<Directory>,
    /// The credentials for webhooks of plugins that have a kubeconfig.
    users: Vec<(Configurable, KubeconfigUsers)>,
    reloads: Arc<Reloads>,
}

impl PluginConfigurations {
    /// The credentials for a plugin's webhooks.
    pub(super) fn users_of(&self, of: Configurable) -> KubeconfigUsers {
        let found = self.users.iter().find(|(plugin, _)| *plugin == of);
        found.map(|(_, users)| users.clone()).unwrap_or_default()
    }

    pub(super) fn render_metrics(&self, out: &mut Exposition) {
        self.reloads.render(out);
    }
}

/// Reads the file of `--admission-control-config-file`, and the manifests and kubeconfigs that it names.
pub(super) fn read(path: &Path) -> Result<PluginConfigurations, String> {
    let failed = |why: &dyn std::fmt::Display| {
        format!("unable to read admission control configuration from {path:?} [{why}]")
    };
    let text = read_bounded(path).map_err(|error| failed(&error))?;
    let file = decode(&text)?;
    let is_known = FILE_VERSIONS.contains(&meta::api_version(&file));
    if !is_known || meta::kind(&file) != "AdmissionConfiguration" {
        return Err(failed(&format!("expected an AdmissionConfiguration of {VERSION}")));
    }
    known_fields(&file, &["apiVersion", "kind", "plugins"])?;
    let mut found = PluginConfigurations::default();
    let mut configured: Vec<Configurable> = Vec::new();
    for plugin in file.items_at(&["plugins"]) {
        known_fields(plugin, &["name", "path", "configuration"])?;
        let name = plugin.str_at(&["name"]).unwrap_or_default();
        let Some(configuration) = configuration_of(plugin, path)? else { continue };
        let Some(of) = ALL.into_iter().find(|of| of.plugin == name) else {
            return Err(format!("the admission plugin {name:?} cannot be configured"));
        };
        // As upstream, the first configuration of a plugin counts.
        if configured.contains(&of) {
            continue;
        }
        configured.push(of);
        check_type(of, &configuration)?;
        if let Some(users) = users_of(of, &configuration)? {
            found.users.push((of, users));
        }
        if let Some(directory) = directory_of(&configuration)? {
            let manifests = Arc::new(manifests::load(&directory, of.kinds)?);
            found.reloads.succeeded(of.plugin, &manifests.hash);
            found.directories.push(Directory { of, path: directory, manifests });
        }
    }
    Ok(found)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other("the file is larger than 3 MiB"));
    }
    fs::read(path)
}

fn decode(text: &[u8]) -> Result<Value, String> {
    let mut duplicates = Vec::new();
    let value = yaml::to_value(text, &mut duplicates).map_err(|error| error.to_string())?;
    match yaml::strict_error(&duplicates) {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

fn known_fields(value: &Value, known: &[&str]) -> Result<(), String> {
    let fields = value.as_object().ok_or("expected an object")?;
    match fields.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(format!("strict decoding error: unknown field \"{name}\"")),
        None => Ok(()),
    }
}

/// The configuration of a plugin: in the file itself, or in a file of its own.
fn configuration_of(plugin: &Value, file: &Path) -> Result<Option<Value>, String> {
    if let Some(configuration) = plugin.get("configuration").filter(|value| !value.is_null()) {
        return Ok(Some(configuration.clone()));
    }
    let Some(path) = plugin.str_at(&["path"]).filter(|path| !path.is_empty()) else { return Ok(None) };
    let path = file.parent().unwrap_or(Path::new(".")).join(path);
    let text = read_bounded(&path)
        .map_err(|error| format!("couldn't open admission plugin configuration {path:?}: {error}"))?;
    decode(&text).map(Some)
}

/// Refuses a configuration that is not of a plugin's type.
fn check_type(of: Configurable, configuration: &Value) -> Result<(), String> {
    if meta::api_version(configuration) != VERSION || meta::kind(configuration) != of.configuration {
        let (version, kind) = (meta::api_version(configuration), meta::kind(configuration));
        return Err(format!("{}: unexpected type: {version}, Kind={kind}", of.plugin));
    }
    let mut known = vec!["apiVersion", "kind", "staticManifestsDir"];
    if of.configuration == WEBHOOKS {
        known.push("kubeConfigFile");
    }
    known_fields(configuration, &known)
}

/// The users of the kubeconfig that a plugin's configuration names.
fn users_of(of: Configurable, configuration: &Value) -> Result<Option<KubeconfigUsers>, String> {
    let text = configuration.str_at(&["kubeConfigFile"]).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(format!("kubeConfigFile: Invalid value: {text:?}: must be an absolute file path"));
    }
    let failed =
        |why: &dyn std::fmt::Display| format!("{}: cannot load kubeconfig {text:?}: {why}", of.plugin);
    let content = read_bounded(path).map_err(|error| failed(&error))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    KubeconfigUsers::parse(&content, directory).map(Some).map_err(|why| failed(&why))
}

/// The directory of manifests that a plugin's configuration names.
fn directory_of(configuration: &Value) -> Result<Option<PathBuf>, String> {
    let text = configuration.str_at(&["staticManifestsDir"]).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let refuse = |why: &str| Err(format!("staticManifestsDir: Invalid value: {text:?}: {why}"));
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        return refuse("must be an absolute file path");
    }
    match fs::metadata(&path) {
        Err(error) => refuse(&format!("unable to read: {error}")),
        Ok(found) if !found.is_dir() => refuse("must be a directory"),
        Ok(_) => Ok(Some(path)),
    }
}

/// Reads manifests again whenever a directory changes. Manifests that cannot be used change nothing.
pub(crate) async fn follow(server: Arc<Server>) {
    let directories = server.backend.admission.configurations.directories.clone();
    let followed = directories.into_iter().map(|directory| follow_one(&server, directory));
    futures_util::future::join_all(followed).await;
}

async fn follow_one(server: &Arc<Server>, directory: Directory) {
    let Directory { of, path, mut manifests } = directory;
    let admission = &server.backend.admission;
    let reloads = &admission.configurations.reloads;
    let mut changes = match Entries::of(&path) {
        Ok(changes) => changes,
        Err(error) => {
            tracing::error!(plugin = of.plugin, err = %error, "cannot watch manifests; changes need a restart");
            return;
        }
    };
    loop {
        // Compared before the first change, too: one may have happened since the start.
        match manifests::load(&path, of.kinds) {
            Ok(found) if found == *manifests => {}
            Ok(found) => {
                manifests = Arc::new(found);
                admission.set_manifests(of, &manifests);
                reloads.succeeded(of.plugin, &manifests.hash);
                tracing::info!(plugin = of.plugin, "reloaded manifests");
            }
            Err(why) => {
                reloads.failed(of.plugin);
                tracing::error!(
                    plugin = of.plugin,
                    err = why,
                    "cannot reload manifests; keeping those in force"
                );
            }
        }
        if let Err(error) = changes.next().await {
            tracing::error!(plugin = of.plugin, err = %error, "cannot watch manifests; changes need a restart");
            return;
        }
    }
}
