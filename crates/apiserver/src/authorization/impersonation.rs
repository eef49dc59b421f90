//! In whose name a request is done: the `Impersonate-*` headers.

use std::sync::Arc;

use corten_api::Status;
use corten_auth::{ANONYMOUS, AUTHENTICATED, Attributes, UNAUTHENTICATED, User};

use super::{Authorizer, require};

/// The user a request is to be treated as: the one it impersonates, if the one who asks may do that.
pub(crate) fn impersonate(
    authorizer: &Authorizer,
    user: Arc<User>,
    headers: &http::HeaderMap,
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
    require(
        authorizer,
        &Attributes { name: &name, ..Attributes::resource(&user, "impersonate", "", "users") },
    )?;
    if name == ANONYMOUS {
        groups.push(UNAUTHENTICATED.into());
    } else if !groups.iter().any(|g| g == AUTHENTICATED) {
        groups.push(AUTHENTICATED.into());
    }
    Ok(Arc::new(User { name, uid: uid.unwrap_or_default(), groups, ..User::default() }))
}
