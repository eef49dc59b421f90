//! Signs approved certificate signing requests for the built-in signers.
//!
//! Watches certificate signing requests. Writes the certificate into the status, or the reason of a failure; never
//! signs a request that is not approved, that exceeds the rules of its signer, or whose signer has no authority here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, time, value};
use corten_client::{Caches, Key, kinds};
use corten_pki::{Authority, CertificateRequest, SigningPolicy};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use super::{
    ACCOUNT, FAILED, is_approved, is_issued, request, retry_delay, rules, signer_name, usages, with_condition,
};

/// The shortest lifetime: a shorter certificate would expire before it is used.
const SHORTEST: Duration = Duration::from_secs(600);

/// Returns the signing authority. Called for every signature, so that a rotated one is used at once.
pub type AuthoritySource = Arc<dyn Fn() -> Result<Arc<Authority>, String> + Send + Sync>;

/// The signers, and the lifetime of certificates.
#[derive(Clone)]
pub struct SigningOptions {
    authorities: BTreeMap<&'static str, AuthoritySource>,
    /// The default lifetime of a certificate, which is also the longest.
    pub duration: Duration,
}

impl Default for SigningOptions {
    fn default() -> SigningOptions {
        SigningOptions { authorities: BTreeMap::new(), duration: Duration::from_secs(365 * 24 * 3600) }
    }
}

impl fmt::Debug for SigningOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signers: Vec<_> = self.authorities.keys().collect();
        f.debug_struct("SigningOptions").field("signers", &signers).field("duration", &self.duration).finish()
    }
}

/// The built-in signers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    KubeletServing,
    KubeletClient,
    KubeApiserverClient,
    LegacyUnknown,
}

impl Signer {
    pub const ALL: [Signer; 4] =
        [Signer::KubeletServing, Signer::KubeletClient, Signer::KubeApiserverClient, Signer::LegacyUnknown];

    fn name(self) -> &'static str {
        match self {
            Signer::KubeletServing => rules::KUBELET_SERVING,
            Signer::KubeletClient => rules::KUBE_APISERVER_CLIENT_KUBELET,
            Signer::KubeApiserverClient => rules::KUBE_APISERVER_CLIENT,
            Signer::LegacyUnknown => rules::LEGACY_UNKNOWN,
        }
    }
}

impl SigningOptions {
    /// Adds a signer with its authority.
    #[must_use]
    pub fn with(mut self, signer: Signer, authority: AuthoritySource) -> SigningOptions {
        self.authorities.insert(signer.name(), authority);
        self
    }

    /// Adds all signers with one authority.
    pub fn with_all(self, authority: &AuthoritySource) -> SigningOptions {
        Signer::ALL.into_iter().fold(self, |options, signer| options.with(signer, authority.clone()))
    }
}

pub(crate) struct Signing(pub(crate) SigningOptions);

/// The state of one request.
pub(crate) struct World {
    csr: Value,
    authority: Result<Arc<Authority>, String>,
}

impl Controller for Signing {
    /// `None` unless the request exists and its signer is configured.
    type World = Option<World>;

    fn name(&self) -> &'static str {
        "certificatesigningrequest-signing-controller"
    }

    fn account(&self) -> &'static str {
        ACCOUNT
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::CERTIFICATE_SIGNING_REQUESTS)]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<World> {
        let csr = caches.of(&kinds::CERTIFICATE_SIGNING_REQUESTS).get(key)?.tree();
        let authority = self.0.authorities.get(signer_name(&csr)).filter(|_| is_waiting(&csr))?();
        Some(World { csr, authority })
    }

    fn plan(&self, _: &Key, world: &Option<World>, now: Timestamp) -> Plan {
        let Some(World { csr, authority }) = world.as_ref().filter(|world| is_waiting(&world.csr)) else {
            return Plan::done();
        };
        let Some(request) = request(csr) else { return Plan::done() };
        if let Err(why) = rules::check(signer_name(csr), &request, &usages(csr)) {
            return write(with_condition(csr, failure(&why, now)));
        }
        let signed = authority.clone().and_then(|authority| self.sign(&authority, csr, &request, now));
        match signed {
            Ok(certificate) => {
                let mut csr = csr.clone();
                csr.set(&["status", "certificate"], STANDARD.encode(certificate));
                write(csr)
            }
            Err(error) => {
                tracing::warn!(signer = signer_name(csr), err = error, "cannot sign certificate");
                Plan::done().requeue_after(retry_delay(csr, now))
            }
        }
    }
}

impl Signing {
    fn sign(
        &self,
        authority: &Authority,
        csr: &Value,
        request: &CertificateRequest,
        now: Timestamp,
    ) -> Result<String, String> {
        let lifetime = self.lifetime(csr.int_at(&["spec", "expirationSeconds"]));
        let policy = SigningPolicy { lifetime, usages: &usages(csr) };
        authority.sign(request, &policy, now.into()).map_err(|error| error.to_string())
    }

    /// The requested lifetime, within limits.
    fn lifetime(&self, asked: Option<i64>) -> Duration {
        let longest = self.0.duration;
        let asked = asked.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)));
        match asked {
            Some(asked) if asked <= longest => asked.max(SHORTEST),
            _ => longest,
        }
    }
}

fn is_waiting(csr: &Value) -> bool {
    // A condition without a status dates from before the field existed.
    let failed = |c: &Value| {
        c.str_at(&["type"]) == Some(FAILED) && matches!(c.str_at(&["status"]), None | Some("" | "True"))
    };
    !is_issued(csr) && is_approved(csr) && !csr.items_at(&["status", "conditions"]).iter().any(failed)
}

fn failure(why: &str, now: Timestamp) -> Value {
    value!({
        "type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": why,
        "lastUpdateTime": (time::format(now)),
    })
}

fn write(object: Value) -> Plan {
    let kind = &kinds::CERTIFICATE_SIGNING_REQUESTS;
    Plan::done().then(Action::Update { kind, object, subresource: "status" })
}

#[cfg(test)]
mod tests {
    use corten_pki::{identity_of, pem_certificates};

    use super::*;
    use crate::certificates::testing::{self, Asked};
    use crate::certificates::{APPROVED, DENIED};
    use crate::conditions::condition;
    use crate::testing::at;

    const CLIENT: [&str; 2] = ["digital signature", "client auth"];

    fn authority() -> Arc<Authority> {
        let directory = tempfile::tempdir().unwrap();
        Arc::new(Authority::load_or_create(directory.path(), "ca", "kubernetes", at(0).into()).unwrap())
    }

    fn plan(csr: Value) -> Plan {
        let signing = Signing(SigningOptions::default());
        signing.plan(&Key::new("", "csr"), &Some(World { csr, authority: Ok(authority()) }), at(60))
    }

    fn approved(asked: Asked<'_>, signer: &str, usages: &[&str]) -> Value {
        with_condition(&asked.csr(signer, usages, "user"), testing::condition(APPROVED, 0))
    }

    fn written(plan: &Plan) -> &Value {
        match plan.actions().collect::<Vec<_>>()[..] {
            [Action::Update { object, subresource: "status", .. }] => object,
            _ => panic!("{plan:?}"),
        }
    }

    #[test]
    fn approved_requests_are_signed() {
        let serving = Asked { names: &["10.0.0.1"], ..Asked::node() };
        let user = Asked { common_name: "ann", organizations: &["dev"], names: &[] };
        for (asked, signer, usages) in [
            (Asked::node(), rules::KUBE_APISERVER_CLIENT_KUBELET, &CLIENT[..]),
            (serving, rules::KUBELET_SERVING, &["digital signature", "server auth"][..]),
            (user, rules::KUBE_APISERVER_CLIENT, &["client auth"][..]),
            (user, rules::LEGACY_UNKNOWN, &["any", "cert sign"][..]),
        ] {
            let plan = plan(approved(asked, signer, usages));
            let text = STANDARD.decode(written(&plan).str_at(&["status", "certificate"]).unwrap()).unwrap();
            let certificates = pem_certificates(&String::from_utf8(text).unwrap()).unwrap();
            let identity = identity_of(&certificates[0]).unwrap();
            assert_eq!(identity.common_name, asked.common_name, "{signer}");
            assert_eq!(identity.organizations, asked.organizations, "{signer}");
        }
    }

    #[test]
    fn requests_beyond_the_signers_rules_fail() {
        let plan = plan(approved(Asked::node(), rules::KUBE_APISERVER_CLIENT, &["server auth"]));
        let failed = condition(written(&plan), FAILED).unwrap();
        assert_eq!(failed.str_at(&["reason"]), Some("SignerValidationFailure"));
        assert_eq!(failed.str_at(&["message"]), Some("invalid usage for client certificate: server auth"));
        assert_eq!(failed.str_at(&["lastUpdateTime"]), Some(crate::testing::at_text(60).as_str()));
        assert_eq!(written(&plan).str_at(&["status", "certificate"]), None);
    }

    #[test]
    fn others_are_left_alone() {
        let signer = rules::KUBE_APISERVER_CLIENT_KUBELET;
        let pending = Asked::node().csr(signer, &CLIENT, "user");
        let approved = approved(Asked::node(), signer, &CLIENT);
        let denied = with_condition(&approved, testing::condition(DENIED, 0));
        let failed = with_condition(&approved, testing::condition(FAILED, 0));
        let mut issued = approved.clone();
        issued.set(&["status", "certificate"], "eA==");
        for (case, csr) in [("pending", pending), ("denied", denied), ("failed", failed), ("issued", issued)]
        {
            assert!(plan(csr).is_done(), "{case}");
        }
    }

    #[test]
    fn an_authority_that_cannot_sign_is_tried_again() {
        let csr = approved(Asked::node(), rules::KUBE_APISERVER_CLIENT_KUBELET, &CLIENT);
        let world = World { csr, authority: Err("no such file".to_owned()) };
        let plan = Signing(SigningOptions::default()).plan(&Key::new("", "csr"), &Some(world), at(60));
        assert_eq!(plan, Plan::done().requeue_after(Duration::from_secs(60)));
    }

    #[test]
    fn lifetimes() {
        let signing = Signing(SigningOptions { duration: Duration::from_secs(3600), ..Default::default() });
        for (asked, expected) in [
            (None, 3600),
            (Some(601), 601),
            (Some(3600), 3600),
            (Some(3601), 3600),
            (Some(599), 600),
            (Some(-5), 600),
        ] {
            assert_eq!(signing.lifetime(asked), Duration::from_secs(expected), "{asked:?}");
        }
    }
}
