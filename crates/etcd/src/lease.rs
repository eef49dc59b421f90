//! The service Lease.

use std::time::Duration;

use corten_etcd_api::errors::{LEASE_NOT_FOUND, LEASE_TTL_TOO_LARGE};
use corten_etcd_api::*;
use corten_grpc::{Receiver, Sender, Status};
use corten_store::Error;

use crate::convert::{lease, status};
use crate::keys;
use crate::service::Etcd;

/// The shortest time to live, as etcd's with its usual election timeout of one second.
const MIN_TTL: i64 = 2;
/// The space of a lease, as etcd estimates it.
const LEASE_COST: usize = 64;
const MAX_TTL: i64 = 9_000_000_000;

impl Etcd {
    pub(crate) async fn lease_grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
        self.check_space(LEASE_COST)?;
        if request.ttl > MAX_TTL {
            return Err(LEASE_TTL_TOO_LARGE.into());
        }
        let ttl = request.ttl.max(MIN_TTL);
        let id = if request.id == 0 { random_id()? } else { request.id };
        let granted = self.store.grant_with_id(lease(id), Duration::from_secs(ttl as u64)).await;
        granted.map_err(status)?;
        Ok(LeaseGrantResponse { header: Some(self.header()), id, ttl, error: String::new() })
    }

    pub(crate) async fn lease_revoke(
        &self,
        request: LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, Status> {
        self.store.lease(lease(request.id)).ok_or(LEASE_NOT_FOUND)?;
        self.check_lease(request.id)?;
        self.store.revoke(lease(request.id)).await.map_err(status)?;
        Ok(LeaseRevokeResponse { header: Some(self.header()) })
    }

    /// Fails for a lease that holds protected keys: their owner decides how long they live.
    fn check_lease(&self, id: i64) -> Result<(), Status> {
        let Some(prefix) = self.options.protected_prefix else { return Ok(()) };
        let keys = self.store.lease(lease(id)).map(|state| state.keys).unwrap_or_default();
        self.check_writable(keys.iter().any(|key| key.starts_with(prefix)))
    }

    pub(crate) async fn lease_keep_alive(
        &self,
        mut requests: Receiver<LeaseKeepAliveRequest>,
        sender: Sender<LeaseKeepAliveResponse>,
    ) -> Result<(), Status> {
        while let Some(LeaseKeepAliveRequest { id }) = requests.next().await? {
            self.check_lease(id)?;
            let ttl = match self.store.keep_alive(lease(id)).await {
                Ok(()) => self.store.lease(lease(id)).map_or(0, |state| state.ttl.as_secs() as i64),
                Err(Error::UnknownLease) => 0,
                Err(error) => return Err(status(error)),
            };
            sender.send(&LeaseKeepAliveResponse { header: Some(self.header()), id, ttl }).await?;
        }
        Ok(())
    }

    pub(crate) fn lease_time_to_live(&self, request: &LeaseTimeToLiveRequest) -> LeaseTimeToLiveResponse {
        let found = self.store.lease(lease(request.id));
        let response =
            LeaseTimeToLiveResponse { header: Some(self.header()), id: request.id, ..Default::default() };
        let Some(state) = found else { return LeaseTimeToLiveResponse { ttl: -1, ..response } };
        let keys = state.keys.iter().filter(|_| request.keys).map(|key| keys::bytes(key)).collect();
        LeaseTimeToLiveResponse {
            ttl: state.remaining.as_secs() as i64,
            granted_ttl: state.ttl.as_secs() as i64,
            keys,
            ..response
        }
    }

    pub(crate) fn lease_leases(&self) -> LeaseLeasesResponse {
        let leases = self.store.leases().into_iter().map(|id| LeaseStatus { id: id.0 as i64 }).collect();
        LeaseLeasesResponse { header: Some(self.header()), leases }
    }
}

/// A random positive id.
fn random_id() -> Result<i64, Status> {
    let random =
        getrandom::u64().map_err(|_| Status::internal("etcdserver: no randomness for a lease id"))?;
    Ok(((random & i64::MAX as u64) as i64).max(1))
}
