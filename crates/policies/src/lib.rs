//! Expressions of admission: match conditions of webhooks and policies, variables, validations and mutations.
//!
//! Never in here: sockets, files, clocks, caches. An expression is compiled once and evaluated for many requests; which
//! policies a request matches, and with which parameters, is decided elsewhere.
//!
//! ```text
//! let conditions = MatchConditions::compile(webhook.get("matchConditions"), FailurePolicy::of(webhook));
//! match conditions.evaluate(&request).verdict {    // &dyn Request: the values of the variables, made when first read
//!     Match::Yes => …, Match::No(condition) => …, Match::Error(why) => …
//! }
//! ```
//!
//! *Invariants:* environments have exactly upstream's variables and functions; texts of errors are upstream's. A value of
//! `Request` is computed only if an expression reads it. Every evaluation has upstream's cost limits.

mod activation;
mod check;
pub mod declared;
mod environment;
mod expression;
mod match_conditions;
mod mutating;
mod policy;
#[cfg(test)]
mod testing;
pub mod type_check;
mod validating;

pub use activation::{Bindings, Request};
pub use check::{ConditionChecker, PolicyChecker, Purpose};
pub use environment::{Declared, Mode};
pub use expression::{CompileError, ErrorKind};
pub use match_conditions::{FailurePolicy, Match, MatchConditions, Matched};
pub use mutating::MutatingPolicy;
pub use validating::{Annotation, Decision, Validated, ValidatingPolicy};

/// Maximum cost of one evaluation of an expression.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// Maximum cost of all expressions of a policy for one binding and parameter.
pub const POLICY_COST_BUDGET: u64 = 10_000_000;
/// Maximum cost of all match conditions of a webhook or policy.
pub const MATCH_CONDITIONS_COST_BUDGET: u64 = 2_500_000;
