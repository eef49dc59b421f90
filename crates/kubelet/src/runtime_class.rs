//! Which of the runtime's handlers a pod is to run with: its RuntimeClass says so.

use corten_client::{Key, kinds};

use crate::machine::Machine;
use crate::pod::Pod;

/// The handler of a pod; empty for the runtime's own choice.
pub(crate) async fn handler(machine: &Machine, pod: &Pod) -> Result<String, String> {
    let name = pod.tree().str_at(&["spec", "runtimeClassName"]).unwrap_or_default();
    if name.is_empty() {
        return Ok(String::new());
    }
    match machine.client.get(&kinds::RUNTIME_CLASSES, &Key::new("", name)).await {
        Ok(class) => Ok(class.str_at(&["handler"]).unwrap_or_default().to_owned()),
        Err(error) if error.is_not_found() => Err(format!("RuntimeClass {name:?} not found")),
        Err(error) => Err(format!("failed to lookup RuntimeClass {name}: {error}")),
    }
}
