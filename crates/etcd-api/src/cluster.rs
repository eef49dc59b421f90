//! Members of a cluster.

use corten_grpc::protobuf::messages;

use crate::ResponseHeader;

messages! {
    pub Member { 1 id: u64, 2 name: String, 3 peer_urls: Vec<String>, 4 client_urls: Vec<String>, 5 is_learner: bool }
    pub MemberAddRequest { 1 peer_urls: Vec<String>, 2 is_learner: bool }
    pub MemberAddResponse { 1 header: Option<ResponseHeader>, 2 member: Option<Member>, 3 members: Vec<Member> }
    pub MemberRemoveRequest { 1 id: u64 }
    pub MemberUpdateRequest { 1 id: u64, 2 peer_urls: Vec<String> }
    pub MemberPromoteRequest { 1 id: u64 }
    pub MemberListRequest { 1 linearizable: bool }
    /// The response to the list, removal, update and promotion of members.
    pub MemberListResponse { 1 header: Option<ResponseHeader>, 2 members: Vec<Member> }
}
