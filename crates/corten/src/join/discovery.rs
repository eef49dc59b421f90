//! Discovery of the cluster's CA from the public `cluster-info`, which is signed with the bootstrap token. The connection is
//! not verified; only the signature and the CA's fingerprint are trusted.

use std::sync::Arc;

use anyhow::Context;
use corten_auth::authentication::bootstrap_token::sign;
use corten_client::Remote;
use corten_pki::{Credentials, authority_in_kubeconfig};

use super::Invitation;

const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

/// The server is not the cluster of the token: a retry is useless.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("{0} does not know this token; create a new one with `corten token create`")]
    UnknownToken(String),
    #[error(
        "{0} is not the cluster of this token: its cluster-info is not signed with the token; check --server"
    )]
    Signature(String),
    #[error("{0} is not the cluster of this token: its CA has another fingerprint; check --server")]
    Authority(String),
}

/// Returns credentials for the server with the bootstrap token.
pub(super) async fn discover(server: &str, invitation: &Invitation) -> anyhow::Result<Credentials> {
    let unverified = Remote::unchecked(server).context("--server")?;
    let found = corten_client::Client::new(Arc::new(unverified), super::AGENT).read(PATH).await;
    let map = found.with_context(|| format!("cannot read cluster-info of {server}"))?;
    let text = map.str_at(&["data", "kubeconfig"]).unwrap_or_default();
    let signature = map.str_at(&["data", &format!("jws-kubeconfig-{}", invitation.id())]);
    let signature = signature.ok_or_else(|| Refused::UnknownToken(server.to_owned()))?;
    if signature != sign(text, invitation.id(), invitation.secret()) {
        return Err(Refused::Signature(server.to_owned()).into());
    }
    let ca_pem = authority_in_kubeconfig(text).context("cannot parse cluster-info")?;
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
