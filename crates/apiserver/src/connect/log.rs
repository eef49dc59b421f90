//! `pods/log`: the log of a container, from its kubelet.

use std::fmt::Write as _;

use corten_api::status::ErrorList;
use corten_api::{Status, Value};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;

use super::forward::streamed;
use super::{container, object};
use crate::body::ResponseBody;
use crate::call::Call;
use crate::request::Query;
use crate::respond::Answer;

/// The limit of a kubelet's error message in the response.
const MAX_REFUSAL: usize = 2048;

pub(super) async fn answer(call: &Call) -> Result<Answer, Status> {
    let query = &call.query;
    let options = options(query)?;
    let errors = problems(query)?;
    let name = &*call.at.name;
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", name, &errors));
    }
    let pod = object(call, name)?;
    let container = container::choose(&pod, name, query.text("container"))?;
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    if node.is_empty() {
        let mut nothing = Response::new(ResponseBody::Empty);
        *nothing.status_mut() = StatusCode::NO_CONTENT;
        return Ok(nothing);
    }
    let check = !query.flag("insecureSkipTLSVerifyBackend");
    let kubelet = call.backend.kubelets.find(call, node, check)?;
    let path = format!("/containerLogs/{}/{name}/{container}{options}", call.at.namespace);
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::get(&path).body(body).map_err(Status::internal)?;
    let failed = |why| {
        let url = format!("{}://{}{path}", kubelet.scheme(), kubelet.authority());
        Status::unexplained(format!("Get {url:?}: {why}"))
    };
    let answer = kubelet.send(request).await.map_err(failed)?;
    match answer.status().as_u16() {
        200..=206 => Ok(log_response(answer)),
        code => Err(refused(name, code, answer.into_body()).await),
    }
}

fn log_response(answer: Response<Incoming>) -> Answer {
    let mut shown = Response::new(streamed(answer.into_body()));
    let headers = shown.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    shown
}

/// The status of an error response of the kubelet.
async fn refused(name: &str, code: u16, body: Incoming) -> Status {
    let text = match Limited::new(body, MAX_REFUSAL).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(_) => String::new(),
    };
    match code {
        500 => Status::internal(text),
        400 => Status::bad_request(text),
        404 => {
            let mut status = Status::not_found("", "pods/log", name);
            status.message = format!("the server could not find the requested resource ( pods/log {name})");
            status
        }
        code => {
            let mut status = Status::unexplained(text);
            status.code = code;
            status
        }
    }
}

/// The query for the kubelet.
fn options(query: &Query) -> Result<String, Status> {
    let mut out = String::new();
    let mut add = |key: &str, value: &str| {
        let between = if out.is_empty() { '?' } else { '&' };
        // Writing to a string cannot fail.
        let _ = write!(out, "{between}{key}={value}");
    };
    for key in ["follow", "previous", "timestamps"] {
        if query.flag(key) {
            add(key, "true");
        }
    }
    for key in ["sinceSeconds", "tailLines", "limitBytes"] {
        if let Some(number) = number(query, key)? {
            add(key, &number.to_string());
        }
    }
    if let Some(time) = since_time(query)? {
        add("sinceTime", &time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    }
    Ok(out)
}

fn number(query: &Query, key: &str) -> Result<Option<i64>, Status> {
    match query.text(key) {
        "" => Ok(None),
        _ => query.int(key),
    }
}

fn since_time(query: &Query) -> Result<Option<jiff::Timestamp>, Status> {
    let text = query.text("sinceTime");
    if text.is_empty() {
        return Ok(None);
    }
    let undated = |_| Status::bad_request(format!("parsing time {text:?}: cannot parse {text:?} as a time"));
    text.parse().map(Some).map_err(undated)
}

/// The validation errors of the options, as upstream words them.
fn problems(query: &Query) -> Result<ErrorList, Status> {
    let mut errors = ErrorList::new();
    if let Some(lines) = number(query, "tailLines")?.filter(|lines| *lines < 0) {
        errors.invalid("tailLines", &Value::from(lines), "must be greater than or equal to 0");
    }
    if let Some(bytes) = number(query, "limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.invalid("limitBytes", &Value::from(bytes), "must be greater than 0");
    }
    match (number(query, "sinceSeconds")?, since_time(query)?) {
        (Some(_), Some(_)) => {
            errors.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified");
        }
        (Some(seconds), None) if seconds < 1 => {
            errors.invalid("sinceSeconds", &Value::from(seconds), "must be greater than 0");
        }
        _ => {}
    }
    if !query.text("stream").is_empty() {
        errors.forbidden("stream", "may not be specified");
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet_query(query: &str) -> String {
        options(&Query::parse(Some(query))).unwrap()
    }

    #[test]
    fn options_are_sent_to_the_kubelet() {
        assert_eq!(kubelet_query("container=a"), "");
        assert_eq!(kubelet_query("follow=true&tailLines=5"), "?follow=true&tailLines=5");
        assert_eq!(
            kubelet_query("sinceTime=2020-01-01T00:00:00%2B01:00&previous=1"),
            "?previous=true&sinceTime=2019-12-31T23:00:00Z"
        );
    }

    #[test]
    fn options_are_checked() {
        let said = |query: &str| problems(&Query::parse(Some(query))).unwrap().summary();
        assert_eq!(said("tailLines=-1"), "tailLines: Invalid value: -1: must be greater than or equal to 0");
        assert_eq!(said("limitBytes=0"), "limitBytes: Invalid value: 0: must be greater than 0");
        assert_eq!(said("sinceSeconds=0"), "sinceSeconds: Invalid value: 0: must be greater than 0");
        assert_eq!(said("stream=Stdout"), "stream: Forbidden: may not be specified");
        assert!(problems(&Query::parse(Some("tailLines=x"))).is_err());
    }
}
