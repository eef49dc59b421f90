//! What a container asks to be done right after it began or right before it ends.

use std::time::Duration;

use corten_api::Value;

use crate::http;
use crate::machine::Machine;
use crate::pod::{Container, Pod};

/// How much of what a hook said is repeated.
const SHOWN_BYTES: usize = 1024;

/// Runs one hook to its end.
pub(crate) async fn run(
    machine: &Machine,
    pod: &Pod,
    container: &Container,
    id: &str,
    hook: &Value,
    pod_ip: &str,
) -> Result<(), String> {
    if let Some(exec) = hook.get("exec") {
        let command: Vec<String> =
            exec.items_at(&["command"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let said = machine.runtime.exec_sync(id, &command, Duration::ZERO).await;
        return match said {
            Ok(output) if output.exit_code == 0 => Ok(()),
            Ok(output) => {
                let mut text = [output.stdout, output.stderr].concat();
                text.truncate(SHOWN_BYTES);
                let text = String::from_utf8_lossy(&text).into_owned();
                let code = output.exit_code;
                Err(format!("command {command:?} exited with {code}: , message: {text:?}"))
            }
            Err(error) => Err(error.to_string()),
        };
    }
    if let Some(get) = hook.get("httpGet") {
        let request = http::Request::of(get, container, pod_ip, http::LIFECYCLE)?;
        return http::get(&request, Duration::from_secs(30)).await.map(drop);
    }
    if let Some(seconds) = hook.int_at(&["sleep", "seconds"]) {
        machine.clock.sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err(format!("invalid handler: container {} of pod {}", container.name, pod.described()))
}
