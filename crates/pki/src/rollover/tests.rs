use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{ServerName, UnixTime};

use super::*;
use crate::{IssuedCert, LeafRequest, LeafUsage, LiveAuthorities, Sans, ServerPki, pem_certificates};

fn now() -> SystemTime {
    SystemTime::now()
}

fn load(dir: &Path) -> ServerPki {
    ServerPki::load_or_create(dir, &Sans::default().with_host("api.example").unwrap(), now()).unwrap()
}

/// True if clients that trust a bundle accept a server.
fn accepts(bundle: &str, server: &IssuedCert) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(pem_certificates(bundle).unwrap());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let chain = server.chain().unwrap();
    let name = ServerName::try_from("api.example").unwrap();
    verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], UnixTime::now()).is_ok()
}

fn admits(bundle: &str, client: &IssuedCert) -> bool {
    let chain = client.chain().unwrap();
    LiveAuthorities::new(bundle).unwrap().verify_client_cert(&chain[0], &chain[1..], UnixTime::now()).is_ok()
}

fn client_of(pki: &ServerPki) -> IssuedCert {
    let request = LeafRequest {
        common_name: "jane".to_owned(),
        organization: None,
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    pki.authority.issue(&request, now()).unwrap()
}

#[test]
fn old_and_new_are_trusted_until_the_end_and_then_only_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let old = load(dir);
    let of_old = client_of(&old);
    begin_rollover(dir, now()).unwrap();
    let trusted = load(dir);
    assert_eq!(trusted.serving.cert_pem, old.serving.cert_pem, "nothing is signed by the next one yet");
    assert_eq!(pem_certificates(&trusted.ca_pem).unwrap().len(), 2);
    switch_authority(dir).unwrap();
    let replaced = load(dir);
    let of_new = client_of(&replaced);
    assert_ne!(replaced.serving.cert_pem, old.serving.cert_pem);
    for bundle in [&old.ca_pem, &trusted.ca_pem, &replaced.ca_pem] {
        assert!(accepts(bundle, &replaced.serving), "clients of the old CA accept the new server");
    }
    assert!(accepts(&replaced.ca_pem, &old.serving), "and those of both the old server");
    assert!(admits(&replaced.ca_pem, &of_old) && admits(&replaced.ca_pem, &of_new));
    finish_rollover(dir).unwrap();
    let settled = load(dir);
    assert_eq!(settled.serving.chain().unwrap().len(), 1);
    assert!(accepts(&settled.ca_pem, &settled.serving) && !accepts(&settled.ca_pem, &old.serving));
    assert!(admits(&settled.ca_pem, &of_new));
    assert!(!admits(&settled.ca_pem, &of_old), "a leaf of the retired CA");
    assert_eq!(settled.retired_pem, old.ca_pem);
    assert_eq!(settled.service_account_key_pem, old.service_account_key_pem, "tokens stay valid");
    assert!(begin_rollover(dir, now() + Duration::from_secs(1)).is_ok(), "and again");
}

#[test]
fn steps_have_an_order() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    load(dir);
    assert!(switch_authority(dir).is_err() && finish_rollover(dir).is_err());
    begin_rollover(dir, now()).unwrap();
    assert!(begin_rollover(dir, now()).is_err() && finish_rollover(dir).is_err());
    switch_authority(dir).unwrap();
    assert!(begin_rollover(dir, now()).is_err() && switch_authority(dir).is_err());
    finish_rollover(dir).unwrap();
    assert_eq!(RolloverStage::of(dir).unwrap(), RolloverStage::Settled);
}

/// A copy of a directory without some of its files, as a crash leaves it.
fn crashed(dir: &Path, change: impl FnOnce(&Path)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    change(copy.path());
    copy
}

#[test]
fn every_step_can_be_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let old = load(dir);
    begin_rollover(dir, now()).unwrap();
    let next = fs::read_to_string(dir.join(NEXT_CRT)).unwrap();
    // Without its certificate, the next CA does not exist.
    let begun = crashed(dir, |dir| fs::remove_file(dir.join(NEXT_CRT)).unwrap());
    assert_eq!(load(begun.path()).ca_pem, old.ca_pem);
    begin_rollover(begun.path(), now()).unwrap();
    assert_eq!(RolloverStage::of(begun.path()).unwrap(), RolloverStage::Trusted);
    // The certificate of the previous CA was written, nothing else.
    let copied = crashed(dir, |dir| fs::copy(dir.join("ca.crt"), dir.join(PREVIOUS)).map(drop).unwrap());
    assert_eq!(RolloverStage::of(copied.path()).unwrap(), RolloverStage::Trusted);
    switch_authority(copied.path()).unwrap();
    // The key was replaced, and its certificate was not.
    let half = crashed(dir, |dir| {
        fs::copy(dir.join("ca.crt"), dir.join(PREVIOUS)).unwrap();
        fs::rename(dir.join(NEXT_KEY), dir.join("ca.key")).unwrap();
    });
    let recovered = load(half.path());
    assert_eq!(RolloverStage::of(half.path()).unwrap(), RolloverStage::Replaced);
    assert!(recovered.ca_pem.starts_with(&next), "the switch is completed");
    // The end was begun: the CA is listed as retired, and still trusted.
    let listed =
        crashed(half.path(), |dir| fs::copy(dir.join(PREVIOUS), dir.join(RETIRED)).map(drop).unwrap());
    assert_eq!(pem_certificates(&load(listed.path()).ca_pem).unwrap().len(), 2);
    finish_rollover(listed.path()).unwrap();
    assert_eq!(load(listed.path()).retired_pem, old.ca_pem, "once");
}

#[test]
fn keys_are_private_and_the_old_one_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    load(dir);
    let old = fs::read_to_string(dir.join("ca.key")).unwrap();
    let check = || {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert!(!text.contains("PRIVATE KEY") || mode == 0o600, "{:?} {mode:o}", entry.path());
        }
    };
    begin_rollover(dir, now()).unwrap();
    check();
    switch_authority(dir).unwrap();
    check();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        assert_ne!(fs::read_to_string(entry.path()).unwrap(), old, "{:?}", entry.path());
    }
}
