//! Validation rules (`x-kubernetes-validations`): CEL expressions that values of a schema must satisfy.
//!
//! Rules are compiled once per version and evaluated with two cost limits: one for each evaluation, one for all rules of
//! an object. `static_checks` refuses definitions whose rules do not compile or could cost too much.
//!
//! Invariants: a rule sees `self` with the type of its schema, and `oldSelf` only where the previous value is known.
//! Null values are not validated. Errors of unchanged values become warnings, unless the rule uses `oldSelf`.

mod compile;
mod declared;
mod evaluate;
mod path;
mod ratchet;
mod static_checks;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use corten_api::Str;
use corten_cel::Program;
use corten_cel::library::regex::Budget;
use corten_cel::schema::Schema as Declared;

use crate::schema::{Node, Rule, Schema};

pub use path::tokens as path_tokens;
pub use static_checks::{StoredExpressions, validate_rules};

/// Maximum cost of one evaluation.
const PER_CALL_LIMIT: u64 = 1_000_000;
/// Maximum cost of all rules of one object.
pub(crate) const OBJECT_COST_BUDGET: i64 = 10_000_000;
/// Maximum length of an evaluated message in bytes.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    root: Option<RuleNode>,
}

impl Rules {
    /// Compiles the rules of a schema. Those of a stored definition compile; an error is reported by every validation.
    pub fn compile(schema: &Schema) -> Rules {
        Rules::of_node(schema.root(), true, &Budget::lenient(Budget::SCHEMA))
    }

    /// Compiles the rules of a part of a schema. Constant patterns take part of the budget.
    pub(crate) fn of_node(node: &Node, is_resource: bool, budget: &Budget) -> Rules {
        Rules { root: compile::node(node, is_resource, None, budget) }
    }

    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

/// The rules of a schema and of schemas within it. Schemas without rules have none.
#[derive(Debug)]
struct RuleNode {
    rules: Box<[Compiled]>,
    /// The schema as expressions see it; none if there are no rules here.
    declared: Option<Arc<Declared>>,
    items: Option<Box<RuleNode>>,
    properties: Box<[(Str, RuleNode)]>,
    additional: Option<Box<RuleNode>>,
}

/// One rule.
#[derive(Debug)]
struct Compiled {
    rule: Rule,
    program: Result<Expressions, String>,
}

#[derive(Debug)]
struct Expressions {
    validation: Program,
    uses_old_self: bool,
    message: Option<Program>,
    /// Where errors are reported, below the validated value.
    field_path: Option<String>,
}

impl RuleNode {
    fn property(&self, name: &str) -> Option<&RuleNode> {
        let found = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.properties.get(found).map(|(_, node)| node)
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.items.is_none()
            && self.properties.is_empty()
            && self.additional.is_none()
    }
}

impl Rule {
    /// The rule in messages: its own message, or its text.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    fn is_optional_old_self(&self) -> bool {
        self.optional_old_self == Some(true)
    }
}

/// Returns true if a schema or one within it has rules.
fn has_rules(node: &Node) -> bool {
    !node.rules.is_empty()
        || node.items.as_deref().is_some_and(has_rules)
        || node.additional.schema().is_some_and(has_rules)
        || node.properties.iter().any(|(_, property)| has_rules(property))
}
