//! A control plane's key material on disk: what a first start makes, what later starts keep and replace.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::{
    Credentials, KubeconfigNames, Sans, ServerPki, identity_of, kubeconfig, parse_kubeconfig,
    write_kubeconfig,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(86_400);
const FILES: [&str; 14] = [
    "admin.crt",
    "admin.key",
    "apiserver-kubelet-client.crt",
    "apiserver-kubelet-client.key",
    "apiserver.crt",
    "apiserver.key",
    "ca.crt",
    "ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "front-proxy-client.crt",
    "front-proxy-client.key",
    "sa.key",
    "sa.pub",
];

fn sans() -> Sans {
    Sans::apiserver(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1))).with_host("node-1.example").unwrap()
}

fn load(dir: &Path, now: SystemTime) -> ServerPki {
    ServerPki::load_or_create(dir, &sans(), now).unwrap()
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// The names of the files that differ between two states of the directory.
fn changed(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    after
        .iter()
        .filter(|(name, bytes)| before.get(*name) != Some(bytes))
        .map(|(name, _)| name.clone())
        .collect()
}

fn roots(pki: &ServerPki) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for ca in &pki.client_ca {
        roots.add(ca.clone()).unwrap();
    }
    Arc::new(roots)
}

fn verify_server(pki: &ServerPki, name: &str, now: SystemTime) -> Result<(), rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(pki), provider).build().unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap());
    verifier.verify_server_cert(&pki.serving_chain[0], &[], &name, &[], now).map(|_| ())
}

#[test]
fn a_first_start_makes_certificates_that_rustls_accepts() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    let pki = load(dir.path(), now);
    let all = sans().with_host("192.0.2.7").unwrap();
    let pki_with_address = ServerPki::load_or_create(dir.path(), &all, now).unwrap();
    for name in [
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "127.0.0.1",
        "::1",
        "10.96.0.1",
        "node-1.example",
    ] {
        verify_server(&pki, name, now).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    verify_server(&pki, "192.0.2.7", now).unwrap_err();
    verify_server(&pki_with_address, "192.0.2.7", now).unwrap();
    verify_server(&pki, "elsewhere.example", now).unwrap_err();
    verify_server(&pki, "localhost", now + 366 * DAY).unwrap_err();

    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(roots(&pki), Arc::clone(&provider)).build().unwrap();
    let admin = CertificateDer::from_pem_slice(pki.admin_cert_pem.as_bytes()).unwrap();
    let unix_now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap());
    clients.verify_client_cert(&admin, &[], unix_now).unwrap();
    clients.verify_client_cert(&pki.serving_chain[0], &[], unix_now).unwrap_err();

    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(pki.serving_chain.clone(), pki.serving_key.clone_key())
        .unwrap();
}

#[test]
fn the_administrator_is_in_system_masters() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    let pki = load(dir.path(), now);
    let admin = CertificateDer::from_pem_slice(pki.admin_cert_pem.as_bytes()).unwrap();
    let identity = identity_of(&admin).unwrap();
    assert_eq!(identity.common_name, "system:admin");
    assert_eq!(identity.organizations, ["system:masters"]);
    assert_eq!(identity.uid, None);
    assert!(identity.not_after > now + 364 * DAY && identity.not_after < now + 366 * DAY);
    assert!(identity_of(b"not a certificate").is_err());
}

#[test]
fn keys_are_private_and_nothing_is_left_over() {
    let dir = TempDir::new().unwrap();
    let pki_dir = dir.path().join("data/pki");
    load(&pki_dir, SystemTime::now());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&pki_dir), 0o700);
    assert_eq!(contents(&pki_dir).into_keys().collect::<Vec<_>>(), FILES);
    for name in FILES.iter().filter(|name| name.ends_with(".key")) {
        assert_eq!(mode(&pki_dir.join(name)), 0o600, "{name}");
    }
    fs::set_permissions(pki_dir.join("ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
    load(&pki_dir, SystemTime::now());
    assert_eq!(mode(&pki_dir.join("ca.key")), 0o600, "a key left open is closed again");
}

#[test]
fn a_second_start_changes_nothing() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    load(dir.path(), now);
    let before = contents(dir.path());
    let pki = load(dir.path(), now + 300 * DAY);
    assert_eq!(changed(&before, &contents(dir.path())), Vec::<String>::new());
    assert_eq!(pki.ca_pem.as_bytes(), before["ca.crt"]);
}

#[test]
fn new_names_replace_the_serving_certificate_only() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    load(dir.path(), now);
    let before = contents(dir.path());
    let more = sans().with_host("[2001:db8::7]").unwrap();
    let pki = ServerPki::load_or_create(dir.path(), &more, now).unwrap();
    assert_eq!(changed(&before, &contents(dir.path())), ["apiserver.crt", "apiserver.key"]);
    verify_server(&pki, "2001:db8::7", now).unwrap();
}

#[test]
fn leaves_near_their_end_are_replaced() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    load(dir.path(), now);
    let before = contents(dir.path());
    let later = now + 340 * DAY;
    let pki = load(dir.path(), later);
    let leaves = [
        "admin.crt",
        "admin.key",
        "apiserver-kubelet-client.crt",
        "apiserver-kubelet-client.key",
        "apiserver.crt",
        "apiserver.key",
        "front-proxy-client.crt",
        "front-proxy-client.key",
    ];
    assert_eq!(changed(&before, &contents(dir.path())), leaves);
    verify_server(&pki, "localhost", later + 300 * DAY).unwrap();
}

#[test]
fn leaves_of_another_authority_are_replaced() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    load(dir.path(), now);
    fs::remove_file(dir.path().join("ca.crt")).unwrap();
    fs::remove_file(dir.path().join("ca.key")).unwrap();
    verify_server(&load(dir.path(), now), "localhost", now).unwrap();
}

#[test]
fn an_interrupted_first_start_is_finished_by_the_next() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    load(dir.path(), now);
    let before = contents(dir.path());
    for name in ["ca.crt", "sa.pub", "apiserver.crt"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    verify_server(&load(dir.path(), now), "localhost", now).unwrap();
    let after = contents(dir.path());
    assert_eq!(before["ca.key"], after["ca.key"]);
    assert_eq!(before["sa.pub"], after["sa.pub"]);
}

#[test]
fn unusable_files_are_named_with_what_to_do() {
    let cases: [(&str, Option<&str>, &str, &str); 7] = [
        ("ca.crt", Some("rubbish"), "is not a PEM certificate", "restore it"),
        ("ca.key", Some("rubbish"), "is not a PEM private key", "restore it"),
        ("ca.key", None, "is missing", "restore it"),
        ("apiserver.crt", Some("rubbish"), "is not a PEM certificate", "delete it"),
        ("admin.key", Some("rubbish"), "is not a PEM private key", "delete it"),
        ("sa.key", None, "is missing", "restore it"),
        ("sa.pub", Some("rubbish"), "does not belong to sa.key", "delete it"),
    ];
    for (name, text, problem, remedy) in cases {
        let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
        load(dir.path(), now);
        let path = dir.path().join(name);
        match text {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let before = contents(dir.path());
        let error = ServerPki::load_or_create(dir.path(), &sans(), now).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains(problem) && error.contains(remedy), "{error}");
        assert_eq!(changed(&before, &contents(dir.path())), Vec::<String>::new());
    }
}

#[test]
fn an_expired_authority_is_an_error() {
    let (dir, now) = (TempDir::new().unwrap(), SystemTime::now());
    load(dir.path(), now);
    let error = ServerPki::load_or_create(dir.path(), &sans(), now + 3651 * DAY).unwrap_err();
    assert!(error.to_string().contains("ca.crt expired on"), "{error}");
}

#[test]
fn names_that_no_certificate_can_hold_are_refused() {
    for host in ["", "a b", "ex ample", "-", "host/name"] {
        assert!(Sans::default().with_host(host).is_err(), "{host:?}");
    }
    assert_eq!(Sans::default().with_host("0.0.0.0").unwrap(), Sans::default());
    let named = |host| Sans::default().with_host(host).unwrap();
    assert_eq!(named("Node.Example."), named("node.example"));
}

#[test]
fn a_kubeconfig_reads_back_as_written() {
    let dir = TempDir::new().unwrap();
    let pki = load(&dir.path().join("pki"), SystemTime::now());
    let path = dir.path().join("admin.conf");
    for server in ["https://127.0.0.1:6443", "https://[::1]:6443"] {
        let credentials = pki.admin_credentials(server);
        write_kubeconfig(&path, &credentials, KubeconfigNames::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(parse_kubeconfig(&fs::read_to_string(&path).unwrap()).unwrap(), credentials);
    }
    let odd = KubeconfigNames { cluster: "my \"best\"\\cluster", user: "no", context: "0: x\n" };
    let credentials = pki.admin_credentials("https://localhost:1");
    assert_eq!(parse_kubeconfig(&kubeconfig(&credentials, odd)).unwrap(), credentials);
}

#[test]
fn an_unusable_kubeconfig_says_what_is_missing() {
    let credentials = Credentials {
        server: "https://localhost".to_owned(),
        ca_pem: "a".to_owned(),
        cert_pem: "b".to_owned(),
        key_pem: String::new(),
        token: None,
    };
    let text = kubeconfig(&credentials, KubeconfigNames::default());
    let error = |text: &str| parse_kubeconfig(text).unwrap_err().to_string();
    assert!(error(&text).contains("client-key-data is missing"));
    let with_token =
        text.replace("    client-certificate-data: Yg==\n    client-key-data: ", "    token: secret");
    assert_eq!(parse_kubeconfig(&with_token).unwrap().token.as_deref(), Some("secret"));
    assert!(error(&text.replace("current-context: corten", "current-context: other")).contains("\"other\""));
    assert!(error("{").contains("unusable kubeconfig"));
}
