//! Runs a probe once. Results and their messages are upstream's.

use std::time::Duration;

use corten_api::Value;
use corten_container::Error;

use super::grpc;
use crate::kubelet::Kubelet;
use crate::pod::{Container, Pod};
use crate::probes::http;

/// The number of bytes of a command's output that a message shows.
const LONGEST_OUTPUT: usize = 10 * 1024;
/// The number of attempts while the result is unknown.
const TRIES: usize = 3;

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Success,
    /// A success with a message.
    Warning(String),
    Failure(String),
    /// The probe could not be run; nothing follows from it.
    Unknown(String),
}

/// The target of a probe.
pub(super) struct ProbeTarget<'a> {
    pub(super) kubelet: &'a Kubelet,
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    pub(super) id: &'a str,
    pub(super) pod_ip: &'a str,
    pub(super) limit: Duration,
}

impl ProbeTarget<'_> {
    pub(super) async fn run_probe(&self, probe: &Value) -> Answer {
        let mut answer = self.try_once(probe).await;
        for _ in 1..TRIES {
            if !matches!(answer, Answer::Unknown(_)) {
                break;
            }
            answer = self.try_once(probe).await;
        }
        answer
    }

    async fn try_once(&self, probe: &Value) -> Answer {
        if let Some(exec) = probe.get("exec") {
            return self.exec(exec).await;
        }
        if let Some(get) = probe.get("httpGet") {
            return match http::Request::of(get, self.container, self.pod_ip, http::PROBE) {
                Ok(request) => of_http(http::probe(&request, self.limit).await),
                Err(err) => Answer::Unknown(err.to_string()),
            };
        }
        if let Some(socket) = probe.get("tcpSocket") {
            let host = socket.str_at(&["host"]).filter(|host| !host.is_empty()).unwrap_or(self.pod_ip);
            return match http::port(socket.get("port"), self.container) {
                Ok(port) => tcp(host, port, self.limit).await,
                Err(err) => Answer::Unknown(err.to_string()),
            };
        }
        if let Some(call) = probe.get("grpc") {
            let service = call.str_at(&["service"]).unwrap_or_default();
            return match call.int_at(&["port"]).and_then(|port| u16::try_from(port).ok()) {
                Some(port) => failure_of(grpc::check(self.pod_ip, port, service, self.limit).await),
                None => Answer::Unknown("invalid port number".to_owned()),
            };
        }
        Answer::Unknown(format!("missing probe handler for {}:{}", self.pod.described(), self.container.name))
    }

    async fn exec(&self, exec: &Value) -> Answer {
        let command = exec.items_at(&["command"]).iter().filter_map(Value::as_str).map(str::to_owned);
        let command: Vec<String> = command.collect();
        match self.kubelet.containers.runtime.exec_sync(self.id, &command, self.limit).await {
            Ok(output) if output.exit_code == 0 => Answer::Success,
            Ok(output) => {
                let mut said = [output.stdout, output.stderr].concat();
                said.truncate(LONGEST_OUTPUT);
                Answer::Failure(String::from_utf8_lossy(&said).into_owned())
            }
            Err(Error::DeadlineExceeded(_)) => {
                let (command, seconds) = (command.join(" "), self.limit.as_secs());
                Answer::Failure(format!("command timed out: {command:?} timed out after {seconds}s"))
            }
            Err(err) => Answer::Unknown(err.to_string()),
        }
    }
}

fn failure_of(result: Result<(), impl std::fmt::Display>) -> Answer {
    result.map_or_else(|err| Answer::Failure(err.to_string()), |()| Answer::Success)
}

/// The result of an HTTP probe. A redirect to another host is a success with a warning.
fn of_http(result: Result<http::Answer, http::HttpError>) -> Answer {
    match result {
        Err(err) => Answer::Failure(err.to_string()),
        Ok(answer) => match answer.status {
            200..300 => Answer::Success,
            300..400 => {
                Answer::Warning(format!("Probe terminated redirects, Response body: {}", answer.body))
            }
            status => Answer::Failure(format!("HTTP probe failed with statuscode: {status}")),
        },
    }
}

async fn tcp(host: &str, port: u16, limit: Duration) -> Answer {
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    failure_of(match tokio::time::timeout(limit, tokio::net::TcpStream::connect(&address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(err)) => Err(format!("dial tcp {address}: connect: {}", http::go_error(&err))),
        Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_a_success_with_a_warning() {
        let answer = |status| of_http(Ok(http::Answer { status, body: "b".into(), location: None }));
        assert_eq!(answer(200), Answer::Success);
        assert_eq!(answer(302), Answer::Warning("Probe terminated redirects, Response body: b".into()));
        assert_eq!(answer(404), Answer::Failure("HTTP probe failed with statuscode: 404".into()));
    }
}
