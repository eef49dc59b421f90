//! Leases: time to live of keys.

use bytes::Bytes;
use corten_grpc::protobuf::messages;

use crate::ResponseHeader;

messages! {
    pub LeaseGrantRequest { 1 ttl: i64, 2 id: i64 }
    pub LeaseGrantResponse { 1 header: Option<ResponseHeader>, 2 id: i64, 3 ttl: i64, 4 error: String }
    pub LeaseRevokeRequest { 1 id: i64 }
    pub LeaseRevokeResponse { 1 header: Option<ResponseHeader> }
    pub LeaseKeepAliveRequest { 1 id: i64 }
    /// A time to live of 0 means that the lease does not exist.
    pub LeaseKeepAliveResponse { 1 header: Option<ResponseHeader>, 2 id: i64, 3 ttl: i64 }
    pub LeaseTimeToLiveRequest { 1 id: i64, 2 keys: bool }
    /// A time to live of -1 means that the lease does not exist.
    pub LeaseTimeToLiveResponse {
        1 header: Option<ResponseHeader>, 2 id: i64, 3 ttl: i64, 4 granted_ttl: i64, 5 keys: Vec<Bytes>,
    }
    pub LeaseLeasesRequest {}
    pub LeaseStatus { 1 id: i64 }
    pub LeaseLeasesResponse { 1 header: Option<ResponseHeader>, 2 leases: Vec<LeaseStatus> }
}
