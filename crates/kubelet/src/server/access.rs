//! Authentication and authorization of requests: a client certificate of the cluster's authority or a token that the
//! API server accepts, and then the API server's decision whether the user may do this to the node.
//!
//! *Invariant:* a request with invalid credentials is never anonymous, and while the API server cannot be reached
//! only what it allowed lately is allowed.

use std::collections::HashMap;

use corten_api::{Value, value};
use corten_client::{Client, kinds};
use corten_pki::LiveAuthorities;
use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};

use super::Trust;
use crate::kubelet::Kubelet;

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// An authenticated user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct User {
    pub(super) name: String,
    uid: String,
    groups: Vec<String>,
}

/// The result of verifying a connection's client certificate.
#[derive(Debug)]
pub(super) enum Peer {
    NoCertificate,
    Unproven,
    Certified { user: User, until: Timestamp },
}

/// A request for access to the node: one of its subresources must be allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AccessRequest {
    user: User,
    verb: &'static str,
    subresource: &'static str,
}

/// The reason for which a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    Unknown,
    Forbidden(String),
}

pub(super) struct Access {
    client: Client,
    node: String,
    clock: corten_base::Clock,
    clients: Option<LiveAuthorities>,
    trust: Trust,
    answers: Mutex<HashMap<AccessRequest, Remembered<bool>>>,
    tokens: Mutex<HashMap<[u8; 32], Remembered<Option<User>>>>,
}

/// A cached decision of the API server, and its expiry.
struct Remembered<T> {
    said: T,
    until: Timestamp,
}

impl Access {
    pub(super) fn new(kubelet: &Kubelet, clients: Option<LiveAuthorities>, trust: Trust) -> Access {
        Access {
            client: kubelet.api.client.clone(),
            node: kubelet.api.node_name.clone(),
            clock: kubelet.clock.clone(),
            clients,
            trust,
            answers: Mutex::default(),
            tokens: Mutex::default(),
        }
    }

    /// Verifies the client certificate of a connection.
    pub(super) fn peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some((leaf, rest)) = certificates.and_then(|c| c.split_first()) else {
            return Peer::NoCertificate;
        };
        let Ok(identity) = corten_pki::identity_of(leaf) else { return Peer::Unproven };
        let verified =
            |clients: &LiveAuthorities| clients.verify_client_cert(leaf, rest, UnixTime::now()).is_ok();
        let proven = self.clients.as_ref().is_some_and(verified);
        if !proven || identity.common_name.is_empty() {
            return Peer::Unproven;
        }
        let mut groups = identity.organizations;
        groups.push(AUTHENTICATED.to_owned());
        let user = User { name: identity.common_name, uid: identity.uid.unwrap_or_default(), groups };
        Peer::Certified { user, until: identity.not_after.try_into().unwrap_or(Timestamp::MIN) }
    }

    /// Authenticates and authorizes a request.
    pub(super) async fn pass(
        &self,
        peer: &Peer,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Rejection> {
        let user = self.authenticate(peer, headers).await.ok_or(Rejection::Unknown)?;
        let verb = verb(method);
        let subresources = subresources(path);
        for subresource in &subresources {
            if self.authorize(AccessRequest { user: user.clone(), verb, subresource }).await {
                return Ok(());
            }
        }
        let asked = subresources.join(" ");
        Err(Rejection::Forbidden(format!(
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
        let header = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
        match header.and_then(|text| text.strip_prefix("Bearer ")) {
            Some(token) => self.token_user(token.trim()).await,
            None if self.trust.anonymous && matches!(peer, Peer::NoCertificate) => Some(User {
                name: ANONYMOUS.to_owned(),
                uid: String::new(),
                groups: vec![UNAUTHENTICATED.to_owned()],
            }),
            None => None,
        }
    }

    /// The user of a token, as the API server reviews it.
    async fn token_user(&self, token: &str) -> Option<User> {
        let lasts = self.trust.tokens?;
        let now = self.clock.now();
        // The cache holds hashes of tokens, not the tokens.
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.tokens.lock().get(&digest).filter(|known| now < known.until) {
            return known.said.clone();
        }
        let review = value!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": (token)},
        });
        let review = self.client.create(&kinds::TOKEN_REVIEWS, &review).await.ok()?;
        let user = (review.bool_at(&["status", "authenticated"]) == Some(true)).then(|| user_of(&review));
        let mut tokens = self.tokens.lock();
        tokens.retain(|_, known| now < known.until);
        tokens.insert(digest, Remembered { said: user.clone(), until: now + lasts });
        user
    }

    async fn authorize(&self, access: AccessRequest) -> bool {
        if !self.trust.reviews {
            return true;
        }
        let now = self.clock.now();
        if let Some(known) = self.answers.lock().get(&access).filter(|known| now < known.until) {
            return known.said;
        }
        let allowed = match self.client.create(&kinds::SUBJECT_ACCESS_REVIEWS, &self.review(&access)).await {
            Ok(review) => review.bool_at(&["status", "allowed"]) == Some(true),
            Err(err) => {
                tracing::warn!(%err, "authorization webhook request failed");
                return false;
            }
        };
        let lasts = if allowed { self.trust.consent } else { self.trust.refusal };
        let mut answers = self.answers.lock();
        answers.retain(|_, known| now < known.until);
        answers.insert(access, Remembered { said: allowed, until: now + lasts });
        allowed
    }

    /// The SubjectAccessReview of a request.
    fn review(&self, access: &AccessRequest) -> Value {
        let User { name, uid, groups } = &access.user;
        let groups: Vec<Value> = groups.iter().map(|group| Value::from(group.as_str())).collect();
        value!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": (name.as_str()), "uid": (uid.as_str()), "groups": (groups),
                "resourceAttributes": {
                    "verb": (access.verb), "version": "v1", "resource": "nodes", "subresource": (access.subresource),
                    "name": (self.node.as_str()),
                },
            },
        })
    }
}

/// The user of a TokenReview.
fn user_of(review: &Value) -> User {
    let text = |key: &str| review.str_at(&["status", "user", key]).unwrap_or_default().to_owned();
    let groups = review.items_at(&["status", "user", "groups"]).iter();
    User {
        name: text("username"),
        uid: text("uid"),
        groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
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

/// The node's subresources of a path, the most specific first.
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
    fn paths_have_subresources_of_the_node() {
        assert_eq!(subresources("/containerLogs/a/b/c"), ["proxy"]);
        assert_eq!(subresources("/exec/a/b/c"), ["proxy"]);
        assert_eq!(subresources("/pods"), ["pods", "proxy"]);
        assert_eq!(subresources("/metrics/cadvisor"), ["metrics"]);
        assert_eq!(subresources("/statsomething"), ["proxy"]);
    }
}
