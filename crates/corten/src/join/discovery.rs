//! Finds out who the cluster is, before anything is known of it: from what it says of itself to everybody, which only who
//! knows the token can have signed.

use std::sync::Arc;

use anyhow::Context;
use corten_auth::authentication::bootstrap_token::sign;
use corten_client::Remote;
use corten_pki::{Credentials, authority_in_kubeconfig};

use super::Invitation;

const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

/// The cluster is not who the invitation is from: trying again is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("{0} does not know this token; `corten token create` makes a new one")]
    UnknownToken(String),
    #[error(
        "{0} is not the cluster that this token is from: what it says of itself is not signed by the token"
    )]
    Signature(String),
    #[error("{0} is not the cluster that this token is from: its certificate authority is another")]
    Authority(String),
}

/// The way to the server in the token's name.
pub(super) async fn discover(server: &str, invitation: &Invitation) -> anyhow::Result<Credentials> {
    let anybody = Remote::unchecked(server).context("--server")?;
    let found = corten_client::Client::new(Arc::new(anybody), super::AGENT).read(PATH).await;
    let map = found.with_context(|| format!("asking {server} who it is"))?;
    let text = map.str_at(&["data", "kubeconfig"]).unwrap_or_default();
    let signature = map.str_at(&["data", &format!("jws-kubeconfig-{}", invitation.id())]);
    let signature = signature.ok_or_else(|| Refused::UnknownToken(server.to_owned()))?;
    if signature != sign(text, invitation.id(), invitation.secret()) {
        return Err(Refused::Signature(server.to_owned()).into());
    }
    let ca_pem = authority_in_kubeconfig(text).context("reading what the cluster says of itself")?;
    if !invitation.admits(&ca_pem) {
        return Err(Refused::Authority(server.to_owned()).into());
    }
    Ok(Credentials {
        server: server.to_owned(),
        ca_pem,
        cert_pem: String::new(),
        key_pem: String::new(),
        token: Some(invitation.bearer()),
    })
}
