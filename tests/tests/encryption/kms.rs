//! KMS plugins: good, dead, slow and hostile ones.

use std::time::{Duration, Instant};

use corten_e2e::eventually;
use corten_testkit::{DataDirectory, KmsBehavior, KmsPlugin, Server};
use serde_json::json;

use crate::etcd_process::EtcdServer;
use crate::{CANARY, MAPS, SECRETS, configure, is_in_files, secret, start, text};

const PREFIX: &str = "k8s:enc:kms:v2:test:";
const RELOAD: &str = "--encryption-provider-config-automatic-reload";

fn directory() -> (DataDirectory, KmsPlugin) {
    let directory = DataDirectory::new();
    let plugin = KmsPlugin::start(directory.path(), "key-1");
    (directory, plugin)
}

#[test]
fn secrets_are_sealed_with_the_key_of_the_plugin_and_follow_it_to_another_key() {
    let (directory, plugin) = directory();
    let store = directory.path().join("store");
    let file = configure(directory.path(), &plugin, "one");
    let mut server = start(&directory, &["--encryption-provider-config", text(&file), RELOAD]);
    server.client().post(SECRETS, &secret("first")).expect(201);
    assert!(is_in_files(&store, PREFIX) && is_in_files(&store, "key-1"));
    assert!(!is_in_files(&store, CANARY));
    server.kill_9();
    let mut server = start(&directory, &["--encryption-provider-config", text(&file), RELOAD]);
    assert!(plugin.decrypted() > 0, "a new process has no data key");
    assert_eq!(server.client().get(format!("{SECRETS}/first")).expect(200)["data"]["password"], CANARY);
    plugin.set_key("key-2");
    configure(directory.path(), &plugin, "two");
    eventually("everything is sealed with the new key", || {
        is_in_files(&store, "key-2") && !is_in_files(&store, "key-1")
    });
    let metrics = server.client().get("/metrics").text();
    for name in [
        "apiserver_envelope_encryption_key_id_hash_total{",
        "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds{",
        "apiserver_envelope_encryption_dek_source_cache_size{provider_name=\"test\"}",
        "method_name=\"/v2.KeyManagementService/Encrypt\",provider_name=\"test\"",
        "apiserver_encryption_config_controller_automatic_reloads_total{",
        "apiserver_encryption_config_controller_last_config_info{",
        "transformer_prefix=\"k8s:enc:kms:v2:test:\"",
    ] {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    let ready = server.client().get("/readyz?verbose").text();
    assert!(ready.contains("[+]kms-providers ok"), "{ready}");
    let hook = "[+]poststarthook/start-encryption-provider-config-automatic-reload ok";
    assert!(ready.contains(hook), "{ready}");
    assert!(!server.client().get("/livez?verbose").text().contains("kms"), "a restart does not help");
    server.restart();
    assert_eq!(server.client().get(format!("{SECRETS}/first")).expect(200)["data"]["password"], CANARY);
}

#[test]
fn a_configuration_whose_plugin_is_not_healthy_changes_nothing() {
    let (directory, mut plugin) = directory();
    let file = configure(directory.path(), &plugin, "one");
    let server = start(&directory, &["--encryption-provider-config", text(&file), RELOAD]);
    plugin.behave(KmsBehavior::Hostile);
    configure(directory.path(), &plugin, "two");
    eventually("the change is refused", || {
        server.messages().contains("cannot reload encryption configuration")
    });
    let metrics = server.client().get("/metrics").text();
    assert!(
        metrics.contains("invalid_key_id_from_status_total{error=\"too_long\",provider_name=\"test\"}"),
        "{metrics}"
    );
    assert!(metrics.contains("status=\"failure\"} 1"), "{metrics}");
    plugin.stop();
    server.client().post(SECRETS, &secret("sealed")).expect(201);
    assert!(!is_in_files(&directory.path().join("store"), CANARY), "the data key is still in force");
    plugin.behave(KmsBehavior::Good);
    plugin.listen();
    eventually("the change is tried again", || {
        server.messages().contains("reloaded encryption configuration")
    });
}

/// A server on etcd, whose plugin is not healthy yet.
fn start_on_etcd(behavior: KmsBehavior) -> (EtcdServer, DataDirectory, KmsPlugin, Server) {
    let etcd = EtcdServer::start(&[]);
    let (directory, plugin) = directory();
    let file = configure(directory.path(), &plugin, "one");
    let url = etcd.url();
    let arguments = ["--etcd-servers", &url, "--encryption-provider-config", text(&file)];
    let mut server = start(&directory, &arguments);
    server.client().post(SECRETS, &secret("before")).expect(201);
    assert!(is_in_files(etcd.directory(), PREFIX) && !is_in_files(etcd.directory(), CANARY));
    plugin.behave(behavior);
    server.restart();
    (etcd, directory, plugin, server)
}

#[test]
fn a_plugin_that_is_down_delays_only_secrets() {
    let (_etcd, _directory, plugin, server) = start_on_etcd(KmsBehavior::Failing);
    let client = server.client();
    let map = json!({"metadata": {"name": "other"}, "data": {"key": "value"}});
    client.post(MAPS, &map).expect(201);
    let refused = client.post(SECRETS, &secret("after")).expect_failure(500, "InternalError");
    assert!(refused.contains("got unexpected nil transformer"), "never stored as it is: {refused}");
    let unreadable = client.get(format!("{SECRETS}/before")).expect_failure(500, "InternalError");
    assert!(unreadable.contains("got unexpected nil transformer"), "{unreadable}");
    let ready = client.get("/readyz?verbose");
    assert_eq!(ready.status, 500);
    assert!(ready.text().contains("[-]kms-providers failed: reason withheld"), "{}", ready.text());
    assert!(client.get("/readyz/kms-providers").text().contains("kms-provider-0: "));
    client.get("/livez").expect_status(200);
    plugin.behave(KmsBehavior::Good);
    eventually("the plugin is healthy", || client.get("/readyz/kms-providers").status == 200);
    client.post(SECRETS, &secret("after")).expect(201);
    eventually("Secrets are readable", || client.get(format!("{SECRETS}/before")).status == 200);
    assert_eq!(client.get(format!("{SECRETS}/before")).expect(200)["data"]["password"], CANARY);
}

#[test]
fn a_plugin_that_never_decrypts_stalls_no_other_request() {
    let (_etcd, _directory, plugin, server) = start_on_etcd(KmsBehavior::SilentDecrypt);
    let client = server.client();
    let started = Instant::now();
    for number in 0..20 {
        client.get(format!("{SECRETS}/before")).expect_failure(500, "InternalError");
        let map = json!({"metadata": {"name": format!("map-{number}")}});
        client.post(MAPS, &map).expect(201);
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    client.post(SECRETS, &secret("new")).expect(201);
    assert_eq!(client.get(format!("{SECRETS}/new")).expect(200)["data"]["password"], CANARY);
    plugin.behave(KmsBehavior::Good);
    eventually("the data key is decrypted", || client.get(format!("{SECRETS}/before")).status == 200);
}

#[test]
fn a_data_key_that_is_none_is_an_error_without_it() {
    let (_etcd, _directory, plugin, server) = start_on_etcd(KmsBehavior::SilentDecrypt);
    // The data key of the new process was made while the plugin was good; only decrypting is hostile.
    plugin.behave(KmsBehavior::Hostile);
    let client = server.client();
    eventually("the plugin has answered", || {
        client
            .get(format!("{SECRETS}/before"))
            .expect_failure(500, "InternalError")
            .contains("failed to decrypt DEK")
            && server.messages().contains("invalid seed length 7 used for key generation")
    });
    plugin.behave(KmsBehavior::Good);
    eventually("the data key is decrypted", || client.get(format!("{SECRETS}/before")).status == 200);
}
