//! Writes all Secrets again, as they are: a server stores a Secret that it would now encrypt in another way anew, and one
//! that is up to date not at all.

use anyhow::{Context, bail};
use corten_api::{Value, meta};
use corten_client::{Client, kinds};

const PAGE: usize = 500;
/// A pass that changes nothing is the last one. Other writers may need one more.
const PASSES: usize = 5;

/// Writes all Secrets until none is stored in an earlier way.
pub(super) async fn all(client: &Client) -> anyhow::Result<()> {
    for _ in 0..PASSES {
        let (seen, changed) = pass(client).await?;
        eprintln!("{seen} Secrets, {changed} written again");
        if changed == 0 {
            return Ok(());
        }
    }
    bail!("Secrets are still written with an earlier key; do all servers use the same configuration?")
}

/// Writes every Secret once. Returns the number of Secrets, and of those that were stored anew.
async fn pass(client: &Client) -> anyhow::Result<(usize, usize)> {
    let (mut seen, mut changed) = (0, 0);
    let mut next = String::new();
    loop {
        let path = format!("/api/v1/secrets?limit={PAGE}{next}");
        let page = client.read(&path).await.context("cannot list Secrets")?;
        for secret in page.items_at(&["items"]) {
            seen += 1;
            changed += usize::from(write(client, secret).await?);
        }
        match page.str_at(&["metadata", "continue"]).filter(|token| !token.is_empty()) {
            Some(token) => next = format!("&continue={token}"),
            None => return Ok((seen, changed)),
        }
    }
}

/// Writes a Secret as it is. True if it was stored anew, by this request or by another one meanwhile.
async fn write(client: &Client, secret: &Value) -> anyhow::Result<bool> {
    match client.update(&kinds::SECRETS, secret, "").await {
        Ok(written) => Ok(meta::resource_version(&written) != meta::resource_version(secret)),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(true),
        Err(error) => {
            let (namespace, name) = (meta::namespace(secret), meta::name(secret));
            Err(error).with_context(|| format!("cannot write Secret {namespace}/{name} again"))
        }
    }
}
