//! `corten etcd`: etcd's v3 API on the embedded store, in a process of its own; and the listeners that `corten server` opens
//! for it on request.
//!
//! A client of the API reads and writes everything, so a listener is either on TLS with client certificates or on a Unix
//! socket of its owner. `corten etcd` alone also listens without TLS, on loopback addresses only.

mod compatibility;

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use corten_base::ConnectionLimits;
use corten_etcd::listen::Service;
use corten_etcd::{Etcd, Identity, Options};
use corten_store::Store;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, UnixListener, lookup_host};
use tokio::task::JoinSet;

use crate::hardening;
use crate::server::{log_to_stderr, parse_duration};
use crate::stop_signals::StopSignals;

/// The keys of the API server.
const REGISTRY: &str = "/registry/";
/// "Never" for the age at which the store compacts by itself.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

// As with etcd, the last of repeated flags counts.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Name of this member.
    #[arg(long, default_value = "default")]
    name: String,
    /// Directory of the store [default: NAME.etcd].
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// URLs to listen on for clients: https://, unix://, or http:// on a loopback address.
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:2379")]
    listen_client_urls: Vec<String>,
    /// URLs that clients are told to use [default: --listen-client-urls].
    #[arg(long, value_delimiter = ',')]
    advertise_client_urls: Vec<String>,
    /// URLs to serve metrics and health on, without keys: http:// or https://.
    #[arg(long, value_delimiter = ',')]
    listen_metrics_urls: Vec<String>,
    /// File with the server certificate for https:// URLs.
    #[arg(long)]
    cert_file: Option<PathBuf>,
    /// File with the key of the server certificate.
    #[arg(long)]
    key_file: Option<PathBuf>,
    /// File with the CAs of client certificates; required for https:// URLs.
    #[arg(long)]
    trusted_ca_file: Option<PathBuf>,
    /// Require client certificates; https:// URLs always do.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    client_cert_auth: bool,
    /// Maximum number of operations in a transaction.
    #[arg(long, default_value_t = 128)]
    max_txn_ops: usize,
    /// Maximum size of a request in bytes.
    #[arg(long, default_value_t = 1_572_864)]
    max_request_bytes: usize,
    /// Interval of progress notifications to watches that ask for them.
    #[arg(long, alias = "experimental-watch-progress-notify-interval", value_parser = parse_duration, default_value = "10m")]
    watch_progress_notify_interval: Duration,
    /// Size of the store's files in bytes at which writes are refused until the alarm is disarmed; 0 for no limit.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    quota_backend_bytes: i64,
    /// Age at which history is compacted, such as 5m, or a number of hours; 0 leaves that to clients.
    #[arg(long, value_parser = parse_retention, default_value = "0s")]
    auto_compaction_retention: Duration,
    /// Open the store although acknowledged writes are damaged or missing.
    #[arg(long)]
    accept_data_loss: bool,
    #[command(flatten)]
    compatibility: compatibility::Compatibility,
}

/// The flags of `corten server` for etcd's API.
#[derive(clap::Args, Clone)]
pub(crate) struct ServerFlags {
    /// URLs to serve etcd's v3 API on: https:// with client certificates, or unix://. Keys below /registry/ are read only.
    #[arg(long, value_delimiter = ',')]
    etcd_listen_client_urls: Vec<String>,
    /// File with the server certificate for https:// URLs of --etcd-listen-client-urls.
    #[arg(long)]
    etcd_listen_cert_file: Option<PathBuf>,
    /// File with the key of --etcd-listen-cert-file.
    #[arg(long)]
    etcd_listen_key_file: Option<PathBuf>,
    /// File with the CAs of client certificates for https:// URLs of --etcd-listen-client-urls.
    #[arg(long)]
    etcd_listen_trusted_ca_file: Option<PathBuf>,
}

impl ServerFlags {
    /// True if a flag asks for etcd's API.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.etcd_listen_client_urls.is_empty()
    }
}

/// A duration, a number of hours, or 0 for none.
fn parse_retention(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s" | "0m" | "0h") {
        return Ok(Duration::ZERO);
    }
    match text.parse::<u32>() {
        Ok(hours) => Ok(Duration::from_secs(u64::from(hours) * 3600)),
        Err(_) => parse_duration(text),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(serve(args))
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let stop = StopSignals::install()?;
    ensure!(
        args.client_cert_auth,
        "--client-cert-auth=false is not supported: use http:// on a loopback address"
    );
    args.compatibility.check(&args.name)?;
    let data_dir = args.data_dir.clone().unwrap_or_else(|| format!("{}.etcd", args.name).into());
    hardening::prepare_data_directory(&data_dir)?;
    let history =
        if args.auto_compaction_retention.is_zero() { NEVER } else { args.auto_compaction_retention };
    let options = corten_store::Options {
        accept_loss: args.accept_data_loss,
        history,
        first_revision: 1,
        ..corten_store::Options::default()
    };
    let store = Store::open(&data_dir.join("store"), options).context("cannot open the store")?;
    let advertised = if args.advertise_client_urls.is_empty() {
        &args.listen_client_urls
    } else {
        &args.advertise_client_urls
    };
    let options = Options {
        max_txn_ops: args.max_txn_ops,
        max_request_bytes: args.max_request_bytes,
        progress_notify_interval: args.watch_progress_notify_interval,
        quota_bytes: u64::try_from(args.quota_backend_bytes).ok().filter(|quota| *quota > 0),
        protected_prefix: None,
    };
    let etcd = Etcd::new(store.clone(), Identity::new(&args.name, advertised.clone()), options);
    let tls = Tls {
        cert: args.cert_file.as_deref(),
        key: args.key_file.as_deref(),
        ca: args.trusted_ca_file.as_deref(),
    };
    let service = Service::new(&etcd);
    let mut listeners = JoinSet::new();
    listen(&service, &args.listen_client_urls, &tls, Plaintext::Loopback, &mut listeners).await?;
    let metrics = service.for_metrics();
    listen(&metrics, &args.listen_metrics_urls, &tls, Plaintext::Metrics, &mut listeners).await?;
    tracing::info!(urls = %args.listen_client_urls.join(","), "ready to serve client requests");
    let stopped = stop.wait_unless_failed(&store).await;
    tracing::info!("stopping");
    drop(listeners);
    tokio::task::spawn_blocking(|| store.close()).await.context("cannot close the store")?;
    stopped
}

/// Serves etcd's API on the API server's own store, if a flag asks for it. The listeners close when the result is dropped.
/// `client_cas` are those of the API server's clients, who must not become administrators of its store.
pub(crate) async fn serve_beside(
    store: &Store,
    client_cas: &[CertificateDer<'static>],
    flags: &ServerFlags,
) -> anyhow::Result<Option<JoinSet<()>>> {
    if !flags.is_wanted() {
        return Ok(None);
    }
    if let Some(path) = &flags.etcd_listen_trusted_ca_file {
        let is_shared = certificates(path)?.iter().any(|ca| client_cas.contains(ca));
        ensure!(
            !is_shared,
            "--etcd-listen-trusted-ca-file has a CA of the API server's clients, who could all read every Secret; \
             use a CA of its own"
        );
    }
    let identity = Identity::new("corten", flags.etcd_listen_client_urls.clone());
    let options = Options { protected_prefix: Some(REGISTRY), ..Options::default() };
    let etcd = Etcd::new(store.clone(), identity, options);
    let tls = Tls {
        cert: flags.etcd_listen_cert_file.as_deref(),
        key: flags.etcd_listen_key_file.as_deref(),
        ca: flags.etcd_listen_trusted_ca_file.as_deref(),
    };
    let (service, mut listeners) = (Service::new(&etcd), JoinSet::new());
    let listening = listen(&service, &flags.etcd_listen_client_urls, &tls, Plaintext::Never, &mut listeners);
    listening.await.context("cannot serve etcd's API (--etcd-listen-client-urls)")?;
    Ok(Some(listeners))
}

/// The files of TLS.
struct Tls<'a> {
    cert: Option<&'a Path>,
    key: Option<&'a Path>,
    ca: Option<&'a Path>,
}

/// The listeners that may do without TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plaintext {
    Loopback,
    /// Pods in the host's network reach loopback addresses too.
    Never,
    /// Metrics and health are no secrets, and those who collect them are on other machines.
    Metrics,
}

async fn listen(
    service: &Service,
    urls: &[String],
    tls: &Tls<'_>,
    plaintext: Plaintext,
    serving: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    for url in urls {
        let failed = || format!("cannot listen on {url}");
        if let Some(path) = url.strip_prefix("unix://") {
            let listener = bind_unix(Path::new(path)).with_context(failed)?;
            serving.spawn(service.clone().serve_unix(listener));
            continue;
        }
        let (scheme, address) = url.split_once("://").with_context(|| format!("{url} is not a URL"))?;
        let address = resolve(address.trim_end_matches('/')).await.with_context(failed)?;
        let config = match scheme {
            "https" => Some(tls.server_config().with_context(failed)?),
            "http" if plaintext == Plaintext::Never => {
                bail!("{url}: clients need certificates; use https:// or unix://")
            }
            "http" if plaintext != Plaintext::Metrics && !address.ip().is_loopback() => {
                bail!("{url} is not a loopback address: use https:// with --trusted-ca-file")
            }
            "http" => None,
            _ => bail!("{url}: the scheme is http, https or unix"),
        };
        let listener = TcpListener::bind(address).await.with_context(failed)?;
        serving.spawn(service.clone().serve_tcp(listener, limits(address.ip()), config));
    }
    Ok(())
}

/// All clients on the same machine have one address.
fn limits(address: IpAddr) -> ConnectionLimits {
    let limits = ConnectionLimits::of_descriptors(corten_sys::limits::descriptors());
    if address.is_loopback() { ConnectionLimits { per_address: limits.total, ..limits } } else { limits }
}

async fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    lookup_host(address).await?.next().context("the host has no address")
}

/// Binds a socket for its owner only; one that an earlier process left is replaced.
fn bind_unix(path: &Path) -> anyhow::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        bail!("another process listens on {}", path.display());
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => bail!("{} exists and is no socket", path.display()),
        Err(_) => {}
    }
    // The umask of the process makes it private from the start; this holds if another one was set.
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.with_context(|| format!("cannot read certificates in {}", path.display()))
}

impl Tls<'_> {
    fn server_config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let (Some(cert), Some(key), Some(ca)) = (self.cert, self.key, self.ca) else {
            bail!("https:// needs a certificate, its key and the CAs of client certificates");
        };
        let mut roots = RootCertStore::empty();
        for root in certificates(ca)? {
            roots.add(root).with_context(|| format!("invalid CA in {}", ca.display()))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.build().with_context(|| format!("no usable CA in {}", ca.display()))?;
        let key =
            PrivateKeyDer::from_pem_file(key).with_context(|| format!("cannot read {}", key.display()))?;
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_client_cert_verifier(verifier).with_single_cert(certificates(cert)?, key);
        let mut config = config.context("the certificate and its key do not match")?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests;
