//! The identity of the one member: its name, ids and addresses.

use corten_etcd_api::{Member, ResponseHeader};

/// The version of etcd whose API is served.
pub(crate) const VERSION: &str = "3.7.0";
/// There is one member and no election, so the term never changes.
pub(crate) const TERM: u64 = 2;

/// A member of a cluster of one.
#[derive(Clone, Debug)]
pub struct Identity {
    name: String,
    client_urls: Vec<String>,
    cluster_id: u64,
    member_id: u64,
}

impl Identity {
    /// The ids follow from the name, so they are the same after a restart.
    pub fn new(name: &str, client_urls: Vec<String>) -> Identity {
        Identity {
            name: name.to_owned(),
            client_urls,
            cluster_id: hash(&["corten", "cluster", name]),
            member_id: hash(&["corten", "member", name]),
        }
    }

    pub(crate) fn header(&self, revision: u64) -> ResponseHeader {
        ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision: revision as i64,
            raft_term: TERM,
        }
    }

    pub(crate) fn member_id(&self) -> u64 {
        self.member_id
    }

    pub(crate) fn member(&self) -> Member {
        Member {
            id: self.member_id,
            name: self.name.clone(),
            peer_urls: Vec::new(),
            client_urls: self.client_urls.clone(),
            is_learner: false,
        }
    }
}

/// FNV-1a.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
