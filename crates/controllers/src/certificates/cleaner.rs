//! Removes certificate signing requests: an hour after they were issued, denied or failed, a day after they were
//! created or approved if nothing has come of them, and when their certificate has expired.
//!
//! Watches certificate signing requests, and only deletes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, meta, time};
use corten_client::{Caches, DeleteOptions, Key, kinds};
use corten_pki::{identity_of, pem_certificates};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::{SignedDuration, Timestamp};

use super::{ACCOUNT, APPROVED, DENIED, FAILED, is_issued};

/// The retention of a decided request, and of a pending one.
const DECIDED: SignedDuration = SignedDuration::from_hours(1);
const PENDING: SignedDuration = SignedDuration::from_hours(24);

pub(crate) struct Cleaner;

impl Controller for Cleaner {
    /// The request, if it exists.
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        "certificatesigningrequest-cleaner-controller"
    }

    fn account(&self) -> &'static str {
        ACCOUNT
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::CERTIFICATE_SIGNING_REQUESTS)]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Value> {
        caches.of(&kinds::CERTIFICATE_SIGNING_REQUESTS).get(key).map(|csr| csr.tree())
    }

    fn plan(&self, key: &Key, csr: &Option<Value>, now: Timestamp) -> Plan {
        let Some(csr) = csr.as_ref().filter(|csr| !meta::is_deleting(csr)) else { return Plan::done() };
        let Some(end) = end(csr) else { return Plan::done() };
        if end > now {
            return Plan::done().requeue_after(end.duration_since(now).try_into().unwrap_or_default());
        }
        let options = DeleteOptions { uid: Some(meta::uid(csr).into()), ..DeleteOptions::default() };
        let (kind, key) = (&kinds::CERTIFICATE_SIGNING_REQUESTS, key.clone());
        Plan::done().then(Action::Delete { kind, key, options })
    }

    fn workers(&self) -> usize {
        1
    }
}

/// The time at which a request is removed.
fn end(csr: &Value) -> Option<Timestamp> {
    let conditions = csr.items_at(&["status", "conditions"]);
    if conditions.is_empty() {
        return after(csr, &["metadata", "creationTimestamp"], PENDING);
    }
    let of_condition = |condition: &Value| {
        let keep = match condition.str_at(&["type"])? {
            DENIED | FAILED => DECIDED,
            APPROVED if is_issued(csr) => DECIDED,
            APPROVED => PENDING,
            _ => return None,
        };
        after(condition, &["lastUpdateTime"], keep)
    };
    let approved = conditions.iter().any(|condition| condition.str_at(&["type"]) == Some(APPROVED));
    let certificate = if approved { certificate_end(csr) } else { None };
    conditions.iter().filter_map(of_condition).chain(certificate).min()
}

fn after(object: &Value, path: &[&str], keep: SignedDuration) -> Option<Timestamp> {
    time::parse(object.str_at(path)?).ok()?.checked_add(keep).ok()
}

/// The expiry of the certificate that was issued.
fn certificate_end(csr: &Value) -> Option<Timestamp> {
    let text = STANDARD.decode(csr.str_at(&["status", "certificate"])?).ok()?;
    let certificates = pem_certificates(std::str::from_utf8(&text).ok()?).ok()?;
    let end = identity_of(certificates.first()?).ok()?.not_after;
    Timestamp::try_from(end).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corten_api::value;

    use super::*;
    use crate::certificates::testing;
    use crate::testing::{at, at_text};

    const HOUR: i64 = 3600;

    /// Checks the removal of a request, in seconds since its creation.
    #[track_caller]
    fn removed(conditions: &[(&str, i64)], certificate: &str, expected: i64) {
        let conditions: Vec<Value> =
            conditions.iter().map(|(kind, at)| testing::condition(kind, *at)).collect();
        let mut csr = value!({
            "metadata": {"name": "csr", "uid": "u", "creationTimestamp": (at_text(0))},
            "status": {"conditions": conditions},
        });
        if !certificate.is_empty() {
            csr.set(&["status", "certificate"], certificate);
        }
        let plan = |seconds| Cleaner.plan(&Key::new("", "csr"), &Some(csr.clone()), at(seconds));
        assert_eq!(plan(expected - 60), Plan::done().requeue_after(Duration::from_secs(60)));
        let due = plan(expected);
        assert!(matches!(due.actions().collect::<Vec<_>>()[..], [Action::Delete { .. }]), "{due:?}");
    }

    #[test]
    fn when_requests_go() {
        removed(&[], "", 24 * HOUR);
        removed(&[("Denied", 600)], "", 600 + HOUR);
        removed(&[("Approved", 600), ("Failed", 900)], "", 900 + HOUR);
        removed(&[("Approved", 600)], "", 600 + 24 * HOUR);
        removed(&[("Approved", 600)], "bm90IGEgY2VydGlmaWNhdGU=", 600 + HOUR);
    }

    #[test]
    fn when_a_certificate_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let made = at(-365 * 24 * HOUR + 1800);
        let authority =
            corten_pki::Authority::load_or_create(directory.path(), "ca", "kubernetes", made.into()).unwrap();
        let policy = corten_pki::SigningPolicy {
            lifetime: Duration::from_secs(365 * 24 * 3600 + 300),
            usages: &["client auth"],
        };
        let certificate = authority
            .sign(&testing::Asked::node().read(), &policy, made.into())
            .map(|pem| STANDARD.encode(pem));
        removed(&[("Approved", 0)], &certificate.unwrap(), 1800);
    }

    #[test]
    fn requests_without_a_time_are_kept() {
        let csr = value!({"metadata": {"name": "csr"}, "status": {"conditions": [{"type": "Approved"}]}});
        assert!(Cleaner.plan(&Key::new("", "csr"), &Some(csr), at(0)).is_done());
        assert!(Cleaner.plan(&Key::new("", "csr"), &None, at(0)).is_done());
    }
}
