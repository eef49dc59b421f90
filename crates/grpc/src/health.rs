//! The protocol `grpc.health.v1`: its messages.

use crate::protobuf::{enumerations, messages};

/// The method that returns the status of a service.
pub const CHECK: &str = "/grpc.health.v1.Health/Check";
/// The method that streams it.
pub const WATCH: &str = "/grpc.health.v1.Health/Watch";

messages! {
    pub HealthCheckRequest { 1 service: String }
    pub HealthCheckResponse { 1 status: ServingStatus }
}

enumerations! {
    pub ServingStatus { 0 Unknown, 1 Serving, 2 NotServing, 3 ServiceUnknown }
}
