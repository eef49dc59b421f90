use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::ParseOptions;

const CONTEXT: &[u8] = b"/registry/secrets/default/web";
const PLAIN: &[u8] = br#"{"kind":"Secret"}"#;

/// Values that upstream's providers sealed with keys of one repeated byte, the size of the key.
const UPSTREAM: &[(&str, usize, &str)] = &[
    ("aesgcm", 16, "bb5j8AkTKY9ZDOsKk91Jf9CNFiuJM0Sqbk6lIuPtYT86UIQk7l2ZPcTS7kmb"),
    ("aescbc", 16, "A/qZEzojXP/WXvLGT6CrI5Z8fF/LCRWzZDEgfUC1raOMkiZjJetlzgFbPljFJVmI"),
    ("aesgcm", 24, "bKpWPCM80fs9aLoF2frX8Jitxsc5QA8dTRhsnsoeI3F6Ry8IcVotAW/ALEXq"),
    ("aescbc", 24, "wvnsQDntxiEfvgC4Z6m/iFGDkw2VYfGinbetPNdKp136fRmhxk07MRPGeJ7RhyxC"),
    ("aesgcm", 32, "ey4zoD2VLovrHb+URV//4zaVsb1Dvae4la5STOn4FwotceUHlMvOjqnk0GXL"),
    ("aescbc", 32, "eQU50Y3X/krSJlRdPFbHzvAjPQjjeilmEenNYIIeKWpjPV3BfvXQPvMZ+gMEdtH0"),
    ("secretbox", 32, "jTGbZk1ENZcGp4ZO0i8gIs9B/kIu3zAID93Er+7n8yNzoL9PcrJHRiZc+pmKw+0fb82/mDL0C5Ik"),
];

fn encryption(providers: &[String]) -> Encryption {
    let providers: String = providers.iter().map(|provider| format!("  - {provider}\n")).collect();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [secrets]\n  providers:\n{providers}"
    );
    Encryption::parse(text.as_bytes(), &ParseOptions::default()).unwrap()
}

fn provider(kind: &str, keys: &[(&str, u8, usize)]) -> String {
    let key = |(name, byte, size): &(&str, u8, usize)| {
        format!("{{name: {name}, secret: {}}}", STANDARD.encode(vec![*byte; *size]))
    };
    format!("{kind}: {{keys: [{}]}}", keys.iter().map(key).collect::<Vec<_>>().join(", "))
}

fn open(encryption: &Encryption, stored: &[u8]) -> Result<Option<Opened>, ProviderError> {
    encryption.open("", "secrets", CONTEXT, stored)
}

fn opened(is_stale: bool) -> Result<Option<Opened>, ProviderError> {
    Ok(Some(Opened { plain: PLAIN.to_vec(), is_stale }))
}

#[test]
fn values_that_upstream_sealed_are_opened() {
    for (kind, size, sealed) in UPSTREAM {
        let byte = u8::try_from(*size).unwrap();
        let encryption = encryption(&[provider(kind, &[("one", byte, *size)])]);
        let mut stored = format!("k8s:enc:{kind}:v1:one:").into_bytes();
        stored.extend(STANDARD.decode(sealed).unwrap());
        assert_eq!(open(&encryption, &stored), opened(false), "{kind} {size}");
    }
}

#[test]
fn sealed_values_name_provider_and_key_and_are_opened_again() {
    for (kind, size, _) in UPSTREAM {
        let encryption = encryption(&[provider(kind, &[("one", 1, *size)])]);
        let seal = || encryption.seal("", "secrets", CONTEXT, PLAIN).unwrap().unwrap();
        let stored = seal();
        assert!(stored.starts_with(format!("k8s:enc:{kind}:v1:one:").as_bytes()));
        assert!(!stored.windows(6).any(|part| part == b"Secret"));
        assert_ne!(stored, seal(), "a nonce is used once");
        assert_eq!(open(&encryption, &stored), opened(false), "{kind} {size}");
    }
}

#[test]
fn every_flipped_bit_and_missing_byte_is_detected_where_values_are_authenticated() {
    for (kind, size, _) in UPSTREAM.iter().filter(|(kind, ..)| *kind != "aescbc") {
        let encryption = encryption(&[provider(kind, &[("one", 1, *size)])]);
        let stored = encryption.seal("", "secrets", CONTEXT, PLAIN).unwrap().unwrap();
        for bit in 0..stored.len() * 8 {
            let mut damaged = stored.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // A value without the prefix is no encrypted value of a provider here.
            assert!(open(&encryption, &damaged).is_err(), "{kind} bit {bit}");
        }
        for length in 0..stored.len() {
            assert!(open(&encryption, &stored[..length]).is_err(), "{kind} length {length}");
        }
    }
}

#[test]
fn damaged_values_of_cbc_never_panic() {
    let encryption = encryption(&[provider("aescbc", &[("one", 1, 32)])]);
    let stored = encryption.seal("", "secrets", CONTEXT, PLAIN).unwrap().unwrap();
    for length in 0..stored.len() {
        assert!(open(&encryption, &stored[..length]).is_err(), "length {length}");
    }
    let prefix = b"k8s:enc:aescbc:v1:one:".len();
    assert_eq!(open(&encryption, &stored[..prefix + 3]), Err(ProviderError::Short));
    assert_eq!(open(&encryption, &stored[..prefix + 17]), Err(ProviderError::Blocks));
}

#[test]
fn gcm_binds_a_value_to_its_key_in_the_store() {
    let encryption = encryption(&[provider("aesgcm", &[("one", 1, 32)])]);
    let stored = encryption.seal("", "secrets", CONTEXT, PLAIN).unwrap().unwrap();
    let moved = encryption.open("", "secrets", b"/registry/secrets/default/other", &stored);
    assert_eq!(moved, Err(ProviderError::Authentication));
}

#[test]
fn later_keys_and_providers_open_values_that_are_stale_then() {
    let old = encryption(&[provider("aescbc", &[("old", 1, 32)])]);
    let sealed = old.seal("", "secrets", CONTEXT, PLAIN).unwrap().unwrap();
    let second_key = encryption(&[provider("aescbc", &[("new", 2, 32), ("old", 1, 32)])]);
    assert_eq!(open(&second_key, &sealed), opened(true));
    let same_name = encryption(&[provider("aescbc", &[("old", 2, 32), ("old", 1, 32)])]);
    assert_eq!(open(&same_name, &sealed), opened(true));
    let second_provider =
        encryption(&[provider("aesgcm", &[("old", 2, 32)]), provider("aescbc", &[("old", 1, 32)])]);
    assert_eq!(open(&second_provider, &sealed), opened(true));
    let decrypting = encryption(&["identity: {}".to_owned(), provider("aescbc", &[("old", 1, 32)])]);
    assert_eq!(open(&decrypting, &sealed), opened(true));
    assert_eq!(open(&decrypting, PLAIN), Ok(None));
    assert_eq!(decrypting.seal("", "secrets", CONTEXT, PLAIN), Ok(None));
    let encrypting = encryption(&[provider("aescbc", &[("old", 1, 32)]), "identity: {}".to_owned()]);
    assert_eq!(open(&encrypting, PLAIN), opened(true));
}

#[test]
fn encrypted_values_are_never_returned_as_they_are() {
    let sealed = b"k8s:enc:aescbc:v1:one:0123456789abcdef0123456789abcdef";
    let none = Encryption::default();
    assert_eq!(none.open("", "secrets", CONTEXT, sealed), Err(ProviderError::Encrypted));
    let identity = encryption(&["identity: {}".to_owned()]);
    assert_eq!(open(&identity, sealed), Err(ProviderError::NoProvider));
    let other = encryption(&[provider("aesgcm", &[("one", 1, 32)])]);
    assert_eq!(open(&other, sealed), Err(ProviderError::NoProvider));
    let other_key = encryption(&[provider("aescbc", &[("two", 1, 32)])]);
    assert_eq!(open(&other_key, sealed), Err(ProviderError::NoKey("AES")));
    assert_eq!(open(&other_key, PLAIN), Err(ProviderError::NoProvider));
}

#[test]
fn the_most_specific_rule_of_a_resource_counts() {
    let key = provider("aesgcm", &[("one", 1, 32)]);
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - {{resources: [events], providers: [identity: {{}}]}}\n\
         - {{resources: ['*.apps'], providers: [{{{key}}}]}}\n\
         - {{resources: ['*.*'], providers: [identity: {{}}, {{{key}}}]}}\n"
    );
    let encryption = Encryption::parse(text.as_bytes(), &ParseOptions::default()).unwrap();
    let seals = |group, resource| encryption.seals(group, resource);
    assert!(seals("apps", "deployments"));
    assert!(!seals("", "events"));
    assert!(!seals("", "secrets"));
    assert!(!seals("example.com", "widgets"));
    assert!(!Encryption::default().seals("", "secrets"));
}
