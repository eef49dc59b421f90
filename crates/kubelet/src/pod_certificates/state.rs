//! How it stands with one certificate of a pod: what is held, what is waited for, and whether it was refused for good. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use corten_api::Value;
use corten_pki::{pem_certificates, to_pem};
use jiff::Timestamp;

/// A request that nobody has seen for so long was deleted.
const GIVEN_UP: Duration = Duration::from_secs(10 * 60);
/// A certificate that should have been renewed for so long is overdue.
const OVERDUE: Duration = Duration::from_secs(10 * 60);
/// So that pods that came together do not renew together.
const SPREAD_SECONDS: u64 = 5 * 60;

/// A private key and the chain of certificates for it, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bundle {
    pub(crate) key: String,
    pub(crate) chain: String,
}

/// A request that was made.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    name: String,
    key: String,
    given_up_at: Timestamp,
}

impl Pending {
    pub(super) fn new(name: String, key: String, now: Timestamp) -> Pending {
        Pending { name, key, given_up_at: now + GIVEN_UP }
    }
}

#[derive(Debug, Clone)]
struct Held {
    bundle: Bundle,
    renew_at: Timestamp,
    not_after: Timestamp,
    told_overdue: bool,
    told_expired: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    held: Option<Held>,
    pending: Option<Pending>,
    refused: Option<String>,
}

/// What is told of the pod: a reason and a message.
type Told = (&'static str, String);

impl State {
    /// The request that is waited for.
    pub(super) fn pending(&self) -> Option<&str> {
        self.pending.as_ref().map(|pending| pending.name.as_str())
    }

    /// Takes in what became of the request, and says what there is to tell.
    pub(super) fn review(&mut self, request: Option<&Value>, now: Timestamp, place: &impl Hash) -> Vec<Told> {
        let mut told = Vec::new();
        match (self.pending.clone(), request) {
            (Some(pending), Some(request)) => told.extend(self.settle(&pending, request, place)),
            (Some(pending), None) if now > pending.given_up_at => self.pending = None,
            _ => {}
        }
        told.extend(self.late(now));
        told
    }

    fn settle(&mut self, pending: &Pending, request: &Value, place: &impl Hash) -> Option<Told> {
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

    /// What is told once when a certificate is not renewed in time.
    fn late(&mut self, now: Timestamp) -> Vec<Told> {
        let mut told = Vec::new();
        let Some(held) = self.held.as_mut().filter(|_| self.refused.is_none()) else { return told };
        if now > held.renew_at + OVERDUE && !held.told_overdue {
            held.told_overdue = true;
            told.push(("CertificateOverdueForRefresh", "PodCertificate refresh overdue".to_owned()));
        }
        if now > held.not_after && !held.told_expired {
            held.told_expired = true;
            told.push(("CertificateExpired", "PodCertificate expired".to_owned()));
        }
        told
    }

    /// Whether it is time for a request.
    pub(super) fn has_to_ask(&self, now: Timestamp) -> bool {
        let is_fresh = self.held.as_ref().is_some_and(|held| now < held.renew_at);
        self.refused.is_none() && self.pending.is_none() && !is_fresh
    }

    pub(super) fn wait_for(&mut self, pending: Pending) {
        self.pending = Some(pending);
    }

    pub(super) fn bundle(&self) -> Result<Bundle, String> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let held = self.held.as_ref().map(|held| held.bundle.clone());
        held.ok_or_else(|| "credential bundle is not issued yet".to_owned())
    }
}

impl Held {
    fn of(pending: &Pending, request: &Value, place: &impl Hash) -> Held {
        let chain = request.str_at(&["status", "certificateChain"]).unwrap_or_default();
        // The server has made sure that it can be read.
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
            bundle: Bundle { key: pending.key.clone(), chain },
            renew_at: begin.checked_add(spread).unwrap_or(begin),
            not_after: time("notAfter"),
            told_overdue: false,
            told_expired: false,
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
    fn a_certificate_is_asked_for_held_and_renewed() {
        let mut state = State::default();
        assert!(state.has_to_ask(at(0)));
        state.wait_for(pending(0));
        assert!(!state.has_to_ask(at(0)));
        assert_eq!(state.pending(), Some("req-1"));
        assert!(state.review(Some(&value!({})), at(1), &"p").is_empty());
        assert_eq!(state.bundle(), Err("credential bundle is not issued yet".into()));
        assert!(state.review(Some(&answered("Issued")), at(2), &"p").is_empty());
        let first = Bundle { key: "key".into(), chain: to_pem(&[1; 30]) };
        assert_eq!(state.bundle(), Ok(first.clone()));
        assert!(!state.has_to_ask(at(9_999)));
        assert!(state.has_to_ask(at(10_300)));
        state.wait_for(pending(10_300));
        // What is held serves until there is something better.
        let reasons = |told: Vec<Told>| told.into_iter().map(|(reason, _)| reason).collect::<Vec<_>>();
        assert_eq!(state.bundle(), Ok(first));
        assert_eq!(reasons(state.review(None, at(10_901), &"p")), ["CertificateOverdueForRefresh"]);
        assert!(state.has_to_ask(at(10_901)), "a request that was deleted is made again");
        assert_eq!(reasons(state.review(None, at(20_001), &"p")), ["CertificateExpired"]);
        assert!(state.review(None, at(20_002), &"p").is_empty(), "things are told once");
    }

    #[test]
    fn what_is_refused_is_refused_for_good() {
        for (kind, why, told) in [
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
            state.wait_for(pending(0));
            assert_eq!(state.review(Some(&answered(kind)), at(1), &"p"), [(kind, told.to_owned())]);
            assert_eq!(state.bundle(), Err(why.to_owned()));
            assert!(!state.has_to_ask(at(1_000_000)));
        }
    }
}
