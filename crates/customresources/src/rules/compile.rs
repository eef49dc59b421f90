//! Compiles rules for evaluation.

use std::sync::Arc;

use corten_cel::check::Checked;
use corten_cel::library::regex::Budget;
use corten_cel::schema::Schema as Declared;
use corten_cel::{Environment, Program, Type};

use super::{Compiled, Expressions, RuleNode, declared, has_rules, path};
use crate::schema::{Node, Rule};

/// The position of `oldSelf` among the variables, after `self`.
pub(super) const OLD_SELF: usize = 1;

/// The name of the type of `self`. Upstream's differs with every compilation, so that no expression relies on it.
const SELF_TYPE: &str = "selfType";

/// Compiles the rules of a node and of those within it; none if there are none. `declared` is the schema as an
/// enclosing rule sees it. Constant patterns take part of the budget.
pub(super) fn node(
    node: &Node,
    is_resource: bool,
    declared: Option<Arc<Declared>>,
    budget: &Budget,
) -> Option<RuleNode> {
    if !has_rules(node) {
        return None;
    }
    let declared = match declared {
        None if !node.rules.is_empty() => Some(declared::declare(node, is_resource)),
        declared => declared,
    };
    let element = || declared.as_deref().and_then(declared::element);
    let inner = |inner: &Node| self::node(inner, inner.embedded_resource, element(), budget).map(Box::new);
    let property = |name: &str, inner: &Node| {
        // Fields that expressions cannot use are not validated, nor is anything in them.
        let declared = match declared.as_deref() {
            Some(declared) => declared::field(declared, name),
            None if has_rules(inner) => Some(declared::declare(inner, inner.embedded_resource)),
            None => None,
        };
        let declared = declared.filter(declared::is_exposed)?;
        self::node(inner, inner.embedded_resource, Some(declared), budget)
    };
    let properties = node.properties.iter();
    let found = RuleNode {
        items: node.items.as_deref().and_then(inner),
        additional: node.additional.schema().and_then(inner),
        properties: properties
            .filter_map(|(name, inner)| property(name, inner).map(|found| (name.clone(), found)))
            .collect(),
        rules: rules(node, declared.as_ref(), budget),
        declared: declared.filter(|_| !node.rules.is_empty()),
    };
    (!found.is_empty()).then_some(found)
}

fn rules(node: &Node, declared: Option<&Arc<Declared>>, budget: &Budget) -> Box<[Compiled]> {
    if node.rules.is_empty() {
        return Box::default();
    }
    let environments = declared.and_then(|declared| Environments::new(&Environment::stored(), declared));
    let compile = |rule: &Rule| {
        let program = match &environments {
            None => Err("failed to convert to declType for CEL validation rules".to_owned()),
            Some(environments) => expressions(node, rule, environments, budget),
        };
        Compiled { rule: rule.clone(), program }
    };
    node.rules.iter().filter(|rule| !rule.rule.trim().is_empty()).map(compile).collect()
}

fn expressions(
    node: &Node,
    rule: &Rule,
    environments: &Environments,
    budget: &Budget,
) -> Result<Expressions, String> {
    let environment = environments.of(rule);
    let (checked, validation) = validation(environment, &rule.rule, budget)?;
    // A message that does not compile is never used.
    let message = match rule.message_expression.as_str() {
        "" => None,
        text => message(environment, text, budget).ok().map(|(_, program)| program),
    };
    let field_path = match rule.field_path.as_str() {
        "" => None,
        text => path::find(text, node, path::Brackets::Allowed).ok().map(|found| found.text),
    };
    Ok(Expressions { validation, uses_old_self: checked.uses(OLD_SELF), message, field_path })
}

/// Compiles the expression of a rule. The error is upstream's.
pub(super) fn validation(
    environment: &Environment,
    text: &str,
    budget: &Budget,
) -> Result<(Checked, Program), String> {
    let wrong = "cel expression must evaluate to a bool";
    expression((environment, budget), text, &Type::Bool, "", wrong)
}

/// Compiles the expression of a message. The error is upstream's.
pub(super) fn message(
    environment: &Environment,
    text: &str,
    budget: &Budget,
) -> Result<(Checked, Program), String> {
    let wrong = "messageExpression must evaluate to a string";
    expression((environment, budget), text, &Type::String, "messageExpression ", wrong)
}

fn expression(
    (environment, budget): (&Environment, &Budget),
    text: &str,
    output: &Type,
    what: &str,
    wrong: &str,
) -> Result<(Checked, Program), String> {
    let checked = environment.check(text).map_err(|issues| format!("{what}compilation failed: {issues}"))?;
    if checked.output() != output {
        return Err(wrong.to_owned());
    }
    let instantiation =
        if what.is_empty() { "program instantiation" } else { "messageExpression instantiation" };
    let program = environment
        .program_within(&checked, budget)
        .map_err(|why| format!("{instantiation} failed: {why}"))?;
    Ok((checked, program))
}

/// The environments of the rules of one schema: `oldSelf` has the type of `self` or is optional.
pub(super) struct Environments {
    plain: Environment,
    optional: Environment,
}

impl Environments {
    /// None if expressions cannot use values of the schema.
    pub(super) fn new(base: &Environment, declared: &Arc<Declared>) -> Option<Environments> {
        let own = declared.to_type(SELF_TYPE)?;
        let with = |old: Type| base.with_variables([("self".into(), own.clone()), ("oldSelf".into(), old)]);
        Some(Environments { plain: with(own.clone()), optional: with(Type::optional(own.clone())) })
    }

    pub(super) fn of(&self, rule: &Rule) -> &Environment {
        if rule.is_optional_old_self() { &self.optional } else { &self.plain }
    }
}
