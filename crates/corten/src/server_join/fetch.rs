//! Fetches the cluster's keys from a server of the cluster, with a server token.

use std::time::Duration;

use anyhow::{Context, bail};
use corten_apiserver::SERVER_JOIN;
use corten_base::Backoff;
use corten_client::{Remote, Transport};
use corten_pki::Credentials;
use http::{Request, StatusCode};
use hyper::body::Bytes;

use super::exchange::Asked;
use super::material::Material;
use super::token::ServerToken;
use crate::join::fingerprint;

const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(10) };
const TIMEOUT: Duration = Duration::from_secs(30);

/// The server refuses, or is not of the token's cluster: a retry is useless.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0} is not the cluster of this token: its CA has another fingerprint; check --server")]
    Authority(String),
    #[error("{server} refused this machine: {reason}")]
    Token { server: String, reason: String },
}

/// Returns the cluster's keys. Keeps trying until the server responds.
pub(super) async fn fetch(server: &str, token: &ServerToken) -> anyhow::Result<Material> {
    let mut failures = 0;
    loop {
        let attempt = tokio::time::timeout(TIMEOUT, attempt(server, token)).await;
        let error = match attempt.unwrap_or_else(|_| Err(anyhow::anyhow!("the server does not respond"))) {
            Ok(material) => return Ok(material),
            Err(error) if error.is::<Refused>() => return Err(error),
            Err(error) => error,
        };
        failures += 1;
        let (err, backoff) = (format!("{error:#}"), RETRY.delay(failures));
        tracing::warn!(server, err, ?backoff, "cannot join the cluster; retrying");
        tokio::time::sleep(backoff).await;
    }
}

async fn attempt(server: &str, token: &ServerToken) -> anyhow::Result<Material> {
    let unverified = Remote::unchecked(server).context("--server")?;
    let (status, body) = call(&unverified, "GET", Vec::new()).await?;
    if status != StatusCode::OK {
        bail!("{server} does not let servers join ({status})");
    }
    let ca_pem = String::from_utf8(body.into()).context("the server's CA is not a text")?;
    if fingerprint(&ca_pem) != token.fingerprint() {
        return Err(Refused::Authority(server.to_owned()).into());
    }
    let credentials = Credentials {
        server: server.to_owned(),
        ca_pem,
        cert_pem: String::new(),
        key_pem: String::new(),
        token: None,
    };
    let verified = Remote::new(&credentials).context("cannot use the server's CA")?;
    let asked = Asked::new(token.clone())?;
    let (status, body) = call(&verified, "POST", asked.body()).await?;
    match status {
        StatusCode::OK => Material::from_json(&asked.open(&body)?),
        StatusCode::FORBIDDEN => {
            let reason = String::from_utf8_lossy(&body).trim().to_owned();
            Err(Refused::Token { server: server.to_owned(), reason }.into())
        }
        status => bail!("{server} responded with {status}"),
    }
}

async fn call(remote: &Remote, method: &str, body: Vec<u8>) -> anyhow::Result<(StatusCode, Bytes)> {
    let request = Request::builder().method(method).uri(SERVER_JOIN).body(Bytes::from(body))?;
    let response = remote.limited().call(request).await?;
    Ok((response.status(), response.into_body()))
}
