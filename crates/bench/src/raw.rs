//! The upper bounds of this machine, to compare a server with: durable appends, and responses over TLS from a server that
//! does nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use corten_pki::{KubeconfigNames, Sans, ServerPki, write_kubeconfig};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::http::{Target, write_request};
use crate::load::{self, Job, microseconds, percentile};
use crate::process::ServerProcess;
use crate::report::Report;

const SMALL: usize = 2 * 1024;
const BULK: usize = 32 * 1024 * 1024;
const PIECE: usize = 64 * 1024;
const APPENDS: usize = 5_000;
const APPEND_LIMIT: Duration = Duration::from_secs(2);

/// The load on the raw server.
#[derive(Clone, Copy)]
pub(crate) struct RawPlan {
    pub(crate) connections: usize,
    pub(crate) gets: usize,
    pub(crate) bulks: usize,
}

/// A bare server: responds to every request with 2 KB, and to `/bulk` with 32 MB, over mutual TLS.
///
/// Writes `DIR/kubeconfig` when it is listening, and runs until the process ends. The benchmark starts it as
/// `corten bench raw-server DIR`, in a process of its own as the real server is.
pub async fn raw_server(dir: &Path) -> anyhow::Result<()> {
    let sans = Sans::apiserver(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let pki = ServerPki::load_or_create(&dir.join("pki"), &sans, SystemTime::now())?;
    let mut roots = RootCertStore::empty();
    for ca in &pki.client_ca {
        roots.add(ca.clone())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(pki.serving_chain.clone(), pki.serving_key.clone_key())?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("https://{}", listener.local_addr()?);
    write_kubeconfig(&dir.join("kubeconfig"), &pki.admin_credentials(&url), KubeconfigNames::default())?;
    loop {
        let (stream, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        // A client that disconnects is no error of the server.
        tokio::spawn(async move { serve(acceptor, stream).await.ok() });
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let head = |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    let mut small = head(SMALL);
    small.resize(small.len() + SMALL, b'x');
    let piece = vec![b'x'; PIECE];
    let mut request = Vec::with_capacity(1024);
    loop {
        request.clear();
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        if request.starts_with(b"GET /bulk ") {
            stream.write_all(&head(BULK)).await?;
            for _ in 0..BULK / PIECE {
                stream.write_all(&piece).await?;
            }
        } else {
            stream.write_all(&small).await?;
        }
        stream.flush().await?;
    }
}

/// Starts a raw server in a process of its own and measures it.
pub(crate) async fn measure_http(
    binary: &Path,
    dir: &Path,
    plan: RawPlan,
    report: &mut Report,
) -> anyhow::Result<()> {
    let arguments: Vec<OsString> = vec!["bench".into(), "raw-server".into(), dir.into()];
    let log = dir.join("raw-server.log");
    let server = ServerProcess::start(binary, &arguments, &dir.join("kubeconfig"), "/", &log)
        .await
        .context("cannot start the raw server")?;
    measure_target(&server.target, plan, report).await?;
    server.stop().await?;
    Ok(())
}

pub(crate) async fn measure_target(
    target: &Arc<Target>,
    plan: RawPlan,
    report: &mut Report,
) -> anyhow::Result<()> {
    let get = |path: &'static str, connections, total| {
        let mut request = Vec::new();
        write_request(&mut request, &target.host, "GET", format_args!("{path}"), None);
        let request = Box::new(move |_, out: &mut Vec<u8>| out.extend_from_slice(&request));
        load::run(target, Job { connections, total, request, observe: None })
    };
    let small = get("/", plan.connections, plan.gets).await?;
    report
        .phase("raw")
        .set("http_per_s", small.per_second())
        .set("http_p50_ms", small.latency_ms(0.5))
        .set("http_p99_ms", small.latency_ms(0.99));
    let bulk = get("/bulk", 1, plan.bulks).await?;
    report.phase("raw").set("bulk_mb_per_s", bulk.bytes as f64 / 1e6 / bulk.seconds.max(1e-9));
    report.phase("raw").set("errors", (small.errors + bulk.errors) as f64);
    report.phase("raw").set_first_error(small.first_error.or(bulk.first_error));
    Ok(())
}

/// Appends 4 KB blocks to a file in `dir`, each made durable before the next.
pub(crate) async fn measure_appends(dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    let path = dir.join("appends");
    let (mut latencies, seconds) = tokio::task::spawn_blocking(move || append(&path)).await??;
    latencies.sort_unstable();
    report
        .phase("raw")
        .set("fsync_per_s", latencies.len() as f64 / seconds)
        .set("fsync_p50_ms", percentile(&latencies, 0.5) / 1e3)
        .set("fsync_p99_ms", percentile(&latencies, 0.99) / 1e3);
    Ok(())
}

fn append(path: &Path) -> anyhow::Result<(Vec<u32>, f64)> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let block = [b'x'; 4096];
    let mut latencies = Vec::with_capacity(APPENDS);
    let started = Instant::now();
    for index in 0..APPENDS {
        let begun = Instant::now();
        file.write_all_at(&block, (index * block.len()) as u64)?;
        file.sync_data()?;
        latencies.push(microseconds(begun.elapsed()));
        if started.elapsed() > APPEND_LIMIT {
            break;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok((latencies, seconds))
}
