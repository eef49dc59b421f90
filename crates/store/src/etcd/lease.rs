//! Leases, which etcd keeps.

use std::time::Duration;

use corten_etcd_api::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, methods,
};
use corten_grpc::Status;

use super::{
    Etcd, number,
    rpc::{call_options, failure, revision},
    unsigned,
};
use crate::{Error, LeaseId};

impl Etcd {
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        self.check_open()?;
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let request = LeaseGrantRequest { ttl: number(seconds.max(1)), id: 0 };
        let response: LeaseGrantResponse =
            self.write(methods::LEASE_GRANT, &request).await.map_err(failure)?;
        Ok(LeaseId(unsigned(response.id)))
    }

    pub(crate) async fn keep_alive(&self, id: LeaseId) -> Result<(), Error> {
        self.check_open()?;
        let (sender, mut receiver) = self.channel.streaming::<_, LeaseKeepAliveResponse>(
            methods::LEASE_KEEP_ALIVE,
            call_options(Some(self.timeout)),
        );
        let request = LeaseKeepAliveRequest { id: number(id.0) };
        let (sent, response) = tokio::join!(sender.send(&request), receiver.next());
        sent.map_err(failure)?;
        match response.map_err(failure)? {
            Some(response) if response.ttl > 0 => Ok(()),
            Some(_) => Err(Error::UnknownLease),
            None => Err(failure(Status::unavailable("the lease was not renewed"))),
        }
    }

    /// The time until a lease expires; `None` if there is no such lease.
    pub(crate) async fn remaining(&self, id: LeaseId) -> Result<Option<Duration>, Error> {
        self.check_open()?;
        let request = LeaseTimeToLiveRequest { id: number(id.0), keys: false };
        let response: LeaseTimeToLiveResponse =
            self.read(methods::LEASE_TIME_TO_LIVE, &request).await.map_err(failure)?;
        Ok((response.ttl > 0).then(|| Duration::from_secs(unsigned(response.ttl))))
    }

    pub(crate) async fn revoke(&self, id: LeaseId) -> Result<(), Error> {
        self.check_open()?;
        let request = LeaseRevokeRequest { id: number(id.0) };
        let response: LeaseRevokeResponse =
            self.write(methods::LEASE_REVOKE, &request).await.map_err(failure)?;
        self.reach(revision(response.header.as_ref())?).await
    }
}
