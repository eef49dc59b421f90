//! The lifecycle hooks of a container: postStart and preStop.

use std::time::Duration;

use corten_api::Value;

use crate::kubelet::Kubelet;
use crate::pod::{Container, Pod};
use crate::probes::http;

/// The number of bytes of a hook's output that an error shows.
const SHOWN_BYTES: usize = 1024;

/// A hook that failed; messages are upstream's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    #[error("command {command:?} exited with {code}: , message: {text:?}")]
    ExitCode { command: Vec<String>, code: i32, text: String },
    #[error(transparent)]
    Exec(#[from] corten_container::Error),
    #[error(transparent)]
    Port(#[from] http::InvalidPort),
    #[error(transparent)]
    Http(#[from] http::HttpError),
    #[error("invalid handler: container {container} of pod {pod}")]
    NoHandler { container: String, pod: String },
}

/// Runs one hook to its end.
pub(crate) async fn run(
    kubelet: &Kubelet,
    pod: &Pod,
    container: &Container,
    id: &str,
    hook: &Value,
    pod_ip: &str,
) -> Result<(), HookError> {
    if let Some(exec) = hook.get("exec") {
        let command: Vec<String> =
            exec.items_at(&["command"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let said = kubelet.containers.runtime.exec_sync(id, &command, Duration::ZERO).await;
        return match said {
            Ok(output) if output.exit_code == 0 => Ok(()),
            Ok(output) => {
                let mut text = [output.stdout, output.stderr].concat();
                text.truncate(SHOWN_BYTES);
                let text = String::from_utf8_lossy(&text).into_owned();
                let code = output.exit_code;
                Err(HookError::ExitCode { command, code, text })
            }
            Err(err) => Err(err.into()),
        };
    }
    if let Some(get) = hook.get("httpGet") {
        let request = http::Request::of(get, container, pod_ip, http::LIFECYCLE)?;
        return Ok(http::get(&request, Duration::from_secs(30)).await.map(drop)?);
    }
    if let Some(seconds) = hook.int_at(&["sleep", "seconds"]) {
        kubelet.clock.sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err(HookError::NoHandler { container: container.name.to_string(), pod: pod.described() })
}
