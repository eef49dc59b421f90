//! `pods/exec`, `pods/attach` and `pods/portforward`: sessions between a client and a kubelet.

use std::fmt::Write as _;

use corten_api::Status;
use http::request::Parts;

use super::forward::{self, Sent};
use super::{container, object};
use crate::call::Call;
use crate::request::Query;
use crate::respond::Answer;

pub(super) async fn answer(call: &Call, parts: &Parts) -> Result<Answer, Status> {
    let (name, namespace) = (&*call.at.name, &*call.at.namespace);
    let pod = object(call, name)?;
    let path = match &*call.at.subresource {
        "portforward" => format!("/portForward/{namespace}/{name}{}", ports(&call.query)),
        kind => {
            let container = container::choose(&pod, name, call.query.text("container"))?;
            format!("/{kind}/{namespace}/{name}/{container}{}", streams(&call.query, kind == "exec"))
        }
    };
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let kubelet = call.backend.kubelets.find(call, node, true)?;
    let sent = Sent::session(parts, &call.headers);
    if !sent.is_upgrade() {
        return Err(forward::not_upgraded());
    }
    let failed = |why| Status::unexplained(format!("error dialing backend: {why}"));
    sent.send_to(&kubelet, &path).await.map_err(failed)
}

/// The query for the kubelet: the streams of a session, and its command.
fn streams(query: &Query, command: bool) -> String {
    let named = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];
    let mut out: Vec<String> = named
        .into_iter()
        .filter(|(asked, _)| query.flag(asked))
        .map(|(_, parameter)| format!("{parameter}=1"))
        .collect();
    if command {
        out.extend(query.all("command").map(|word| format!("command={}", escaped(word))));
    }
    joined(&out)
}

fn ports(query: &Query) -> String {
    let ports: Vec<&str> = query.all("ports").flat_map(|ports| ports.split(',')).collect();
    if ports.is_empty() { String::new() } else { format!("?port={}", escaped(&ports.join(","))) }
}

fn joined(parts: &[String]) -> String {
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

/// A value, percent-encoded for a query.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_for_the_kubelet() {
        let query = Query::parse(Some(
            "stdin=true&stdout=1&stderr=false&tty=true&command=sh&command=-c&command=a%26b%20c",
        ));
        assert_eq!(streams(&query, true), "?input=1&output=1&tty=1&command=sh&command=-c&command=a%26b%20c");
        assert_eq!(streams(&query, false), "?input=1&output=1&tty=1");
        assert_eq!(streams(&Query::default(), true), "");
        assert_eq!(ports(&Query::parse(Some("ports=80,81&ports=9"))), "?port=80%2C81%2C9");
        assert_eq!(ports(&Query::default()), "");
    }
}
