//! `TokenReview`: the user of a token, for other servers; `SelfSubjectReview`: the user of the request itself.

use std::sync::Arc;

use corten_api::{Map, Status, Value, time};
use corten_auth::authentication::{Anonymous, Refusal};
use jiff::Timestamp;

use super::{Authentication, Bearer};
use crate::call::Call;
use crate::catalog::Catalog;

/// The status of a `TokenReview`.
pub(crate) fn review_token(call: &Call, review: &Value) -> Result<Value, Status> {
    let token = review.str_at(&["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let asked = review.items_at(&["spec", "audiences"]).iter();
    let audiences: Vec<String> = asked.filter_map(Value::as_str).map(str::to_owned).collect();
    let authentication = &call.backend.authentication;
    // As upstream, what the client sent stays in the status unless the outcome has its own value.
    let sent = review.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok(authentication.review(&call.backend.catalog, token, audiences, sent, call.now))
}

/// A `SelfSubjectReview` of the request's user, without any field of the request's body.
pub(crate) fn review_self(call: &Call) -> Value {
    let mut review = Value::object();
    review.set(&["kind"], call.served.kind());
    review.set(&["apiVersion"], call.served.api_version.as_str());
    review.set(&["metadata", "creationTimestamp"], time::format(call.now));
    review.set(&["status", "userInfo"], call.user.to_value());
    review
}

impl Authentication {
    fn review(
        &self,
        catalog: &Catalog,
        token: &str,
        asked: Vec<String>,
        mut status: Map,
        now: Timestamp,
    ) -> Value {
        let wanted = if asked.is_empty() { self.issuer.audiences.clone() } else { asked };
        // A token is reviewed as if it came in a header, including the parsing of the header.
        let outcome = match Bearer::of(&format!("Bearer {token}")) {
            Bearer::Token(token) => {
                let proven = self.tokens.authenticate(catalog, token, &wanted, now);
                proven.map(|proven| Some((proven.user, proven.audiences)))
            }
            _ if self.anonymous == Anonymous::Allowed => Ok(Some((Arc::clone(&self.anonymous_user), wanted))),
            _ => Ok(None),
        };
        status.insert("authenticated", matches!(outcome, Ok(Some(_))));
        match outcome {
            Ok(Some((user, audiences))) => {
                status.insert("user", user.to_value());
                let audiences: Vec<Value> = audiences.into_iter().map(Value::from).collect();
                status.insert("audiences", audiences);
            }
            Ok(None) => {}
            Err(Refusal::Unknown) => drop(status.insert("error", Refusal::Unknown.to_string())),
            Err(refusal) => drop(status.insert("error", format!("[{}, {refusal}]", Refusal::Unknown))),
        }
        Value::Object(status)
    }
}
