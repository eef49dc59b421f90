//! Tests of the listeners: which URLs are accepted, and which clients.

use std::fs;
use std::time::SystemTime;

use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::*;

const NO_TLS: Tls<'_> = Tls { cert: None, key: None, ca: None };
const DEADLINE: Duration = Duration::from_secs(30);
const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

struct Fixture {
    directory: tempfile::TempDir,
    etcd: Arc<Etcd>,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store"), corten_store::Options::default()).unwrap();
    let etcd = Etcd::new(store, Identity::new("test", Vec::new()), Options::default());
    Fixture { directory, etcd }
}

impl Fixture {
    async fn listen(&self, url: &str, tls: &Tls<'_>, plaintext: Plaintext) -> Result<JoinSet<()>, String> {
        let mut serving = JoinSet::new();
        let listening =
            listen(&Service::new(&self.etcd), &[url.to_owned()], tls, plaintext, &mut serving).await;
        listening.map(|()| serving).map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn the_defaults_of_all_flags_are_valid() {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }
    let parse = |flags: &[&str]| {
        let words = ["etcd"].into_iter().chain(flags.iter().copied());
        <Command as clap::Parser>::try_parse_from(words).map(|command| command.args.auto_compaction_retention)
    };
    assert_eq!(parse(&[]).unwrap(), Duration::ZERO);
    assert_eq!(parse(&["--auto-compaction-retention", "0"]).unwrap(), Duration::ZERO);
    assert_eq!(parse(&["--auto-compaction-retention", "5m"]).unwrap(), Duration::from_secs(300));
    assert_eq!(parse(&["--auto-compaction-retention", "2"]).unwrap(), Duration::from_secs(7200));
    assert!(parse(&["--auto-compaction-retention", "-1s"]).is_err());
    assert!(parse(&["--auto-compaction-mode", "revision"]).is_err());
}

#[test]
fn the_flags_of_launchers_are_accepted_for_one_member() {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }
    let check = |members: &str| {
        // As kubeadm starts etcd.
        let words = [
            "etcd",
            "--advertise-client-urls=https://192.0.2.1:2379",
            "--cert-file=a",
            "--client-cert-auth=true",
            "--data-dir=d",
            "--feature-gates=InitialCorruptCheck=true",
            "--initial-advertise-peer-urls=https://192.0.2.1:2380",
            "--key-file=k",
            "--listen-client-urls=https://127.0.0.1:2379,https://192.0.2.1:2379",
            "--listen-metrics-urls=http://127.0.0.1:2381",
            "--listen-peer-urls=https://192.0.2.1:2380",
            "--name=one",
            "--peer-cert-file=p",
            "--peer-client-cert-auth=true",
            "--peer-key-file=q",
            "--peer-trusted-ca-file=c",
            "--snapshot-count=10000",
            "--trusted-ca-file=c",
            "--watch-progress-notify-interval=5s",
            "--quota-backend-bytes=-1",
            "--unsafe-no-fsync",
            "--initial-cluster",
            members,
        ];
        let command = <Command as clap::Parser>::try_parse_from(words).unwrap();
        command.args.compatibility.check(&command.args.name).map_err(|error| error.to_string())
    };
    assert_eq!(check("one=https://192.0.2.1:2380"), Ok(()));
    let refused = check("one=https://192.0.2.1:2380,two=https://192.0.2.2:2380").unwrap_err();
    assert!(refused.contains("the cluster has one member, one"), "{refused}");
}

#[tokio::test]
async fn a_listener_for_metrics_serves_no_keys() {
    let fixture = fixture();
    let url = "http://127.0.0.1:0";
    let refused = fixture.listen("http://0.0.0.0:0", &NO_TLS, Plaintext::Loopback).await.unwrap_err();
    assert!(refused.contains("is not a loopback address"), "{refused}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = Service::new(&fixture.etcd).for_metrics();
    tokio::spawn(service.serve_tcp(listener, limits(address.ip()), None));
    let get = async |head: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    };
    let metrics = get("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    for name in [
        "etcd_server_has_leader 1",
        "etcd_disk_wal_fsync_duration_seconds_bucket",
        "grpc_server_started_total",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    let head = "POST /etcdserverpb.KV/Range HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\nconnection: close\r\n\r\n";
    assert!(get(head).await.starts_with("HTTP/1.1 404 "));
    assert!(fixture.listen(url, &NO_TLS, Plaintext::Metrics).await.is_ok());
}

#[tokio::test]
async fn only_private_listeners_do_without_client_certificates() {
    let fixture = fixture();
    let cases = [
        ("http://127.0.0.1:0", Plaintext::Loopback, None),
        ("http://127.0.0.1:0", Plaintext::Never, Some("clients need certificates; use https:// or unix://")),
        ("http://0.0.0.0:0", Plaintext::Loopback, Some("is not a loopback address")),
        ("https://127.0.0.1:0", Plaintext::Loopback, Some("needs a certificate, its key and the CAs")),
        ("ftp://127.0.0.1:0", Plaintext::Loopback, Some("the scheme is http, https or unix")),
        ("127.0.0.1:0", Plaintext::Loopback, Some("is not a URL")),
    ];
    for (url, plaintext, expected) in cases {
        let listening = fixture.listen(url, &NO_TLS, plaintext).await;
        match expected {
            None => assert!(listening.is_ok(), "{url}"),
            Some(message) => {
                let error = listening.expect_err(url);
                assert!(error.contains(message), "{url}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_unix_socket_is_private_and_replaces_an_abandoned_one() {
    let fixture = fixture();
    let path = fixture.directory.path().join("etcd.sock");
    let url = format!("unix://{}", path.display());
    for _ in 0..2 {
        let mut listening = fixture.listen(&url, &NO_TLS, Plaintext::Never).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut stream = UnixStream::connect(&path).await.unwrap();
        assert!(exchange(&mut stream).await.contains(r#"{"health":"true","reason":""}"#));
        let second = fixture.listen(&url, &NO_TLS, Plaintext::Never).await.unwrap_err();
        assert!(second.contains("another process listens"), "{second}");
        listening.shutdown().await;
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    let refused = fixture.listen(&url, &NO_TLS, Plaintext::Never).await.unwrap_err();
    assert!(refused.contains("is no socket"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

async fn exchange(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> String {
    let mut response = String::new();
    let exchange = async {
        stream.write_all(REQUEST).await?;
        stream.read_to_string(&mut response).await
    };
    let _ = tokio::time::timeout(DEADLINE, exchange).await.expect("no response before the deadline");
    response
}

fn leaf(usage: LeafUsage, sans: Sans) -> LeafRequest {
    LeafRequest { common_name: "etcd".to_owned(), organization: None, sans, usage }
}

#[tokio::test]
async fn a_client_over_tls_needs_a_certificate_of_the_ca() {
    let fixture = fixture();
    let directory = fixture.directory.path();
    let now = SystemTime::now();
    let authority = Authority::load_or_create(directory, "ca", "etcd-ca", now).unwrap();
    fs::create_dir(directory.join("other")).unwrap();
    let other = Authority::load_or_create(&directory.join("other"), "ca", "other-ca", now).unwrap();
    let (cert, key) = (directory.join("server.crt"), directory.join("server.key"));
    let sans = Sans::default().with_address([127, 0, 0, 1].into());
    authority.issue(&leaf(LeafUsage::Server, sans), now).unwrap().write(&cert, &key).unwrap();
    let ca = directory.join("clients.pem");
    fs::write(&ca, authority.pem()).unwrap();
    let tls = Tls { cert: Some(&cert), key: Some(&key), ca: Some(&ca) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = tls.server_config().unwrap();
    let service = Service::new(&fixture.etcd);
    tokio::spawn(service.serve_tcp(listener, limits(address.ip()), Some(config)));
    let connect = async |client: Option<&Authority>| {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some(signer) => {
                let leaf = signer.issue(&leaf(LeafUsage::Client, Sans::default()), now).unwrap();
                builder.with_client_auth_cert(leaf.chain().unwrap(), leaf.key().unwrap()).unwrap()
            }
        };
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        // With TLS 1.3, a refused client finds out with its first read.
        match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
            Ok(mut stream) => exchange(&mut stream).await,
            Err(_) => String::new(),
        }
    };
    assert!(connect(Some(&authority)).await.contains("200 OK"));
    assert_eq!(connect(None).await, "");
    assert_eq!(connect(Some(&other)).await, "");
}
