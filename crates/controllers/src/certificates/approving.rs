//! Approves the certificate signing requests for kubelet client certificates, if the requesting user is authorized for
//! them.
//!
//! Watches certificate signing requests; creates subject access reviews. Adds one condition to a request it recognizes;
//! never denies one, and never touches requests for other signers.

use corten_api::{Value, value};
use corten_client::{Caches, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Report, Step, Watch};
use jiff::Timestamp;

use super::rules::{self, KUBE_APISERVER_CLIENT_KUBELET};
use super::{
    ACCOUNT, APPROVED, DENIED, is_issued, request, retry_delay, signer_name, usages, with_condition,
};
use crate::conditions::condition;

pub(crate) struct Approving;

/// A kind of request that is approved for authorized users.
struct Recognized {
    /// The subresource that the user must be allowed to create.
    subresource: &'static str,
    message: &'static str,
}

const SELF: Recognized = Recognized {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const NODE: Recognized = Recognized {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

impl Controller for Approving {
    /// The request, if it exists.
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        "certificatesigningrequest-approving-controller"
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

    fn plan(&self, _: &Key, csr: &Option<Value>, _: Timestamp) -> Plan {
        let Some(csr) = csr.as_ref().filter(|csr| is_pending(csr)) else { return Plan::done() };
        let kind = &kinds::SUBJECT_ACCESS_REVIEWS;
        let reviews = recognize(csr).into_iter().map(|recognized| {
            Step::One(Action::Create { kind, object: review(csr, recognized.subresource) })
        });
        Plan { steps: reviews.collect(), ..Plan::default() }
    }

    fn conclude(&self, _: &Key, csr: &Option<Value>, report: &Report, now: Timestamp) -> Plan {
        let Some(csr) = csr.as_ref().filter(|_| !report.outcomes.is_empty()) else { return Plan::done() };
        let is_allowed = |outcome: &corten_reconcile::Outcome| {
            outcome.result.as_ref().is_ok_and(|review| review.bool_at(&["status", "allowed"]) == Some(true))
        };
        let answers = recognize(csr).into_iter().zip(&report.outcomes);
        match answers.into_iter().find(|(_, outcome)| is_allowed(outcome)) {
            Some((recognized, _)) => Plan::done().then(Action::Update {
                kind: &kinds::CERTIFICATE_SIGNING_REQUESTS,
                object: with_condition(csr, approval(recognized.message)),
                subresource: "approval",
            }),
            // The permission may be granted later.
            None => Plan::done().requeue_after(retry_delay(csr, now)),
        }
    }
}

pub(super) fn is_pending(csr: &Value) -> bool {
    !is_issued(csr) && condition(csr, APPROVED).is_none() && condition(csr, DENIED).is_none()
}

/// The kinds that a request may be approved as, the one with the lesser permission first.
fn recognize(csr: &Value) -> Vec<Recognized> {
    if signer_name(csr) != KUBE_APISERVER_CLIENT_KUBELET {
        return Vec::new();
    }
    let Some(request) = request(csr) else { return Vec::new() };
    if rules::check_kubelet_client(&request, &usages(csr)).is_err() {
        return Vec::new();
    }
    let asks_for_itself = csr.str_at(&["spec", "username"]) == Some(request.subject.common_name.as_str());
    if asks_for_itself { vec![SELF, NODE] } else { vec![NODE] }
}

/// The access review of the requesting user.
fn review(csr: &Value, subresource: &str) -> Value {
    let mut review = value!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"resourceAttributes": {
            "group": "certificates.k8s.io", "version": "*", "resource": "certificatesigningrequests",
            "subresource": subresource, "verb": "create",
        }},
    });
    for (from, to) in [("username", "user"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra")] {
        if let Some(known) = csr.at(&["spec", from]) {
            review.set(&["spec", to], known.clone());
        }
    }
    review
}

fn approval(message: &str) -> Value {
    value!({"type": APPROVED, "status": "True", "reason": "AutoApproved", "message": message})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corten_reconcile::Outcome;

    use super::*;
    use crate::certificates::testing::{self, Asked};
    use crate::testing::at;

    const USAGES: [&str; 2] = ["digital signature", "client auth"];

    fn key() -> Key {
        Key::new("", "csr")
    }

    /// The subresources that are reviewed for a request, and the plan if only the allowed ones are granted.
    fn run(csr: Value, allowed: &[&str]) -> (Vec<String>, Plan) {
        let csr = Some(csr);
        let plan = Approving.plan(&key(), &csr, at(5));
        let asked = |action: &Action| match action {
            Action::Create { object, .. } => {
                object.str_at(&["spec", "resourceAttributes", "subresource"]).unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        };
        let outcomes = plan.actions().map(|action| {
            let allowed = allowed.contains(&asked(action).as_str());
            Outcome { action: action.clone(), result: Ok(value!({"status": {"allowed": allowed}})) }
        });
        let report = Report { outcomes: outcomes.collect() };
        (plan.actions().map(asked).collect(), Approving.conclude(&key(), &csr, &report, at(5)))
    }

    fn csr(user: &str) -> Value {
        Asked::node().csr(KUBE_APISERVER_CLIENT_KUBELET, &USAGES, user)
    }

    fn message(plan: &Plan) -> String {
        let [Action::Update { object, subresource: "approval", .. }] = plan.actions().collect::<Vec<_>>()[..]
        else {
            panic!("{plan:?}")
        };
        let approved = condition(object, APPROVED).unwrap();
        assert_eq!(approved.str_at(&["reason"]), Some("AutoApproved"));
        approved.str_at(&["message"]).unwrap().to_owned()
    }

    #[test]
    fn requests_of_authorized_users_are_approved() {
        let (asked, plan) = run(csr("system:bootstrap:abc"), &["nodeclient"]);
        assert_eq!(asked, ["nodeclient"]);
        assert_eq!(message(&plan), NODE.message);
        let (asked, plan) = run(csr("system:node:n1"), &["selfnodeclient"]);
        assert_eq!(asked, ["selfnodeclient", "nodeclient"]);
        assert_eq!(message(&plan), SELF.message);
        let (_, plan) = run(csr("system:node:n1"), &["nodeclient"]);
        assert_eq!(message(&plan), NODE.message);
    }

    #[test]
    fn requests_of_unauthorized_users_stay_pending() {
        let (_, plan) = run(csr("user"), &[]);
        assert_eq!(plan, Plan::done().requeue_after(Duration::from_secs(5)));
    }

    #[test]
    fn an_access_review_names_the_requesting_user() {
        let asked = review(&csr("user"), "nodeclient");
        let expected = value!({
            "user": "user", "uid": "7", "groups": ["g"], "extra": {"scopes": ["a"]},
            "resourceAttributes": {
                "group": "certificates.k8s.io", "version": "*", "resource": "certificatesigningrequests",
                "subresource": "nodeclient", "verb": "create",
            },
        });
        for (key, value) in expected.as_object().unwrap().iter() {
            assert_eq!(asked.at(&["spec", key]), Some(value), "{key}");
        }
    }

    #[test]
    fn others_are_left_alone() {
        let serving = Asked::node().csr("kubernetes.io/kubelet-serving", &USAGES, "user");
        let not_a_node = Asked { common_name: "mike", ..Asked::node() };
        let not_a_node = not_a_node.csr(KUBE_APISERVER_CLIENT_KUBELET, &USAGES, "user");
        let mut issued = csr("user");
        issued.set(&["status", "certificate"], "eA==");
        let denied = with_condition(&csr("user"), testing::condition(DENIED, 0));
        let approved = with_condition(&csr("user"), testing::condition(APPROVED, 0));
        for (case, csr) in [
            ("other signer", serving),
            ("not a node", not_a_node),
            ("issued", issued),
            ("denied", denied),
            ("approved", approved),
        ] {
            let (asked, plan) = run(csr, &["nodeclient", "selfnodeclient"]);
            assert!(asked.is_empty() && plan.is_done(), "{case}");
        }
    }
}
