//! Whether a request may be done, and in whose name: authorization and impersonation.
//!
//! What is refused here is refused for every path; there is no way around these functions. The rules are
//! those that hold before any role exists: `system:masters` may do everything, everyone authenticated may
//! discover, anyone may ask for health and version.

use std::sync::Arc;

use corten_api::Status;
use corten_auth::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

use crate::request::RequestInfo;

/// The user a request is to be treated as: the one it impersonates, if the one who asks may do that.
pub(crate) fn impersonate(
    user: Arc<User>,
    headers: &http::HeaderMap,
    info: &RequestInfo,
) -> Result<Arc<User>, Status> {
    let all = |name: &str| headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).map(str::to_owned);
    let (name, uid) = (all("impersonate-user").next(), all("impersonate-uid").next());
    let mut groups: Vec<String> = all("impersonate-group").collect();
    let extra = headers.keys().any(|key| key.as_str().starts_with("impersonate-extra-"));
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        if uid.is_none() && groups.is_empty() && !extra {
            return Ok(user);
        }
        return Err(Status::bad_request("requested to impersonate without impersonating a user name"));
    };
    if !user.is_in(MASTERS) {
        let asked = RequestInfo { verb: "impersonate", ..info.clone() };
        return Err(refusal(&user, &asked, ""));
    }
    if name == ANONYMOUS {
        groups.push(UNAUTHENTICATED.into());
    } else if !groups.iter().any(|g| g == AUTHENTICATED) {
        groups.push(AUTHENTICATED.into());
    }
    Ok(Arc::new(User { name, uid: uid.unwrap_or_default(), groups, ..User::default() }))
}

const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY: [&str; 7] = ["/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version"];

/// Whether a user may do what a request asks.
pub(crate) fn authorize(user: &User, info: &RequestInfo, path: &str) -> Result<(), Status> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    if info.resource.is_none() && info.verb == "get" {
        let public = PUBLIC.contains(&path);
        let discovery = DISCOVERY.iter().any(|root| path == *root || path.starts_with(&format!("{root}/")));
        if public || (discovery && user.is_in(AUTHENTICATED)) {
            return Ok(());
        }
    }
    Err(refusal(user, info, path))
}

fn refusal(user: &User, info: &RequestInfo, path: &str) -> Status {
    let Some(at) = &info.resource else {
        let why = format!("User {:?} cannot {} path {path:?}", user.name, info.verb);
        return Status::forbidden("", "", "", why);
    };
    let resource = match at.subresource.as_str() {
        "" => at.resource.to_string(),
        sub => format!("{}/{sub}", at.resource),
    };
    let scope = match at.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {:?} cannot {} resource {resource:?} in API group {:?} {scope}",
        user.name, info.verb, at.group
    );
    Status::forbidden(&at.group, &at.resource, &at.name, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request;

    #[track_caller]
    fn check(groups: &[&str], path: &str, allowed: bool) {
        let user = User {
            name: "u".into(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..User::default()
        };
        let info = request::parse(&http::Method::GET, path, false).unwrap();
        assert_eq!(authorize(&user, &info, path).is_ok(), allowed, "{groups:?} {path}");
    }

    #[test]
    fn who_may_what() {
        check(&[MASTERS], "/api/v1/pods", true);
        check(&[MASTERS], "/metrics", true);
        check(&[AUTHENTICATED], "/api/v1/pods", false);
        check(&[AUTHENTICATED], "/apis/apps/v1", true);
        check(&[AUTHENTICATED], "/metrics", false);
        check(&[UNAUTHENTICATED], "/healthz", true);
        check(&[UNAUTHENTICATED], "/version", true);
        check(&[UNAUTHENTICATED], "/api", false);
        check(&[UNAUTHENTICATED], "/api/v1/namespaces/default/pods", false);
    }

    #[test]
    fn refusals_are_worded_as_upstreams() {
        let path = "/api/v1/namespaces/default/pods";
        let info = request::parse(&http::Method::GET, path, false).unwrap();
        let status = authorize(&User::anonymous(), &info, path).unwrap_err();
        assert_eq!(
            status.message,
            "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
        );
    }
}
