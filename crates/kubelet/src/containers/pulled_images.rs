//! Records of the images that this kubelet pulled, and with which credentials: a pod may use an image that is on the node
//! only if it has credentials for it (`imagePullCredentialsVerificationPolicy`).
//!
//! *Invariant:* an image never counts as preloaded because of a crash: a pull is recorded before it begins. Credentials are
//! recorded as hashes, in a file for the owner only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use corten_api::{Map, Value, json, value};
use corten_base::files;
use corten_container::image::{Digest, Reference};
use corten_container::{AuthConfig, Image};
use jiff::Timestamp;
use parking_lot::Mutex;

/// The images that every pod may use.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Policy {
    /// All images on the node.
    NeverVerify,
    /// Images that the kubelet did not pull.
    NeverVerifyPreloaded,
    /// Those of them whose repository is in a list; an entry ending with `/*` stands for all below.
    NeverVerifyAllowlisted(Vec<String>),
    /// None.
    AlwaysVerify,
}

/// The credentials that an image was pulled with, by repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pulled {
    repositories: BTreeMap<String, BTreeSet<String>>,
    updated: Timestamp,
}

/// The entry for a pull without credentials of the pod: every pod may use the image.
const ALL_PODS: &str = "";

#[derive(Debug, Default)]
struct State {
    /// By the image's id.
    pulled: BTreeMap<String, Pulled>,
    /// The number of pulls in progress, by repository.
    pulling: BTreeMap<String, usize>,
    /// Repositories with a pull that a crash interrupted; an image of theirs may have been pulled completely.
    interrupted: BTreeSet<String>,
}

impl State {
    fn end(&mut self, repository: &str) {
        if let Some(pulls) = self.pulling.get_mut(repository) {
            *pulls -= 1;
            if *pulls == 0 {
                self.pulling.remove(repository);
            }
        }
    }
}

/// The records, and the policy that decides by them.
pub(crate) struct PulledImages {
    policy: Policy,
    file: PathBuf,
    state: Mutex<State>,
}

impl PulledImages {
    /// Reads the records in the kubelet's root directory, and the policy of a configuration.
    pub(crate) fn open(root: &Path, configuration: &Value) -> io::Result<PulledImages> {
        let policy = match configuration.str_at(&["imagePullCredentialsVerificationPolicy"]) {
            Some("NeverVerify") => Policy::NeverVerify,
            Some("AlwaysVerify") => Policy::AlwaysVerify,
            Some("NeverVerifyAllowlistedImages") => {
                let allowed = configuration.items_at(&["preloadedImagesVerificationAllowlist"]);
                let allowed = allowed.iter().filter_map(Value::as_str).map(str::to_owned);
                Policy::NeverVerifyAllowlisted(allowed.collect())
            }
            _ => Policy::NeverVerifyPreloaded,
        };
        let folder = root.join("image_manager");
        files::private_directory(&folder)?;
        let file = folder.join("pulled.json");
        let state = match fs::read(&file) {
            Ok(text) => State::parse(&text).ok_or_else(|| {
                let why = format!(
                    "{} is damaged; remove it to let all pods use the images on this node",
                    file.display()
                );
                io::Error::new(io::ErrorKind::InvalidData, why)
            })?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => State::default(),
            Err(err) => return Err(err),
        };
        Ok(PulledImages { policy, file, state: Mutex::new(state) })
    }

    /// Returns true if a pod with these credentials may use an image that is on the node without pulling it.
    pub(crate) fn may_use(&self, name: &str, image: &Image, credentials: &[AuthConfig]) -> bool {
        let repository = repository(name);
        let state = self.state.lock();
        let pulled = state.pulled.get(&image.id);
        let is_preloaded = pulled.is_none()
            && !state.pulling.contains_key(&repository)
            && !state.interrupted.contains(&repository);
        match &self.policy {
            Policy::NeverVerify => return true,
            Policy::NeverVerifyPreloaded if is_preloaded => return true,
            Policy::NeverVerifyAllowlisted(allowed) if is_preloaded && is_listed(allowed, &repository) => {
                return true;
            }
            _ => {}
        }
        let Some(used) = pulled.and_then(|pulled| pulled.repositories.get(&repository)) else { return false };
        used.contains(ALL_PODS) || credentials.iter().any(|credential| used.contains(&hash(credential)))
    }

    /// Records that a pull begins.
    pub(crate) fn begin(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        *state.pulling.entry(repository(name)).or_default() += 1;
        self.write(&state)
    }

    /// Records that a pull failed.
    pub(crate) fn fail(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.end(&repository(name));
        self.write(&state)
    }

    /// Records a pull with credentials of the pod, or without.
    pub(crate) fn finish(
        &self,
        name: &str,
        image: &Image,
        credential: Option<&AuthConfig>,
        now: Timestamp,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        let repository = repository(name);
        state.end(&repository);
        state.interrupted.remove(&repository);
        let pulled = state.pulled.entry(image.id.clone()).or_default();
        pulled.updated = now;
        let used = credential.map_or_else(|| ALL_PODS.to_owned(), hash);
        pulled.repositories.entry(repository).or_default().insert(used);
        self.write(&state)
    }

    /// Drops the records of images that were gone at a time.
    pub(crate) fn retain(&self, present: &[Image], listed: Timestamp) -> io::Result<()> {
        let mut state = self.state.lock();
        let before = state.pulled.len();
        let present: BTreeSet<&str> = present.iter().map(|image| image.id.as_str()).collect();
        state.pulled.retain(|id, pulled| pulled.updated >= listed || present.contains(id.as_str()));
        if state.pulled.len() == before { Ok(()) } else { self.write(&state) }
    }

    fn write(&self, state: &State) -> io::Result<()> {
        let next = self.file.with_extension("new");
        files::write_private(&next, json::write_to_string(&state.to_value()))?;
        fs::rename(&next, &self.file)
    }
}

impl State {
    fn to_value(&self) -> Value {
        let texts = |texts: &BTreeSet<String>| -> Vec<Value> {
            texts.iter().map(|text| text.as_str().into()).collect()
        };
        let pulled = self.pulled.iter().map(|(id, pulled)| {
            let repositories = pulled.repositories.iter();
            let repositories: Map =
                repositories.map(|(name, used)| (name.as_str().into(), texts(used).into())).collect();
            let updated = pulled.updated.to_string();
            (id.as_str().into(), value!({"repositories": (Value::Object(repositories)), "updated": updated}))
        });
        let pulling: BTreeSet<String> = self.pulling.keys().chain(&self.interrupted).cloned().collect();
        value!({"pulled": (Value::Object(pulled.collect())), "pulling": (texts(&pulling))})
    }

    fn parse(text: &[u8]) -> Option<State> {
        let tree = json::parse(text).ok()?;
        let texts = |list: &Value| -> Option<BTreeSet<String>> {
            list.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let pulled = tree.get("pulled")?.as_object()?.iter().map(|(id, pulled)| {
            let repositories = pulled.get("repositories")?.as_object()?.iter();
            let repositories = repositories.map(|(name, used)| Some((name.to_string(), texts(used)?)));
            let updated = pulled.str_at(&["updated"])?.parse().ok()?;
            Some((id.to_string(), Pulled { repositories: repositories.collect::<Option<_>>()?, updated }))
        });
        Some(State {
            pulled: pulled.collect::<Option<_>>()?,
            pulling: BTreeMap::new(),
            interrupted: texts(tree.get("pulling")?)?,
        })
    }
}

/// The repository of an image name, without tag and digest.
fn repository(name: &str) -> String {
    name.parse::<Reference>().map_or_else(|_| name.to_owned(), |reference| reference.repository())
}

fn is_listed(allowed: &[String], repository: &str) -> bool {
    allowed.iter().any(|entry| match entry.strip_suffix("/*") {
        Some(above) => repository.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')),
        None => entry == repository,
    })
}

/// The hash of a credential, as upstream records it; only root can read it.
fn hash(credential: &AuthConfig) -> String {
    let AuthConfig { username, password, auth, server_address, identity_token, registry_token } = credential;
    let parts = [username, password, auth, server_address, identity_token, registry_token];
    let parts: Vec<Value> = parts.iter().map(|part| part.as_str().into()).collect();
    Digest::of(json::write_to_string(&Value::Array(parts)).as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn image(id: &str) -> Image {
        Image { id: id.to_owned(), ..Image::default() }
    }

    fn credential(password: &str) -> AuthConfig {
        AuthConfig { password: password.to_owned(), ..AuthConfig::default() }
    }

    fn open(folder: &tempfile::TempDir, policy: &str) -> PulledImages {
        let allowed = vec![Value::from("registry.example/free/*"), Value::from("registry.example/one")];
        let configuration = value!({
            "imagePullCredentialsVerificationPolicy": policy, "preloadedImagesVerificationAllowlist": allowed,
        });
        PulledImages::open(folder.path(), &configuration).unwrap()
    }

    #[test]
    fn a_private_image_is_used_with_its_credentials_only() {
        let folder = tempfile::tempdir().unwrap();
        let images = open(&folder, "");
        let name = "registry.example/team/web:1";
        images.begin(name).unwrap();
        images.finish(name, &image("a"), Some(&credential("right")), NOW).unwrap();
        // Also after a restart.
        for images in [images, open(&folder, "")] {
            assert!(images.may_use(name, &image("a"), &[credential("other"), credential("right")]));
            assert!(images.may_use("registry.example/team/web:2", &image("a"), &[credential("right")]));
            assert!(!images.may_use(name, &image("a"), &[credential("wrong")]));
            assert!(!images.may_use(name, &image("a"), &[]));
            assert!(!images.may_use("registry.example/team/copy:1", &image("a"), &[credential("right")]));
        }
        let images = open(&folder, "");
        images.finish(name, &image("a"), None, NOW).unwrap();
        assert!(images.may_use(name, &image("a"), &[]), "it turned out to be public");
    }

    #[test]
    fn the_policy_decides_about_preloaded_images() {
        let folder = tempfile::tempdir().unwrap();
        for (policy, other, listed) in [
            ("NeverVerify", true, true),
            ("NeverVerifyPreloadedImages", true, true),
            ("", true, true),
            ("NeverVerifyAllowlistedImages", false, true),
            ("AlwaysVerify", false, false),
        ] {
            let images = open(&folder, policy);
            assert_eq!(images.may_use("registry.example/team/web", &image("p"), &[]), other, "{policy}");
            for name in ["registry.example/free/a/b:1", "registry.example/one:1", "registry.example/one"] {
                assert_eq!(images.may_use(name, &image("p"), &[]), listed, "{policy} {name}");
            }
        }
    }

    #[test]
    fn an_interrupted_pull_does_not_make_an_image_preloaded() {
        let folder = tempfile::tempdir().unwrap();
        let name = "registry.example/team/web:1";
        open(&folder, "").begin(name).unwrap();
        assert!(!open(&folder, "").may_use(name, &image("a"), &[]));
        // Nor does a pull that fails afterwards, of a pod without credentials.
        let images = open(&folder, "");
        images.begin(name).unwrap();
        images.fail(name).unwrap();
        assert!(
            !images.may_use(name, &image("a"), &[]) && !open(&folder, "").may_use(name, &image("a"), &[])
        );
        // A pull that fails leaves no trace otherwise.
        images.begin("other").unwrap();
        images.fail("other").unwrap();
        assert!(images.may_use("other", &image("b"), &[]));
    }

    #[test]
    fn records_of_removed_images_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let images = open(&folder, "");
        let later = NOW + jiff::SignedDuration::from_secs(60);
        for (id, at) in [("kept", NOW), ("gone", NOW), ("new", later)] {
            images.finish(id, &image(id), Some(&credential("x")), at).unwrap();
        }
        images.retain(&[image("kept")], later).unwrap();
        let preloaded = ["kept", "gone", "new"].map(|id| open(&folder, "").may_use(id, &image(id), &[]));
        assert_eq!(preloaded, [false, true, false]);
    }

    #[test]
    fn damaged_records_are_not_ignored() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(&folder, ""));
        fs::write(folder.path().join("image_manager/pulled.json"), "{").unwrap();
        let error = PulledImages::open(folder.path(), &Value::Null).err().unwrap();
        assert!(error.to_string().contains("is damaged"), "{error}");
    }
}
