//! `corten bench apiserver --etcd`: the same phases with etcd as the datastore, and then with upstream's server, on an etcd of
//! its own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use super::{ApiserverOptions, Session, log_path, run_phases, start_server};
use crate::crd::{Etcd, Upstream};
use crate::process::{self, ServerProcess};
use crate::report::Report;

pub(super) async fn measure(
    options: &ApiserverOptions,
    etcd: &Path,
    binary: &Path,
    dir: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    let own = dir.join("own");
    fs::create_dir(&own)?;
    let (member, url) = Etcd::start(etcd, &own)?;
    let server = start_server(binary, &own, &["--etcd-servers", &url]).await?;
    run(options, server, &own, report).await?;
    drop(member);
    let Some(kube_apiserver) = &options.kube_apiserver else { return Ok(()) };
    let (theirs, mut measured) = (dir.join("upstream"), Report::default());
    fs::create_dir(&theirs)?;
    let upstream = Upstream { kube_apiserver: kube_apiserver.clone(), etcd: etcd.to_owned() };
    let server = upstream.start(&theirs).await?;
    let outcome = run(options, server.process, &theirs, &mut measured).await;
    report.append("upstream", measured);
    outcome
}

async fn run(
    options: &ApiserverOptions,
    server: ServerProcess,
    dir: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.phase("start").set("ready_ms", server.ready_after.as_secs_f64() * 1e3);
    let target = Arc::clone(&server.target);
    let mut session = Session { options: options.clone(), target, pid: server.pid, report };
    run_phases(&mut session).await.with_context(|| process::tail(&log_path(dir)))?;
    server.stop().await?;
    Ok(())
}
