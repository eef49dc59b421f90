//! `projected`: several sources in one volume, in memory. The only way to tokens, trust bundles and pod certificates.

use corten_api::Value;
use corten_client::Key;

use super::api_files::{CONFIG_MAP, SECRET, add_downward_api, add_object, default_mode, write};
use super::{Plugin, Volume, VolumePath, cluster_trust_bundle};
use crate::objects::pod_certificates::CredentialBundle;
use crate::pod::Pod;
use crate::volumes::VolumeError;
use crate::volumes::atomic_writer::{Content, Files};

pub(super) const PLUGIN: Plugin = Plugin { field: "projected", set_up: |volume| Box::pin(set_up(volume)) };

async fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    let mut files = Files::new();
    let mode = default_mode(volume.source);
    for (index, source) in volume.source.items_at(&["sources"]).iter().enumerate() {
        if let Some(source) = source.get("configMap") {
            add_object(volume, &CONFIG_MAP, source, "name", mode, &mut files).await?;
        } else if let Some(source) = source.get("secret") {
            add_object(volume, &SECRET, source, "name", mode, &mut files).await?;
        } else if let Some(source) = source.get("downwardAPI") {
            add_downward_api(volume, source, mode, &mut files)?;
        } else if let Some(source) = source.get("serviceAccountToken") {
            add_token(volume, source, mode, &mut files).await?;
        } else if let Some(source) = source.get("clusterTrustBundle") {
            add_trust_bundle(volume, source, mode, &mut files).await?;
        } else if let Some(source) = source.get("podCertificate") {
            add_certificate(volume, index, source, mode, &mut files).await?;
        }
    }
    write(volume, "projected", true, &files)
}

/// Adds a service account token that is valid for as long as the pod exists.
async fn add_token(
    volume: Volume<'_>,
    source: &Value,
    mode: u32,
    files: &mut Files,
) -> Result<(), VolumeError> {
    let Volume { kubelet, pod, .. } = volume;
    let account = pod.tree().str_at(&["spec", "serviceAccountName"]).unwrap_or("default");
    let seconds = source.int_at(&["expirationSeconds"]).unwrap_or(3600);
    let audiences = source.str_at(&["audience"]).filter(|text| !text.is_empty());
    let audiences: Vec<Value> = audiences.into_iter().map(Value::from).collect();
    let key = Key::new(pod.namespace(), account);
    let tokens = &kubelet.objects.tokens;
    let token = tokens.get(&kubelet.api, &kubelet.clock, pod, &key, &audiences, seconds).await?;
    let path = source.str_at(&["path"]).unwrap_or("token").to_owned();
    files.insert(path, Content { bytes: token.into_bytes(), mode: group_mode(pod, mode) });
    Ok(())
}

async fn add_trust_bundle(
    volume: Volume<'_>,
    source: &Value,
    mode: u32,
    files: &mut Files,
) -> Result<(), VolumeError> {
    let Volume { kubelet, pod, .. } = volume;
    let bundles = kubelet.objects.trust_bundles.objects(&kubelet.api, &kubelet.clock).await?;
    let anchors = cluster_trust_bundle::anchors(&bundles, source)?;
    add_text(pod, source, "path", mode, &anchors, files);
    Ok(())
}

async fn add_certificate(
    volume: Volume<'_>,
    index: usize,
    source: &Value,
    mode: u32,
    files: &mut Files,
) -> Result<(), VolumeError> {
    let Volume { kubelet, pod, name, .. } = volume;
    let certificates = &kubelet.objects.pod_certificates;
    let bundle = certificates.get(&kubelet.api, &kubelet.clock, pod, name, index, source).await?;
    let CredentialBundle { key, chain } = bundle;
    add_text(pod, source, "keyPath", mode, &key, files);
    add_text(pod, source, "certificateChainPath", mode, &chain, files);
    add_text(pod, source, "credentialBundlePath", mode, &format!("{key}{chain}"), files);
    Ok(())
}

/// Adds a file at the path that a field of the source names, if it does.
fn add_text(pod: &Pod, source: &Value, path_key: &str, mode: u32, text: &str, files: &mut Files) {
    let Some(path) = source.str_at(&[path_key]).filter(|path| !path.is_empty()) else { return };
    let content = Content { bytes: text.as_bytes().to_vec(), mode: group_mode(pod, mode) };
    files.insert(path.to_owned(), content);
}

/// The mode of a credential: a container that does not run as root reads it through the pod's `fsGroup`.
fn group_mode(pod: &Pod, mode: u32) -> u32 {
    let has_group = pod.tree().int_at(&["spec", "securityContext", "fsGroup"]).is_some();
    if has_group { 0o640 } else { mode }
}
