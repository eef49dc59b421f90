//! Signs approved certificate signing requests for the signers of Kubernetes itself.
//!
//! Watches certificate signing requests. Writes the certificate into the status, or why there will be none; never
//! signs what nobody approved, what asks for more than its signer gives, or for a signer it has no authority of.

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
    ACCOUNT, FAILED, is_approved, is_issued, patience, request, rules, signer_name, usages, with_condition,
};

/// Shorter than this a certificate would be over before it is used.
const SHORTEST: Duration = Duration::from_secs(600);

/// Where an authority comes from: asked for every signature, so that a new one counts at once.
pub type AuthoritySource = Arc<dyn Fn() -> Result<Arc<Authority>, String> + Send + Sync>;

/// Who signs, and for how long.
#[derive(Clone)]
pub struct SigningOptions {
    authorities: BTreeMap<&'static str, AuthoritySource>,
    /// How long a certificate lasts, and the longest that can be asked for.
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

/// The signers of Kubernetes itself.
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
    /// Has a signer's certificates signed.
    #[must_use]
    pub fn with(mut self, signer: Signer, authority: AuthoritySource) -> SigningOptions {
        self.authorities.insert(signer.name(), authority);
        self
    }

    /// One authority for every signer.
    pub fn with_all(self, authority: &AuthoritySource) -> SigningOptions {
        Signer::ALL.into_iter().fold(self, |options, signer| options.with(signer, authority.clone()))
    }
}

pub(crate) struct Signing(pub(crate) SigningOptions);

/// What matters for one request.
pub(crate) struct World {
    csr: Value,
    authority: Result<Arc<Authority>, String>,
}

impl Controller for Signing {
    /// Nothing, unless the request is there and for somebody we sign for.
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
                tracing::warn!(signer = signer_name(csr), error, "certificate could not be signed");
                Plan::done().again_after(patience(csr, now))
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

    /// As asked for, within limits.
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
    // A condition without a status was written when there was none.
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
        with_condition(&asked.csr(signer, usages, "somebody"), testing::condition(APPROVED, 0))
    }

    fn written(plan: &Plan) -> &Value {
        match plan.actions().collect::<Vec<_>>()[..] {
            [Action::Update { object, subresource: "status", .. }] => object,
            _ => panic!("{plan:?}"),
        }
    }

    #[test]
    fn what_is_approved_is_signed() {
        let serving = Asked { names: &["10.0.0.1"], ..Asked::node() };
        let anybody = Asked { common_name: "ann", organizations: &["dev"], names: &[] };
        for (asked, signer, usages) in [
            (Asked::node(), rules::KUBE_APISERVER_CLIENT_KUBELET, &CLIENT[..]),
            (serving, rules::KUBELET_SERVING, &["digital signature", "server auth"][..]),
            (anybody, rules::KUBE_APISERVER_CLIENT, &["client auth"][..]),
            (anybody, rules::LEGACY_UNKNOWN, &["any", "cert sign"][..]),
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
    fn what_asks_for_too_much_fails() {
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
        let pending = Asked::node().csr(signer, &CLIENT, "somebody");
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
        assert_eq!(plan, Plan::done().again_after(Duration::from_secs(60)));
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
