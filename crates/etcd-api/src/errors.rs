//! etcd's errors: clients recognize them by these texts.

use corten_grpc::{Code, Status};

/// An error with a constant text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub message: &'static str,
}

impl Error {
    /// True if a status is this error.
    pub fn matches(self, status: &Status) -> bool {
        status.message == self.message
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        Status::new(error.code, error.message)
    }
}

macro_rules! errors {
    ($($name:ident $code:ident $message:literal)*) => {$(
        pub const $name: Error = Error { code: Code::$code, message: $message };
    )*};
}

errors! {
    EMPTY_KEY InvalidArgument "etcdserver: key is not provided"
    KEY_NOT_FOUND InvalidArgument "etcdserver: key not found"
    VALUE_PROVIDED InvalidArgument "etcdserver: value is provided"
    LEASE_PROVIDED InvalidArgument "etcdserver: lease is provided"
    TOO_MANY_OPS InvalidArgument "etcdserver: too many operations in txn request"
    DUPLICATE_KEY InvalidArgument "etcdserver: duplicate key given in txn request"
    INVALID_SORT_OPTION InvalidArgument "etcdserver: invalid sort option"
    REQUEST_TOO_LARGE InvalidArgument "etcdserver: request is too large"
    TOO_MANY_REQUESTS ResourceExhausted "etcdserver: too many requests"

    COMPACTED OutOfRange "etcdserver: mvcc: required revision has been compacted"
    FUTURE_REVISION OutOfRange "etcdserver: mvcc: required revision is a future revision"
    NO_SPACE ResourceExhausted "etcdserver: mvcc: database space exceeded"
    CORRUPT DataLoss "etcdserver: corrupt cluster"

    LEASE_NOT_FOUND NotFound "etcdserver: requested lease not found"
    LEASE_EXISTS FailedPrecondition "etcdserver: lease already exists"
    LEASE_TTL_TOO_LARGE OutOfRange "etcdserver: too large lease TTL"

    MEMBER_NOT_FOUND NotFound "etcdserver: member not found"
    MEMBER_NOT_LEARNER FailedPrecondition "etcdserver: can only promote a learner member"
    MEMBER_NOT_ENOUGH_STARTED FailedPrecondition
        "etcdserver: re-configuration failed due to not enough started members"
    BAD_LEADER_TRANSFEREE FailedPrecondition "etcdserver: bad leader transferee"

    ROOT_USER_NOT_EXIST FailedPrecondition "etcdserver: root user does not exist"
    AUTH_NOT_ENABLED FailedPrecondition "etcdserver: authentication is not enabled"
    PERMISSION_DENIED PermissionDenied "etcdserver: permission denied"

    INVALID_DOWNGRADE_TARGET InvalidArgument "etcdserver: invalid downgrade target version"
    NO_INFLIGHT_DOWNGRADE FailedPrecondition "etcdserver: no inflight downgrade job"

    NO_LEADER Unavailable "etcdserver: no leader"
    LEADER_CHANGED Unavailable "etcdserver: leader changed"
    STOPPED Unavailable "etcdserver: server stopped"
    TIMEOUT Unavailable "etcdserver: request timed out"
    TIMEOUT_LEADER_FAILURE Unavailable "etcdserver: request timed out, possibly due to previous leader failure"
    TIMEOUT_CONNECTION_LOST Unavailable "etcdserver: request timed out, possibly due to connection lost"
    UNHEALTHY Unavailable "etcdserver: unhealthy cluster"
}
