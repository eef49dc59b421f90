//! `delete` of an object that cannot be read (`ignoreStoreReadErrorWithClusterBreakingPotential`).
//!
//! There is no object to look at: preconditions, finalizers and admission are passed by, as upstream. So the caller needs a
//! verb of its own, and an object that can be read is never deleted like this.

use corten_api::status::{self, Details};
use corten_api::{Status, Value};
use corten_auth::Attributes;
use corten_store::{Error as StoreError, Expect, Op};

use super::write::RACE_RETRIES;
use super::{list, write};
use crate::authorization;
use crate::call::Call;
use crate::negotiate::Wanted;
use crate::respond::{self, Answer};

const VERB: &str = "unsafe-delete-ignore-read-errors";

pub(super) async fn delete(call: &mut Call, dry_run: bool, wanted: Wanted) -> Result<Answer, Status> {
    if !has_deleter(call) {
        let why =
            "no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential";
        return Err(Status::internal(why));
    }
    authorize(call)?;
    let cache = list::cache(call)?.clone();
    let key = cache.form.key(&call.at.namespace, &call.at.name);
    for _ in 0..RACE_RETRIES {
        let Some(entry) = cache.unreadable(&key) else {
            let exists = cache.get(&call.at.namespace, &call.at.name).is_some();
            return Err(if exists { readable(call, &key) } else { call.not_found() });
        };
        if dry_run {
            return Ok(respond::tree(200, &deleted(call), wanted));
        }
        tracing::warn!(%key, user = %call.user.name, "deleting object that cannot be read");
        let expect = Expect::ModRevision(entry.mod_revision);
        match call.backend.store.commit(Op::Delete { key: key.clone(), expect }.into()).await {
            Ok(_) => return Ok(respond::tree(200, &deleted(call), wanted)),
            Err(StoreError::Conflict { current: None, .. }) => return Err(call.not_found()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(write::store_failure(error)),
        }
    }
    Err(call.stale())
}

/// Returns true if upstream can delete objects of the kind that it cannot read.
fn has_deleter(call: &Call) -> bool {
    !call.served.is_namespaces() && call.served.group() != "rbac.authorization.k8s.io"
}

fn authorize(call: &Call) -> Result<(), Status> {
    let at = &call.at;
    let asked = Attributes {
        namespace: &at.namespace,
        version: &at.version,
        name: &at.name,
        ..Attributes::resource(&call.user, VERB, &at.group, &at.resource)
    };
    let (corten_auth::Decision::Deny(reason) | corten_auth::Decision::NoOpinion(reason)) =
        authorization::authorize(&call.backend, &asked)
    else {
        return Ok(());
    };
    let why = format!("not permitted to do \"{VERB}\", reason: {reason}");
    Err(Status::forbidden(&at.group, &at.resource, &at.name, why))
}

/// The refusal to delete an object that can be read.
fn readable(call: &Call, key: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not \
         allowed because the object is decodable from storage"
    );
    Status::conflict(call.served.group(), call.served.name(), &call.at.name, why)
}

fn deleted(call: &Call) -> Value {
    let kind = call.served.kind().to_owned();
    let details = Details { kind, name: call.at.name.to_string(), ..Details::default() };
    let mut status = status::success(Some(details));
    status.set(&["code"], 200_i64);
    status
}
