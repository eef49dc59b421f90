//! The runtime handler of a pod, as its RuntimeClass names it.

use corten_client::{Key, kinds};

use crate::api_server::ApiServer;
use crate::pod::Pod;

/// A pod's RuntimeClass cannot be used; messages are upstream's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeClassError {
    #[error("RuntimeClass {0:?} not found")]
    NotFound(String),
    #[error("failed to lookup RuntimeClass {name}: {err}")]
    Lookup { name: String, err: corten_client::Error },
}

/// The handler of a pod; empty for the runtime's own choice.
pub(crate) async fn handler(api: &ApiServer, pod: &Pod) -> Result<String, RuntimeClassError> {
    let name = pod.tree().str_at(&["spec", "runtimeClassName"]).unwrap_or_default();
    if name.is_empty() {
        return Ok(String::new());
    }
    match api.client.get(&kinds::RUNTIME_CLASSES, &Key::new("", name)).await {
        Ok(class) => Ok(class.str_at(&["handler"]).unwrap_or_default().to_owned()),
        Err(err) if err.is_not_found() => Err(RuntimeClassError::NotFound(name.to_owned())),
        Err(err) => Err(RuntimeClassError::Lookup { name: name.to_owned(), err }),
    }
}
