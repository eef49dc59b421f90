//! The keys that encrypt Secrets, as the file of `--secrets-encryption` has them: an `EncryptionConfiguration` with one
//! provider. Pure.
//!
//! The file itself is the record of a rotation: which keys it has, and in which order, is the stage. So a rotation that was
//! interrupted continues from the file.
//!
//! ```text
//! start: [one]  ─prepare─►  [one, two]  ─rotate─►  [two, one]  ─reencrypt─►  [two]
//! ```

use std::str::FromStr;
use std::time::SystemTime;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, json, value};
use jiff::Timestamp;
use zeroize::Zeroizing;

/// The ciphers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Secretbox,
    AesCbc,
}

impl KeyKind {
    /// The field of the provider.
    fn field(self) -> &'static str {
        match self {
            KeyKind::Secretbox => "secretbox",
            KeyKind::AesCbc => "aescbc",
        }
    }

    /// The name in tables, as k3s shows it.
    pub(super) fn shown(self) -> &'static str {
        match self {
            KeyKind::Secretbox => "XSalsa20-POLY1305",
            KeyKind::AesCbc => "AES-CBC",
        }
    }
}

impl FromStr for KeyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyKind, String> {
        match text {
            "secretbox" => Ok(KeyKind::Secretbox),
            "aescbc" => Ok(KeyKind::AesCbc),
            _ => Err("choose secretbox or aescbc".to_owned()),
        }
    }
}

/// The stage of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is one key.
    Start,
    /// The new key decrypts.
    Prepare,
    /// The new key encrypts, and the old one decrypts.
    Rotate,
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Stage::Start => "start",
            Stage::Prepare => "prepare",
            Stage::Rotate => "rotate",
        }
    }
}

/// A key: its name, which begins with the time of its creation, and its secret.
#[derive(Clone, PartialEq, Eq)]
struct ManagedKey {
    name: String,
    secret: Zeroizing<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ManagedKeys {
    kind: KeyKind,
    /// The encrypting one first.
    keys: Vec<ManagedKey>,
    /// False if Secrets are written as they are, and only read with the keys.
    pub(super) is_enabled: bool,
}

impl ManagedKeys {
    /// One new key.
    pub(crate) fn new(kind: KeyKind, now: SystemTime) -> anyhow::Result<ManagedKeys> {
        Ok(ManagedKeys { kind, keys: vec![new_key(kind, now)?], is_enabled: true })
    }

    pub(super) fn parse(text: &[u8]) -> anyhow::Result<ManagedKeys> {
        let file = json::parse(text).context("it is no JSON")?;
        let [rule] = file.items_at(&["resources"]) else { bail!("it does not have one rule") };
        let [resource] = rule.items_at(&["resources"]) else { bail!("it is not about one resource") };
        ensure!(resource.as_str() == Some("secrets"), "it is not about Secrets");
        let [first, second] = rule.items_at(&["providers"]) else { bail!("it does not have two providers") };
        let is_enabled = second.get("identity").is_some();
        let provider = if is_enabled { first } else { second };
        let other = if is_enabled { second } else { first };
        ensure!(other.get("identity").is_some(), "it has no identity provider");
        let kind = [KeyKind::Secretbox, KeyKind::AesCbc];
        let kind = kind.into_iter().find(|kind| provider.get(kind.field()).is_some());
        let kind = kind.context("it has a provider of another kind")?;
        let key = |key: &Value| {
            let name = key.str_at(&["name"])?.to_owned();
            Some(ManagedKey { name, secret: Zeroizing::new(key.str_at(&["secret"])?.to_owned()) })
        };
        let keys: Option<Vec<ManagedKey>> =
            provider.items_at(&[kind.field(), "keys"]).iter().map(key).collect();
        let keys = keys.context("it has a key without name and secret")?;
        ensure!((1..=2).contains(&keys.len()), "it has {} keys", keys.len());
        Ok(ManagedKeys { kind, keys, is_enabled })
    }

    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let key = |key: &ManagedKey| value!({"name": (key.name.as_str()), "secret": (key.secret.as_str())});
        let mut provider = value!({});
        provider.set(&[self.kind.field()], value!({"keys": []}));
        provider
            .set(&[self.kind.field(), "keys"], Value::from(self.keys.iter().map(key).collect::<Vec<_>>()));
        let identity = value!({"identity": {}});
        let providers = if self.is_enabled { [provider, identity] } else { [identity, provider] };
        let mut file = value!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": []}],
        });
        let rules = file.get_mut("resources").and_then(Value::as_array_mut);
        if let Some(rule) = rules.and_then(|rules| rules.first_mut()) {
            rule.set(&["providers"], Value::from(providers.to_vec()));
        }
        Zeroizing::new(json::write_to_string(&file))
    }

    /// The time in a name orders keys, so that an interrupted rotation knows which one is new.
    pub(super) fn stage(&self) -> Stage {
        match self.keys.as_slice() {
            [first, second] if first.name < second.name => Stage::Prepare,
            [_, _] => Stage::Rotate,
            _ => Stage::Start,
        }
    }

    /// Adds a new key, which decrypts.
    pub(super) fn prepare(&mut self, now: SystemTime) -> anyhow::Result<()> {
        self.expect(Stage::Start)?;
        ensure!(self.is_enabled, "encryption is disabled; run `corten secrets-encrypt enable` first");
        let key = new_key(self.kind, now)?;
        ensure!(
            self.keys.iter().all(|known| known.name < key.name),
            "the clock is behind that of the last key"
        );
        self.keys.push(key);
        Ok(())
    }

    /// Encrypts with the new key.
    pub(super) fn rotate(&mut self) -> anyhow::Result<()> {
        self.expect(Stage::Prepare)?;
        self.keys.swap(0, 1);
        Ok(())
    }

    /// Removes the old key.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.expect(Stage::Rotate)?;
        self.keys.truncate(1);
        Ok(())
    }

    fn expect(&self, stage: Stage) -> anyhow::Result<()> {
        let found = self.stage();
        ensure!(
            found == stage,
            "the rotation is at stage {}, not {}; `corten secrets-encrypt rotate-keys` continues it",
            found.name(),
            stage.name()
        );
        Ok(())
    }

    /// The names of the keys, the encrypting one first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name.as_str())
    }

    pub(super) fn kind(&self) -> KeyKind {
        self.kind
    }
}

fn new_key(kind: KeyKind, now: SystemTime) -> anyhow::Result<ManagedKey> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret).context("cannot read random bytes")?;
    let now = Timestamp::try_from(now).context("the clock is out of range")?;
    // Names are part of stored values, and may have no colon.
    let name = format!("{}key-{}", kind.field(), now.strftime("%Y%m%dT%H%M%S%.6fZ"));
    Ok(ManagedKey { name, secret: Zeroizing::new(STANDARD.encode(*secret)) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
    }

    #[test]
    fn the_file_is_the_record_of_a_rotation() {
        let mut keys = ManagedKeys::new(KeyKind::Secretbox, at(0)).unwrap();
        let first: Vec<String> = keys.names().map(str::to_owned).collect();
        assert_eq!(keys.stage(), Stage::Start);
        assert!(keys.rotate().is_err() && keys.finish().is_err());
        assert!(keys.clone().prepare(at(0)).is_err(), "names order the keys");
        keys.prepare(at(1)).unwrap();
        assert_eq!(keys.stage(), Stage::Prepare);
        assert_eq!(keys.names().next(), Some(first[0].as_str()), "the old key encrypts");
        assert!(keys.prepare(at(2)).is_err() && keys.finish().is_err());
        keys.rotate().unwrap();
        assert_eq!(keys.stage(), Stage::Rotate);
        assert_eq!(keys.names().nth(1), Some(first[0].as_str()), "the old key decrypts");
        keys.finish().unwrap();
        assert_eq!((keys.stage(), keys.names().count()), (Stage::Start, 1));
        assert_ne!(keys.names().next(), Some(first[0].as_str()));
    }

    #[test]
    fn the_file_is_a_configuration_and_is_parsed_again() {
        for kind in [KeyKind::Secretbox, KeyKind::AesCbc] {
            let mut keys = ManagedKeys::new(kind, at(0)).unwrap();
            keys.prepare(at(1)).unwrap();
            for is_enabled in [true, false] {
                keys.is_enabled = is_enabled;
                let text = keys.to_text();
                assert!(ManagedKeys::parse(text.as_bytes()).unwrap() == keys, "{kind:?}");
            }
        }
        for foreign in
            ["{}", "[", r#"{"resources":[{"resources":["secrets"],"providers":[{"identity":{}}]}]}"#]
        {
            assert!(ManagedKeys::parse(foreign.as_bytes()).is_err(), "{foreign}");
        }
    }
}
