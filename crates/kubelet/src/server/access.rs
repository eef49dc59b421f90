//! Who asks something of the kubelet, and whether they may: a certificate of the cluster's authority or a token that
//! the API server believes, and then the API server's word on whether they may do this to this node.
//!
//! *Invariant:* who cannot be recognized is never anonymous, and an API server that cannot be asked allows nothing
//! that it did not allow lately.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, value};
use corten_client::{Client, kinds};
use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::machine::Machine;

const AUTHENTICATED: &str = "system:authenticated";
/// How long the API server's consent is remembered.
const CONSENT: Duration = Duration::from_secs(300);

/// Somebody who is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct User {
    pub(super) name: String,
    uid: String,
    groups: Vec<String>,
}

/// What a connection's certificate proves.
#[derive(Debug)]
pub(super) enum Peer {
    Nobody,
    Unproven,
    Certified { user: User, until: Timestamp },
}

/// What somebody wants to do to the node: one of these must be allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wish {
    user: User,
    verb: &'static str,
    subresource: &'static str,
}

/// Why somebody is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unknown,
    Forbidden(String),
}

pub(super) struct Access {
    client: Client,
    node: String,
    clock: corten_base::Clock,
    clients: Arc<dyn ClientCertVerifier>,
    consents: Mutex<HashMap<Wish, Timestamp>>,
}

impl Access {
    pub(super) fn new(machine: &Machine, clients: Arc<dyn ClientCertVerifier>) -> Access {
        Access {
            client: machine.client.clone(),
            node: machine.config.node_name.clone(),
            clock: machine.clock.clone(),
            clients,
            consents: Mutex::default(),
        }
    }

    /// Who is at the other end of a connection.
    pub(super) fn peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some((leaf, rest)) = certificates.and_then(|c| c.split_first()) else { return Peer::Nobody };
        let Ok(identity) = corten_pki::identity_of(leaf) else { return Peer::Unproven };
        let proven = self.clients.verify_client_cert(leaf, rest, UnixTime::now()).is_ok();
        if !proven || identity.common_name.is_empty() {
            return Peer::Unproven;
        }
        let mut groups = identity.organizations;
        groups.push(AUTHENTICATED.to_owned());
        let user = User { name: identity.common_name, uid: identity.uid.unwrap_or_default(), groups };
        Peer::Certified { user, until: identity.not_after.try_into().unwrap_or(Timestamp::MIN) }
    }

    /// Lets a request pass, or says why not.
    pub(super) async fn pass(
        &self,
        peer: &Peer,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let user = self.authenticate(peer, headers).await.ok_or(Refusal::Unknown)?;
        let verb = verb(method);
        let subresources = subresources(path);
        for subresource in &subresources {
            if self.may(Wish { user: user.clone(), verb, subresource }).await {
                return Ok(());
            }
        }
        let asked = subresources.join(" ");
        Err(Refusal::Forbidden(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{asked}])\n",
            user.name
        )))
    }

    async fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Option<User> {
        if let Peer::Certified { user, until } = peer
            && self.clock.now() < *until
        {
            return Some(user.clone());
        }
        let header = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let token = header.strip_prefix("Bearer ")?.trim();
        let review = value!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": (token)},
        });
        let review = self.client.create(&kinds::TOKEN_REVIEWS, &review).await.ok()?;
        if review.bool_at(&["status", "authenticated"]) != Some(true) {
            return None;
        }
        let text = |key: &str| review.str_at(&["status", "user", key]).unwrap_or_default().to_owned();
        let groups = review.items_at(&["status", "user", "groups"]).iter();
        Some(User {
            name: text("username"),
            uid: text("uid"),
            groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    async fn may(&self, wish: Wish) -> bool {
        let now = self.clock.now();
        if self.consents.lock().get(&wish).is_some_and(|until| now < *until) {
            return true;
        }
        let User { name, uid, groups } = &wish.user;
        let groups: Vec<Value> = groups.iter().map(|group| Value::from(group.as_str())).collect();
        let review = value!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": (name.as_str()), "uid": (uid.as_str()), "groups": (groups),
                "resourceAttributes": {
                    "verb": (wish.verb), "version": "v1", "resource": "nodes", "subresource": (wish.subresource),
                    "name": (self.node.as_str()),
                },
            },
        });
        let allowed = match self.client.create(&kinds::SUBJECT_ACCESS_REVIEWS, &review).await {
            Ok(review) => review.bool_at(&["status", "allowed"]) == Some(true),
            Err(error) => {
                tracing::warn!(%error, "the API server could not be asked who may");
                false
            }
        };
        if allowed {
            let mut consents = self.consents.lock();
            consents.retain(|_, until| now < *until);
            consents.insert(wish, now + CONSENT);
        }
        allowed
    }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// What of the node a path is about: the finer name first.
fn subresources(path: &str) -> Vec<&'static str> {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "pods" | "runningpods" => vec!["pods", "proxy"],
        "healthz" => vec!["healthz", "proxy"],
        "configz" => vec!["configz", "proxy"],
        "stats" => vec!["stats"],
        "metrics" => vec!["metrics"],
        "logs" => vec!["log"],
        "checkpoint" => vec!["checkpoint"],
        "statusz" => vec!["statusz"],
        "flagz" => vec!["configz"],
        _ => vec!["proxy"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_about_parts_of_the_node() {
        assert_eq!(subresources("/containerLogs/a/b/c"), ["proxy"]);
        assert_eq!(subresources("/exec/a/b/c"), ["proxy"]);
        assert_eq!(subresources("/pods"), ["pods", "proxy"]);
        assert_eq!(subresources("/metrics/cadvisor"), ["metrics"]);
        assert_eq!(subresources("/statsomething"), ["proxy"]);
    }
}
