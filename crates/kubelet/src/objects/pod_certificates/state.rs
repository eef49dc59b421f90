//! The state of one pod certificate: issued, pending, or refused for good. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use corten_api::Value;
use corten_pki::{pem_certificates, to_pem};
use jiff::Timestamp;

/// The time after which a pending request that is not in the cache counts as deleted.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The time after `beginRefreshAt` from which on a renewal is overdue.
const OVERDUE: Duration = Duration::from_secs(10 * 60);
/// The spread of renewals, so that pods that started together do not renew together.
const SPREAD_SECONDS: u64 = 5 * 60;

/// A private key and its certificate chain, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CredentialBundle {
    pub(crate) key: String,
    pub(crate) chain: String,
}

/// The reason why there is no certificate; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotIssued {
    #[error("{0}")]
    Refused(String),
    #[error("credential bundle is not issued yet")]
    Pending,
}

/// A request that was created.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    name: String,
    key: String,
    times_out_at: Timestamp,
}

impl Pending {
    pub(super) fn new(name: String, key: String, now: Timestamp) -> Pending {
        Pending { name, key, times_out_at: now + REQUEST_TIMEOUT }
    }
}

#[derive(Debug, Clone)]
struct Held {
    bundle: CredentialBundle,
    renew_at: Timestamp,
    not_after: Timestamp,
    overdue_recorded: bool,
    expiry_recorded: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    held: Option<Held>,
    pending: Option<Pending>,
    refused: Option<String>,
}

/// An event about the pod: reason and message.
type PodEvent = (&'static str, String);

impl State {
    /// The name of the pending request.
    pub(super) fn pending(&self) -> Option<&str> {
        self.pending.as_ref().map(|pending| pending.name.as_str())
    }

    /// Takes over the outcome of the request. Returns the events to record.
    pub(super) fn review(
        &mut self,
        request: Option<&Value>,
        now: Timestamp,
        place: &impl Hash,
    ) -> Vec<PodEvent> {
        let mut events = Vec::new();
        match (self.pending.clone(), request) {
            (Some(pending), Some(request)) => events.extend(self.settle(&pending, request, place)),
            (Some(pending), None) if now > pending.times_out_at => self.pending = None,
            _ => {}
        }
        events.extend(self.late_events(now));
        events
    }

    fn settle(&mut self, pending: &Pending, request: &Value, place: &impl Hash) -> Option<PodEvent> {
        let condition = request.items_at(&["status", "conditions"]).iter().find_map(|condition| {
            let kinds = ["Denied", "Failed", "Issued"];
            let kind = condition.str_at(&["type"])?;
            kinds.into_iter().find(|known| *known == kind).map(|kind| (kind, condition))
        });
        let (kind, condition) = condition?;
        self.pending = None;
        if kind == "Issued" {
            self.held = Some(Held::of(pending, request, place));
            return None;
        }
        let text = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        let (verb, past) = if kind == "Denied" { ("was denied", "denied") } else { ("failed", "failed") };
        let why = format!("reason={:?} message={:?}", text("reason"), text("message"));
        self.refused = Some(format!("PodCertificateRequest was permanently {past}: {why}"));
        let namespace = request.str_at(&["metadata", "namespace"]).unwrap_or_default();
        let why = format!("reason={:?}, message={:?}", text("reason"), text("message"));
        Some((kind, format!("PodCertificateRequest {namespace}/{} {verb}, {why}", pending.name)))
    }

    /// The events of a renewal that is late, each recorded once.
    fn late_events(&mut self, now: Timestamp) -> Vec<PodEvent> {
        let mut events = Vec::new();
        let Some(held) = self.held.as_mut().filter(|_| self.refused.is_none()) else { return events };
        if now > held.renew_at + OVERDUE && !held.overdue_recorded {
            held.overdue_recorded = true;
            events.push(("CertificateOverdueForRefresh", "PodCertificate refresh overdue".to_owned()));
        }
        if now > held.not_after && !held.expiry_recorded {
            held.expiry_recorded = true;
            events.push(("CertificateExpired", "PodCertificate expired".to_owned()));
        }
        events
    }

    /// Returns true if a new request has to be created.
    pub(super) fn needs_request(&self, now: Timestamp) -> bool {
        let is_fresh = self.held.as_ref().is_some_and(|held| now < held.renew_at);
        self.refused.is_none() && self.pending.is_none() && !is_fresh
    }

    pub(super) fn set_pending(&mut self, pending: Pending) {
        self.pending = Some(pending);
    }

    pub(super) fn bundle(&self) -> Result<CredentialBundle, NotIssued> {
        if let Some(refused) = &self.refused {
            return Err(NotIssued::Refused(refused.clone()));
        }
        let held = self.held.as_ref().map(|held| held.bundle.clone());
        held.ok_or(NotIssued::Pending)
    }
}

impl Held {
    fn of(pending: &Pending, request: &Value, place: &impl Hash) -> Held {
        let chain = request.str_at(&["status", "certificateChain"]).unwrap_or_default();
        // The API server has validated the chain.
        let chain = pem_certificates(chain).unwrap_or_default();
        let chain = chain.iter().map(|certificate| to_pem(certificate)).collect();
        let time = |field: &str| {
            let text = request.str_at(&["status", field]).unwrap_or_default();
            text.parse::<Timestamp>().unwrap_or(Timestamp::MAX)
        };
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        let spread = Duration::from_secs(hasher.finish() % SPREAD_SECONDS);
        let begin = time("beginRefreshAt");
        Held {
            bundle: CredentialBundle { key: pending.key.clone(), chain },
            renew_at: begin.checked_add(spread).unwrap_or(begin),
            not_after: time("notAfter"),
            overdue_recorded: false,
            expiry_recorded: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pending(now: i64) -> Pending {
        Pending::new("req-1".into(), "key".into(), at(now))
    }

    fn answered(kind: &str) -> Value {
        value!({
            "metadata": {"namespace": "n"},
            "status": {
                "conditions": [{"type": (kind), "reason": "Because", "message": "so"}],
                "certificateChain": (format!("words\n{}", to_pem(&[1; 30]))),
                "beginRefreshAt": (at(10_000).to_string()), "notAfter": (at(20_000).to_string()),
            },
        })
    }

    #[test]
    fn a_certificate_is_requested_issued_and_renewed() {
        let mut state = State::default();
        assert!(state.needs_request(at(0)));
        state.set_pending(pending(0));
        assert!(!state.needs_request(at(0)));
        assert_eq!(state.pending(), Some("req-1"));
        assert!(state.review(Some(&value!({})), at(1), &"p").is_empty());
        assert_eq!(state.bundle(), Err(NotIssued::Pending));
        assert!(state.review(Some(&answered("Issued")), at(2), &"p").is_empty());
        let first = CredentialBundle { key: "key".into(), chain: to_pem(&[1; 30]) };
        assert_eq!(state.bundle(), Ok(first.clone()));
        assert!(!state.needs_request(at(9_999)));
        assert!(state.needs_request(at(10_300)));
        state.set_pending(pending(10_300));
        // The old certificate is used until the new one is issued.
        let reasons =
            |events: Vec<PodEvent>| events.into_iter().map(|(reason, _)| reason).collect::<Vec<_>>();
        assert_eq!(state.bundle(), Ok(first));
        assert_eq!(reasons(state.review(None, at(10_901), &"p")), ["CertificateOverdueForRefresh"]);
        assert!(state.needs_request(at(10_901)), "a request that was deleted is made again");
        assert_eq!(reasons(state.review(None, at(20_001), &"p")), ["CertificateExpired"]);
        assert!(state.review(None, at(20_002), &"p").is_empty(), "things are told once");
    }

    #[test]
    fn a_refused_request_is_not_repeated() {
        for (kind, why, events) in [
            (
                "Denied",
                r#"PodCertificateRequest was permanently denied: reason="Because" message="so""#,
                r#"PodCertificateRequest n/req-1 was denied, reason="Because", message="so""#,
            ),
            (
                "Failed",
                r#"PodCertificateRequest was permanently failed: reason="Because" message="so""#,
                r#"PodCertificateRequest n/req-1 failed, reason="Because", message="so""#,
            ),
        ] {
            let mut state = State::default();
            state.set_pending(pending(0));
            assert_eq!(state.review(Some(&answered(kind)), at(1), &"p"), [(kind, events.to_owned())]);
            assert_eq!(state.bundle(), Err(NotIssued::Refused(why.to_owned())));
            assert!(!state.needs_request(at(1_000_000)));
        }
    }
}
