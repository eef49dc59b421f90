//! Registry credentials of a pod: its `imagePullSecrets`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, json};
use corten_container::AuthConfig;

use crate::kubelet::Kubelet;
use crate::objects::named_objects::ObjectKind;
use crate::pod::Pod;

/// The credentials in the secrets of a pod that exist.
pub(crate) async fn of_pod(kubelet: &Kubelet, pod: &Pod) -> Vec<AuthConfig> {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for reference in pod.tree().items_at(&["spec", "imagePullSecrets"]) {
        let name = reference.str_at(&["name"]).unwrap_or_default();
        match kubelet.named_object(ObjectKind::Secret, pod, name).await {
            Ok(Some(secret)) => found.extend(read(&secret)),
            Ok(None) | Err(_) => missing.push(name.to_owned()),
        }
    }
    if !missing.is_empty() {
        let names = missing.join(", ");
        let message = format!(
            "Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
        );
        kubelet.api.pod_events(pod).warning("FailedToRetrieveImagePullSecret", message);
    }
    found
}

/// The credentials of a secret of type `dockerconfigjson` or `dockercfg`.
fn read(secret: &Value) -> Vec<AuthConfig> {
    let data = |key: &str| STANDARD.decode(secret.str_at(&["data", key])?).ok();
    let parsed = |bytes: Vec<u8>| json::parse(&bytes).ok();
    let registries = match (data(".dockerconfigjson").and_then(parsed), data(".dockercfg").and_then(parsed)) {
        (Some(config), _) => config.get("auths").cloned(),
        (None, old) => old,
    };
    let registries = registries.as_ref().and_then(Value::as_object);
    let entries = registries.into_iter().flat_map(|map| map.iter());
    entries
        .map(|(server, entry)| {
            let text = |key: &str| entry.str_at(&[key]).unwrap_or_default().to_owned();
            AuthConfig {
                username: text("username"),
                password: text("password"),
                auth: text("auth"),
                server_address: server.to_string(),
                identity_token: text("identitytoken"),
                registry_token: text("registrytoken"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn both_types_of_secrets_are_read() {
        let encode = |text: &str| STANDARD.encode(text);
        let new = encode(r#"{"auths":{"registry.example":{"username":"u","password":"p"}}}"#);
        let found = read(&value!({"data": {".dockerconfigjson": (new)}}));
        assert_eq!((found[0].server_address.as_str(), found[0].username.as_str()), ("registry.example", "u"));
        let old = encode(r#"{"registry.example":{"auth":"dTpw"}}"#);
        assert_eq!(read(&value!({"data": {".dockercfg": (old)}}))[0].auth, "dTpw");
        assert!(read(&value!({"data": {"x": "eA=="}})).is_empty());
    }
}
