use super::*;

const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

fn parse(text: &[u8]) -> Result<Encryption, ConfigurationError> {
    Encryption::parse(text, &ParseOptions::default())
}

#[track_caller]
fn check(resources: &str, expected: &str) {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: {resources}"
    );
    let found = parse(text.as_bytes()).err().map(|error| error.to_string());
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
    check_provider(
        "{}",
        &format!("resources[0].providers[0]: Invalid value: {EMPTY_PROVIDER}: {NO_PROVIDER}"),
    );
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
    let other = parse(b"apiVersion: v1\nkind: Secret\n").err().unwrap();
    let expected = "cannot decode encryption configuration: expected an EncryptionConfiguration of \
                    apiserver.config.k8s.io/v1";
    assert_eq!(other.to_string(), expected);
    let large = vec![b' '; MAX_BYTES + 1];
    assert_eq!(parse(&large).err(), Some(ConfigurationError::Size));
}

#[test]
fn kms_providers_are_validated_as_upstream() {
    const AT: &str = "resources[0].providers[0].kms";
    let check_kms = |fields: &str, expected: &str| check_provider(&format!("kms: {{{fields}}}"), expected);
    let good = "apiVersion: v2, name: a, endpoint: 'unix:///x.sock'";
    check_kms(good, "");
    check_kms("apiVersion: v2, name: a, endpoint: 'UNIX:x.sock', timeout: 1ms", "");
    let missing = format!(
        "[{AT}.name: Required value: name is a mandatory field for a provider, {AT}.endpoint: Invalid value: \"\": \
         endpoint is a mandatory field for a kms]"
    );
    check_kms("", &missing);
    check_kms("apiVersion: v2", &missing);
    check_kms(
        "apiVersion: v2, name: 'a:b', endpoint: 'unix:///x.sock'",
        &format!("{AT}.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'"),
    );
    check_kms(
        &format!("{good}, cachesize: 5"),
        &format!("{AT}.cachesize: Invalid value: 5: cachesize is not supported in v2"),
    );
    check_kms(
        "name: a, endpoint: 'unix:///x.sock', cachesize: 0",
        &format!(
            "{AT}.cachesize: Invalid value: 0: cachesize should be a positive value, or negative to disable"
        ),
    );
    check_kms(
        "apiVersion: v3, name: a, endpoint: 'unix:///x.sock'",
        &format!(
            "{AT}.apiVersion: Invalid value: \"v3\": unsupported apiVersion apiVersion for KMS provider, only v1 and \
             v2 are supported"
        ),
    );
    for (endpoint, problem) in [
        ("tcp://localhost:1", "unsupported scheme \"tcp\" for KMS provider, only unix is supported"),
        ("/x.sock", "unsupported scheme \"\" for KMS provider, only unix is supported"),
        (":x", "invalid endpoint for kms provider, error: parse \":x\": missing protocol scheme"),
    ] {
        check_kms(
            &format!("apiVersion: v2, name: a, endpoint: '{endpoint}'"),
            &format!("{AT}.endpoint: Invalid value: {endpoint:?}: {problem}"),
        );
    }
    for timeout in ["0s", "-3s"] {
        check_kms(
            &format!("{good}, timeout: {timeout}"),
            &format!("{AT}.timeout: Invalid value: \"{timeout}\": timeout should be a positive value"),
        );
    }
    for (field, problem) in [
        ("timeout: 3", "kms.timeout must be a string"),
        ("timeout: 3x", "time: unknown unit \"x\" in duration \"3x\""),
        ("cachesize: x", "kms.cachesize must be an integer of 32 bits"),
    ] {
        check_kms(&format!("{good}, {field}"), &format!("cannot decode encryption configuration: {problem}"));
    }
}

#[test]
fn names_of_kms_providers_are_unique_and_v1_is_off() {
    let provider =
        |version: &str| format!("{{kms: {{apiVersion: {version}, name: a, endpoint: 'unix:///x.sock'}}}}");
    let file = |version: &str| {
        let provider = provider(version);
        format!(
            "apiVersion: {VERSION}\nkind: {KIND}\nresources: [{{resources: [secrets], providers: [{provider}, {provider}]}}]"
        )
    };
    let duplicate = "resources[0].providers[1].kms.name: Invalid value: \"a\": duplicate KMS provider name a, names must \
                     be unique";
    for (version, reload, is_duplicate) in [("v2", false, true), ("v1", false, false), ("v1", true, true)] {
        let options = ParseOptions { reload, ..ParseOptions::default() };
        let error =
            Encryption::parse(file(version).as_bytes(), &options).err().map(|error| error.to_string());
        let expected =
            if is_duplicate { duplicate.to_owned() } else { ConfigurationError::KmsV1.to_string() };
        assert_eq!(error, Some(expected), "{version} {reload}");
    }
}
