//! Checks of expressions before they are stored.
//!
//! An expression that a stored policy or webhook already has may use all features; others only those that every server
//! of the cluster has. An expression that does not compile is refused either way.

use std::collections::HashMap;

use corten_cel::Environment;

use crate::environment::{Declared, Mode, environment};
use crate::expression::{CompileError, Returns, compile};
use crate::policy::Composition;

/// The purpose of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    Validation,
    Message,
    AuditAnnotation,
    ApplyConfiguration,
    JsonPatch,
}

/// Checks the expressions of one policy. Its variables come first, in their order.
pub struct PolicyChecker {
    params: bool,
    composition: Option<Composition>,
    /// Environments without variables; they are made once.
    environments: HashMap<(bool, Declared), Environment>,
}

impl PolicyChecker {
    /// A checker of a policy. One that is not composed has no variables.
    pub fn new(params: bool, composed: bool) -> PolicyChecker {
        let composition = composed.then(|| Composition::new(params));
        PolicyChecker { params, composition, environments: HashMap::new() }
    }

    fn environment(&mut self, mode: Mode, declared: Declared) -> Environment {
        let made = self.environments.entry((mode == Mode::New, declared));
        made.or_insert_with(|| environment(mode, declared)).clone()
    }

    /// Checks a variable and declares it for the expressions that follow.
    pub fn variable(&mut self, name: &str, text: &str, mode: Mode) -> Result<(), CompileError> {
        let declared = Declared { params: self.params, authorizer: true, patch_types: false };
        let environment = self.environment(mode, declared);
        let composition = self.composition.get_or_insert_with(|| Composition::new(declared.params));
        composition.add(&environment, name, text).map_or(Ok(()), Err)
    }

    pub fn expression(&mut self, purpose: Purpose, text: &str, mode: Mode) -> Result<(), CompileError> {
        let declared = Declared {
            params: self.params,
            authorizer: purpose != Purpose::Message,
            patch_types: matches!(purpose, Purpose::ApplyConfiguration | Purpose::JsonPatch),
        };
        let returns = match purpose {
            Purpose::Validation => Returns::Bool,
            Purpose::Message => Returns::String,
            Purpose::AuditAnnotation => Returns::StringOrNull,
            Purpose::ApplyConfiguration => Returns::ApplyConfiguration,
            Purpose::JsonPatch => Returns::JsonPatch,
        };
        let environment = self.environment(mode, declared);
        let composed = self.composition.as_ref().map(|composition| composition.extend(&environment));
        compile(composed.as_ref().unwrap_or(&environment), text, returns).map(drop)
    }
}

/// Checks match conditions, which have no variables of a policy.
pub struct ConditionChecker {
    new: Environment,
    stored: Environment,
}

impl ConditionChecker {
    pub fn new(params: bool) -> ConditionChecker {
        let declared = Declared { params, authorizer: true, patch_types: false };
        let made = |mode| environment(mode, declared);
        ConditionChecker { new: made(Mode::New), stored: made(Mode::Stored) }
    }

    pub fn check(&self, text: &str, mode: Mode) -> Result<(), CompileError> {
        let environment = match mode {
            Mode::New => &self.new,
            Mode::Stored => &self.stored,
        };
        compile(environment, text, Returns::Bool).map(drop)
    }
}
