//! gRPC's bodies and headers.

pub(crate) fn check(data: &[u8]) {
    corten_grpc::fuzz::body(data);
    corten_grpc::fuzz::header(data);
}
