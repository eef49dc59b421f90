//! The replacement of the cluster's CA: begin, switch, finish (`pki::rollover`), each only when the step before is in force
//! everywhere.
//!
//! A step is in force when the server publishes its CAs in `cluster-info`, and every node has acknowledged them in an
//! annotation of its Node. *Invariant:* without that, no CA is used or distrusted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use corten_base::Clock;
use corten_client::{Client, Key, Remote, kinds};
use corten_pki::{
    RolloverStage, authority_in_kubeconfig, begin_rollover, finish_rollover, switch_authority,
    trusted_authorities,
};

use super::{Args, now};
use crate::join::fingerprint;
use crate::server::AUTHORITIES_ANNOTATION;

const POLL: Duration = Duration::from_millis(500);

pub(super) async fn run(args: &Args, directory: &Path) -> anyhow::Result<()> {
    let session = Session { args, directory, clock: Clock::real() };
    session.refuse_others().await?;
    if RolloverStage::of(directory)? == RolloverStage::Settled {
        begin_rollover(directory, now())?;
        println!("created the next CA");
    }
    if RolloverStage::of(directory)? == RolloverStage::Trusted {
        session.await_everywhere().await.context("the next CA is not trusted everywhere")?;
        switch_authority(directory)?;
        println!("the next CA is trusted everywhere and signs from now on");
    }
    session.await_everywhere().await.context("the new CA is not in use everywhere")?;
    finish_rollover(directory)?;
    session.await_everywhere().await.context("the earlier CA is still trusted")?;
    println!("the earlier CA is not trusted any more; copies of the administrator's kubeconfig are invalid");
    Ok(())
}

struct Session<'a> {
    args: &'a Args,
    directory: &'a Path,
    clock: Clock,
}

impl Session<'_> {
    /// A client with the current kubeconfig, which changes with each step.
    fn client(&self) -> anyhow::Result<Client> {
        let credentials = self.args.admin.credentials()?;
        let remote =
            Remote::new(&credentials).with_context(|| format!("cannot connect to {}", credentials.server))?;
        Ok(Client::new(Arc::new(remote), "corten"))
    }

    /// Fails if a node or a server of the cluster does not follow the CAs of this one.
    async fn refuse_others(&self) -> anyhow::Result<()> {
        let client = self.client()?;
        let nodes = client.list(&kinds::NODES, "").await.context("cannot list nodes")?;
        let others: Vec<&str> = nodes
            .items_at(&["items"])
            .iter()
            .filter(|node| node.str_at(&["metadata", "annotations", AUTHORITIES_ANNOTATION]).is_none())
            .filter_map(|node| node.str_at(&["metadata", "name"]))
            .collect();
        ensure!(
            others.is_empty(),
            "these nodes do not follow a change of the CA: {}. Only the node of `corten server` does",
            others.join(", ")
        );
        let slice = client.get(&kinds::ENDPOINT_SLICES, &Key::new("default", "kubernetes")).await;
        let servers: usize = match slice {
            Err(error) if error.is_not_found() => 1,
            slice => slice
                .context("cannot read the servers of the cluster")?
                .items_at(&["endpoints"])
                .iter()
                .map(|endpoint| endpoint.items_at(&["addresses"]).len())
                .sum(),
        };
        ensure!(servers < 2, "the cluster has several servers, which would not follow a change of the CA");
        Ok(())
    }

    /// Waits until the server and all nodes use the CAs of the directory.
    async fn await_everywhere(&self) -> anyhow::Result<()> {
        let mut missing = String::new();
        let everywhere = async {
            loop {
                match self.missing().await {
                    Ok(None) => return,
                    Ok(Some(what)) => missing = what,
                    Err(error) => missing = format!("{error:#}"),
                }
                self.clock.sleep(POLL).await;
            }
        };
        match self.clock.timeout(self.args.timeout, everywhere).await {
            Some(()) => Ok(()),
            None => bail!("{missing}; run the command again to continue"),
        }
    }

    /// The part of the cluster that does not use the CAs of the directory yet.
    async fn missing(&self) -> anyhow::Result<Option<String>> {
        let wanted = trusted_authorities(self.directory)?;
        let client = self.client()?;
        let info = client.get(&kinds::CONFIG_MAPS, &Key::new("kube-public", "cluster-info")).await;
        let info = info.context("cannot read cluster-info")?;
        let text = info.str_at(&["data", "kubeconfig"]).unwrap_or_default();
        if authority_in_kubeconfig(text)? != wanted {
            return Ok(Some("the server has not published the CAs".to_owned()));
        }
        let wanted = fingerprint(&wanted);
        let nodes = client.list(&kinds::NODES, "").await.context("cannot list nodes")?;
        let behind = nodes.items_at(&["items"]).iter().find(|node| {
            node.str_at(&["metadata", "annotations", AUTHORITIES_ANNOTATION]) != Some(wanted.as_str())
        });
        Ok(behind.map(|node| {
            let name = node.str_at(&["metadata", "name"]).unwrap_or_default();
            format!("node {name} does not use the CAs")
        }))
    }
}
