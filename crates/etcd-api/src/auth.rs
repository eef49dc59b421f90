//! etcd's own authentication, as far as a server without it responds, and a client needs it to log in.

use corten_grpc::protobuf::messages;

use crate::ResponseHeader;

messages! {
    pub AuthStatusRequest {}
    pub AuthStatusResponse { 1 header: Option<ResponseHeader>, 2 enabled: bool, 3 auth_revision: u64 }
    pub AuthenticateRequest { 1 name: String, 2 password: String }
    pub AuthenticateResponse { 1 header: Option<ResponseHeader>, 2 token: String }
    /// Any other request about users and roles; none of its fields is read.
    pub AuthRequest {}
    pub AuthResponse { 1 header: Option<ResponseHeader> }
}
