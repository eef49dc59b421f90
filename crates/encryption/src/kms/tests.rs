use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;

use super::envelope::AES_GCM_KEY;
use super::*;
use crate::{Encryption, ParseOptions};

const CONTEXT: &[u8] = b"/registry/secrets/n/a";

/// Values that upstream's transformer sealed, with the decrypted data key, the id of its key, and the value.
const UPSTREAM: [(&str, &str, &str, &str); 3] = [
    (
        "nDTAw6IsWobla1TehVbKGOjmgMvOI79AYwAQu+dXBLo=",
        "key-1",
        "hello",
        "CkHRHrZ8DQt//mBlQtd53jHad9fQIESQWfRED2XYt8iJOyh/uiKCoLKZvmEdzjhcoz4zb9xO+XlzlnqLQUp77bIkghIFa2V5LTEaIMZumpn4dgDcvzEOhN8MkEKyvNqRlHnlGjlaSuG9DV7gKAE=",
    ),
    (
        "EkCE+9zfZAX1KyGjwrlC1L0soJBTGuaNV4wRp9BZSvc=",
        "key-1",
        "{\"kind\":\"Secret\"}",
        "Ck0kRAaQrgGlYRsgfYk+dQGB2TFYaXYhpAeySgfh0QeKtWKkbr1VzGVSIYJItyf0/wZyVjtfbHLZj+RxyHOdrHZTrlkOfH7doZIiNYJTKRIFa2V5LTEaIEga3qGGhT5fr3F7+ZjjGI7ndvrKCUC81w3WS/2KAxCtIhgKD2tlay5leGFtcGxlLmNvbRIFbG9jYWwiEwoNYS5leGFtcGxlLmNvbRICAP8oAQ==",
    ),
    (
        "WiR5Z59Yny3dEIOBh8yRoCMb1JN44t080NHhQVm7qKI=",
        "key-2",
        "an unseeded value",
        "Ci00JV2QAcqaOwAAAACGLRlK+j/ZfNDEOxAo8rTmOOWdsuDalGMCeEg2D6QPCcISBWtleS0yGiAAfiM9xQLFd4dK2dvdlsv6eUGOySK4h2aKi7sbA+Hy+CIYCg9rZWsuZXhhbXBsZS5jb20SBWxvY2Fs",
    ),
];

const CONFIGURATION: &[u8] = b"apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers: [{kms: {apiVersion: v2, name: p, endpoint: 'unix:///kms.sock', timeout: 2s}}]
";

struct Fixture {
    encryption: Encryption,
    clock: Clock,
    control: corten_base::ClockControl,
}

impl Fixture {
    fn new() -> Fixture {
        let (clock, control) = Clock::manual(Timestamp::from_second(1_800_000_000).unwrap());
        let options = ParseOptions { clock: Some(clock.clone()), ..ParseOptions::default() };
        let encryption = Encryption::parse(CONFIGURATION, &options).unwrap();
        Fixture { encryption, clock, control }
    }

    fn kms(&self) -> &Arc<Kms> {
        &self.encryption.kms()[0]
    }

    fn rotate(&self, key_id: &str, seed: u8) {
        let source = DekSource::seed(key_id.to_owned(), vec![seed; 48], BTreeMap::new());
        self.kms().rotate(source, &[seed; 32], self.clock.now() + SignedDuration::from_mins(3)).unwrap();
    }

    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, ProviderError> {
        self.encryption.seal("", "secrets", CONTEXT, plain).map(Option::unwrap)
    }

    fn open(&self, stored: &[u8]) -> Result<Option<Opened>, ProviderError> {
        self.encryption.open("", "secrets", CONTEXT, stored)
    }
}

#[test]
fn values_that_upstream_sealed_are_opened_once_their_data_key_is_decrypted() {
    for (key, key_id, plain, sealed) in UPSTREAM {
        let fixture = Fixture::new();
        fixture.rotate("key-1", 1);
        let mut stored = b"k8s:enc:kms:v2:p:".to_vec();
        stored.extend(STANDARD.decode(sealed).unwrap());
        let Err(ProviderError::Undecrypted(needed)) = fixture.open(&stored) else { panic!("it has a key") };
        assert_eq!(needed.source.key_id, key_id);
        assert_eq!(fixture.encryption.undecrypted("", "secrets", &stored), Some((*needed).clone()));
        let whole = fixture.open(&stored).unwrap_err().to_string();
        assert_eq!(whole, "failed to decrypt DEK, error: the KMS plugin has not decrypted it yet");
        fixture.kms().fail(&needed, "rpc error: code = Unavailable desc = x");
        let failed = fixture.open(&stored).unwrap_err().to_string();
        assert_eq!(failed, "failed to decrypt DEK, error: rpc error: code = Unavailable desc = x");
        // What the plugin of the vectors does to a key.
        let decrypted: Vec<u8> = needed.source.ciphertext.iter().map(|byte| byte ^ 0x5a).collect();
        assert_eq!(STANDARD.encode(&decrypted), key);
        fixture.kms().add(&needed, &decrypted).unwrap();
        let opened = fixture.open(&stored).unwrap().unwrap();
        assert_eq!(opened.plain, plain.as_bytes());
        let is_current = key_id == "key-1" && needed.source.kind != AES_GCM_KEY;
        assert_eq!(opened.is_stale, !is_current, "{key_id}");
        assert_eq!(fixture.encryption.undecrypted("", "secrets", &stored), None);
        let elsewhere = fixture.encryption.open("", "secrets", b"/registry/secrets/n/b", &stored);
        assert_eq!(elsewhere, Err(ProviderError::Authentication), "bound to its key in the store");
    }
}

#[test]
fn values_are_sealed_only_while_the_data_key_is_in_force() {
    let fixture = Fixture::new();
    assert_eq!(fixture.seal(b"x").unwrap_err().to_string(), "got unexpected nil transformer");
    fixture.rotate("first", 1);
    let sealed = fixture.seal(b"plain text").unwrap();
    assert!(sealed.starts_with(b"k8s:enc:kms:v2:p:"));
    assert!(!sealed.windows(5).any(|part| part == b"plain"));
    assert_ne!(sealed, fixture.seal(b"plain text").unwrap(), "every value has its own key");
    let fresh = Some(Opened { plain: b"plain text".to_vec(), is_stale: false });
    assert_eq!(fixture.open(&sealed), Ok(fresh));
    fixture.rotate("second", 2);
    let stale = Some(Opened { plain: b"plain text".to_vec(), is_stale: true });
    assert_eq!(fixture.open(&sealed), Ok(stale.clone()), "the plugin's key has another id");
    fixture.control.advance(Duration::from_secs(181));
    let expired = fixture.seal(b"x").unwrap_err().to_string();
    let expected = format!(
        "encryptedDEKSource with keyID hash \"{}\" expired at 2027-01-15T08:03:00Z (current time is \
         2027-01-15T08:03:01Z)",
        hash("second")
    );
    assert_eq!(expired, expected);
    assert_eq!(fixture.open(&sealed), Ok(stale), "values can be read for ever");
    fixture.kms().extend(fixture.clock.now());
    assert!(fixture.seal(b"x").is_ok());
}

#[test]
fn damaged_and_foreign_envelopes_are_errors() {
    let fixture = Fixture::new();
    fixture.rotate("first", 1);
    let sealed = fixture.seal(b"plain text").unwrap();
    for bit in 0..sealed.len() * 8 {
        let mut damaged = sealed.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(fixture.open(&damaged).is_err(), "bit {bit}");
    }
    for length in 0..sealed.len() {
        assert!(fixture.open(&sealed[..length]).is_err(), "length {length}");
    }
}

#[test]
fn what_a_plugin_returns_is_limited() {
    let fixture = Fixture::new();
    let check = |key_id: &str, ciphertext: usize, annotations: &[(&str, usize)], expected: &str| {
        let annotations = annotations.iter().map(|(name, size)| ((*name).to_owned(), vec![0; *size]));
        let source = DekSource::seed(key_id.to_owned(), vec![0; ciphertext], annotations.collect());
        let refused = fixture.kms().rotate(source, &[0; 32], Timestamp::MAX).err();
        assert_eq!(refused.map(|error| error.to_string()).unwrap_or_default(), expected);
    };
    let long = "k".repeat(1025);
    check("k", 1024, &[("kms.example.com", 32_753)], "");
    check("", 1, &[], "failed to validate key id: keyID is empty");
    check(
        &long,
        1,
        &[],
        "failed to validate key id: keyID is 1025 bytes, which exceeds the max size of 1024",
    );
    check("k", 0, &[], "failed to validate encrypted DEK source: encrypted DEK source is empty");
    check(
        "k",
        1025,
        &[],
        "failed to validate encrypted DEK source: encrypted DEK source is 1025 bytes, which exceeds the max size \
         of 1024",
    );
    check(
        "k",
        1,
        &[("kms.example.com", 32_754)],
        "failed to validate annotations: total size of annotations is 32769, which exceeds the max size of 32768",
    );
    check(
        "k",
        1,
        &[("kms", 1)],
        "failed to validate annotations: annotations: Invalid value: \"kms\": should be a domain with at least two \
         segments separated by dots",
    );
    let source = DekSource::seed("k".to_owned(), vec![1], BTreeMap::new());
    let short = fixture.kms().rotate(source, &[0; 31], Timestamp::MAX).unwrap_err();
    assert_eq!(short.to_string(), "invalid seed length 31 used for key generation");
}

#[test]
fn decrypted_keys_are_forgotten_when_there_are_too_many() {
    let fixture = Fixture::new();
    fixture.rotate("first", 1);
    let sealed = fixture.seal(b"x").unwrap();
    for number in 0..10_000_u32 {
        let source = DekSource::seed("other".to_owned(), number.to_be_bytes().to_vec(), BTreeMap::new());
        fixture.control.advance(Duration::from_millis(1));
        fixture.kms().rotate(source, &[0; 32], Timestamp::MAX).unwrap();
    }
    assert_eq!(fixture.kms().keys.lock().len(), 10_000);
    assert!(matches!(fixture.open(&sealed), Err(ProviderError::Undecrypted(_))), "the oldest made room");
}
