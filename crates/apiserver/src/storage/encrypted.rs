//! Stored forms that are sealed as an `EncryptionConfiguration` says, with upstream's prefixes and with the key in etcd as
//! authenticated data.
//!
//! Invariant: a value that cannot be sealed is not written, and one that cannot be opened is an error, with upstream's text.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use corten_store::{NewValue, Preparation, Revision, Translation};

use super::{ROOT, StoredForms};
use crate::encryption::EncryptionAtRest;

/// The stored forms of all kinds, encrypted.
pub struct EncryptedForms {
    forms: Arc<StoredForms>,
    encryption: Arc<EncryptionAtRest>,
    /// The prefix of the keys in etcd, with its slash.
    prefix: String,
}

impl EncryptedForms {
    pub fn new(
        forms: Arc<StoredForms>,
        encryption: Arc<EncryptionAtRest>,
        prefix: impl Into<String>,
    ) -> Arc<EncryptedForms> {
        Arc::new(EncryptedForms { forms, encryption, prefix: prefix.into() })
    }

    /// The key in etcd.
    fn context<'k>(&self, key: &'k str) -> Cow<'k, str> {
        match key.strip_prefix(ROOT) {
            Some(rest) if self.prefix != ROOT => format!("{}{rest}", self.prefix).into(),
            _ => key.into(),
        }
    }
}

impl Translation for EncryptedForms {
    fn store(&self, key: &str, value: &NewValue) -> Result<Vec<u8>, String> {
        let plain = self.forms.store(key, value)?;
        let sealed = self.encryption.seal_for_etcd(key, self.context(key).as_bytes(), &plain);
        Ok(sealed.map_err(|error| error.to_string())?.unwrap_or(plain))
    }

    fn load(&self, key: &str, stored: &Bytes, revision: Revision) -> Result<Bytes, String> {
        let opened = self.encryption.open_from_etcd(key, self.context(key).as_bytes(), stored);
        let opened = opened
            .map_err(|error| format!("data from the storage is not transformable revision=0: {error}"))?;
        let plain = opened.map_or_else(|| stored.clone(), |opened| opened.plain.into());
        self.forms
            .load(key, &plain, revision)
            .map_err(|error| format!("object not decodable revision={revision}: {error}"))
    }

    fn prepare<'v>(
        &self,
        values: &mut (dyn Iterator<Item = (String, &'v Bytes)> + 'v),
    ) -> Option<Preparation> {
        self.encryption.prepare(values.map(|(key, stored)| (key, stored.as_ref())))
    }

    fn is_stale(&self, key: &str, stored: &Bytes) -> bool {
        match self.encryption.open_from_etcd(key, self.context(key).as_bytes(), stored) {
            Ok(None) => self.encryption.seals(key) || self.forms.is_stale(key, stored),
            Ok(Some(opened)) => opened.is_stale || self.forms.is_stale(key, &opened.plain.into()),
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageMediaType;

    const KEYS: &str = "
        - resources: [secrets]
          providers:
          - aesgcm: {keys: [{name: new, secret: MDEyMzQ1Njc4OWFiY2RlZg==}, {name: old, secret: ZmVkY2JhOTg3NjU0MzIxMA==}]}
          - identity: {}
        - resources: ['widgets.example.com']
          providers: [{secretbox: {keys: [{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}}]
        ";

    fn forms(rules: &str, prefix: &str) -> Arc<EncryptedForms> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:";
        std::fs::write(file.path(), format!("{head}\n{rules}")).unwrap();
        let encryption =
            Arc::new(EncryptionAtRest::load(file.path(), false, corten_base::Clock::real()).unwrap());
        EncryptedForms::new(StoredForms::new(StorageMediaType::Protobuf), encryption, prefix)
    }

    fn secret() -> NewValue {
        let text = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":""},"data":{"k":"dg=="},"type":"Opaque"}"#;
        let at = text.find("\"\"").map(|at| at + 1);
        NewValue { bytes: text.as_bytes().to_vec(), revision_at: at, note: None }
    }

    #[test]
    fn values_are_sealed_by_resource_and_bound_to_their_key_in_etcd() {
        let (forms, elsewhere) = (forms(KEYS, ROOT), forms(KEYS, "/other/"));
        let key = "/registry/secrets/n/a";
        let sealed = Bytes::from(forms.store(key, &secret()).unwrap());
        assert!(sealed.starts_with(b"k8s:enc:aesgcm:v1:new:"));
        let loaded = forms.load(key, &sealed, 7).unwrap();
        assert!(loaded.starts_with(b"{\"kind\":\"Secret\"") && !forms.is_stale(key, &sealed));
        for (forms, key) in [(&elsewhere, key), (&forms, "/registry/secrets/n/b")] {
            let refused = forms.load(key, &sealed, 7).unwrap_err();
            let expected =
                "data from the storage is not transformable revision=0: message authentication failed";
            assert_eq!(refused, expected);
        }
        assert!(forms.store("/registry/configmaps/n/a", &secret()).unwrap().starts_with(b"k8s\0"));
        let widget = forms.store("/registry/example.com/widgets/n/a", &secret()).unwrap();
        assert!(widget.starts_with(b"k8s:enc:secretbox:v1:k:"));
    }

    #[test]
    fn values_in_an_earlier_form_are_stale() {
        let forms = forms(KEYS, ROOT);
        let key = "/registry/secrets/n/a";
        let plain = Bytes::from(forms.forms.store(key, &secret()).unwrap());
        assert!(forms.is_stale(key, &plain), "not sealed");
        let old = "- resources: [secrets]\n  providers: [{aesgcm: {keys: [{name: old, secret: ZmVkY2JhOTg3NjU0MzIxMA==}]}}]";
        let sealed = Bytes::from(self::forms(old, ROOT).store(key, &secret()).unwrap());
        assert!(forms.is_stale(key, &sealed), "sealed with the second key");
        assert!(forms.load(key, &sealed, 1).is_ok());
        let map = "/registry/configmaps/n/a";
        let json = Bytes::from_static(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#);
        assert!(forms.is_stale(map, &json), "not in protobuf");
        let lease = "/registry/leases/n/a";
        let mut old = Vec::new();
        corten_api::protobuf::encode_envelope("coordination.k8s.io/v1beta1", "Lease", b"", &mut old);
        assert!(forms.is_stale(lease, &old.into()), "in another version");
    }

    #[test]
    fn values_without_their_key_are_errors() {
        let forms = forms(KEYS, ROOT);
        for (key, stored, expected) in [
            (
                "/registry/configmaps/n/a",
                &b"k8s:enc:aescbc:v1:k:x"[..],
                "data from the storage is not transformable revision=0: identity transformer tried to read \
                 encrypted data",
            ),
            (
                "/registry/example.com/widgets/n/a",
                b"{}",
                "data from the storage is not transformable revision=0: no matching prefix found",
            ),
            (
                "/registry/secrets/n/a",
                b"k8s:enc:aesgcm:v1:gone:x",
                "data from the storage is not transformable revision=0: no matching key was found for the \
                 provided AES transformer",
            ),
        ] {
            let loaded = forms.load(key, &Bytes::from_static(stored), 3).unwrap_err();
            assert_eq!(loaded, expected);
        }
        let undecodable =
            forms.load("/registry/configmaps/n/a", &Bytes::from_static(b"k8s\0x"), 3).unwrap_err();
        assert!(undecodable.starts_with("object not decodable revision=3: "), "{undecodable}");
    }
}
