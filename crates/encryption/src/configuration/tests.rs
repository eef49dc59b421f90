use super::*;

const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

#[track_caller]
fn check(resources: &str, expected: &str) {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: {resources}"
    );
    let found = Encryption::parse(text.as_bytes()).err().map(|error| error.to_string());
    assert_eq!(found.unwrap_or_default(), expected);
    assert!(!expected.contains(KEY));
}

#[track_caller]
fn check_provider(provider: &str, expected: &str) {
    check(&format!("[{{resources: [secrets], providers: [{provider}]}}]"), expected);
}

#[track_caller]
fn check_names(names: &str, expected: &str) {
    check(&format!("[{{resources: [{names}], providers: [identity: {{}}]}}]"), expected);
}

#[test]
fn rules_need_resources_and_providers() {
    check("[]", "resources: Required value: at least one resources is required");
    check(
        "[{}]",
        "[resources[0].resources: Required value: at least one resources[0].resources is required, \
         resources[0].providers: Required value: at least one resources[0].providers is required]",
    );
    check("[{resources: [secrets], providers: [identity: {}]}]", "");
}

#[test]
fn keys_have_names_and_sizes_and_are_never_shown() {
    check_provider(&format!("aesgcm: {{keys: [{{name: a, secret: {KEY}}}]}}"), "");
    check_provider(
        "aescbc: {keys: []}",
        "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required",
    );
    check_provider(
        "aescbc: {keys: [{}]}",
        "[resources[0].providers[0].aescbc.keys[0].name: Required value: name is a mandatory field for a key, \
         resources[0].providers[0].aescbc.keys[0].secret: Required value: secret is a mandatory field for a key]",
    );
    check_provider(
        "aescbc: {keys: [{name: a, secret: '?'}]}",
        "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded",
    );
    check_provider(
        &format!("secretbox: {{keys: [{{name: a, secret: {KEY}}}]}}"),
        "resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the \
         expected length, got 16, expected one of [32]",
    );
    check_provider(
        "aesgcm: {keys: [{name: a, secret: YQ==}]}",
        "resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected \
         length, got 1, expected one of [16 24 32]",
    );
}

#[test]
fn an_element_has_one_provider() {
    check_provider("{}", &format!("resources[0].providers[0]: Invalid value: {{}}: {NO_PROVIDER}"));
    check_provider(
        &format!("{{identity: {{}}, aescbc: {{keys: [{{name: a, secret: {KEY}}}]}}}}"),
        &format!("resources[0].providers[0]: Invalid value: \"REDACTED\": {MORE_THAN_ONE}"),
    );
}

#[test]
fn names_of_resources_are_those_that_can_be_encrypted() {
    check_names("secrets, configmaps, widgets.example.com", "");
    for (name, problem) in [
        ("Secrets", "resource name should not contain capital letters"),
        ("'*'", "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"),
        ("apiserveripinfo", "resources which do not have REST API/s cannot be encrypted"),
        ("ingresses.extensions", "'extensions' group has been removed and cannot be used for encryption"),
        ("'secrets.*'", "encrypting the same resource across groups is not supported"),
    ] {
        let shown = name.trim_matches('\'');
        check_names(name, &format!("resources[0].resources[0]: Invalid value: \"{shown}\": {problem}"));
    }
}

#[test]
fn rules_do_not_overlap() {
    let overlap = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as \
                   they will be masked";
    check_names(
        "secrets, '*.'",
        &format!("resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: {overlap}"),
    );
    check_names(
        "secrets, '*.*'",
        &format!("resources[0].resources: Invalid value: [\"secrets\",\"*.*\"]: {overlap}"),
    );
    check_names(
        "secrets, secrets",
        "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource cannot be specified \
         multiple times",
    );
    check(
        "[{resources: ['*.apps'], providers: [identity: {}]}, {resources: [deployments.apps], providers: [identity: {}]}]",
        "resource \"deployments.apps\" is masked by earlier rule \"*.apps\"",
    );
}

#[test]
fn unknown_fields_and_other_kinds_are_refused() {
    check_provider(
        "aes: {}",
        "cannot decode encryption configuration: strict decoding error: unknown field \"aes\"",
    );
    check("[1]", "cannot decode encryption configuration: expected an object");
    let other = Encryption::parse(b"apiVersion: v1\nkind: Secret\n").err().unwrap();
    let expected = "cannot decode encryption configuration: expected an EncryptionConfiguration of \
                    apiserver.config.k8s.io/v1";
    assert_eq!(other.to_string(), expected);
    let large = vec![b' '; MAX_BYTES + 1];
    assert_eq!(Encryption::parse(&large).err(), Some(ConfigurationError::Size));
}
