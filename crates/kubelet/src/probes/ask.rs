//! Asks a container once, the way a probe says. What an answer means is upstream's, in upstream's words.

use std::time::Duration;

use corten_api::Value;
use corten_container::Error;

use super::grpc;
use crate::http;
use crate::machine::Machine;
use crate::pod::{Container, Pod};

/// How much of what a command said is repeated.
const LONGEST_OUTPUT: usize = 10 * 1024;
/// How often it is tried when nothing can be found out.
const TRIES: usize = 3;

/// What was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Success,
    /// A success, with something to say about it.
    Warning(String),
    Failure(String),
    /// Nothing could be found out, and nothing follows from it.
    Unknown(String),
}

/// Whom to ask.
pub(super) struct Asking<'a> {
    pub(super) machine: &'a Machine,
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    pub(super) id: &'a str,
    pub(super) pod_ip: &'a str,
    pub(super) limit: Duration,
}

impl Asking<'_> {
    pub(super) async fn ask(&self, probe: &Value) -> Answer {
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
                Err(why) => Answer::Unknown(why),
            };
        }
        if let Some(socket) = probe.get("tcpSocket") {
            let host = socket.str_at(&["host"]).filter(|host| !host.is_empty()).unwrap_or(self.pod_ip);
            return match http::port(socket.get("port"), self.container) {
                Ok(port) => tcp(host, port, self.limit).await,
                Err(why) => Answer::Unknown(why),
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
        match self.machine.runtime.exec_sync(self.id, &command, self.limit).await {
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
            Err(error) => Answer::Unknown(error.to_string()),
        }
    }
}

fn failure_of(told: Result<(), String>) -> Answer {
    told.map_or_else(Answer::Failure, |()| Answer::Success)
}

/// Not every answer is a good one, and one that leads elsewhere is taken for one.
fn of_http(told: Result<http::Answer, String>) -> Answer {
    match told {
        Err(why) => Answer::Failure(why),
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
        Ok(Err(error)) => Err(format!("dial tcp {address}: connect: {}", http::go_error(&error))),
        Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_elsewhere_is_a_success_with_a_warning() {
        let answer = |status| of_http(Ok(http::Answer { status, body: "b".into(), location: None }));
        assert_eq!(answer(200), Answer::Success);
        assert_eq!(answer(302), Answer::Warning("Probe terminated redirects, Response body: b".into()));
        assert_eq!(answer(404), Answer::Failure("HTTP probe failed with statuscode: 404".into()));
        assert_eq!(of_http(Err("no".into())), Answer::Failure("no".into()));
    }
}
