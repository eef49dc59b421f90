//! Checks of the rules in a definition: they compile, `oldSelf` is used only where an old value can be found, and their
//! estimated costs are below the limits.
//!
//! The estimate of a rule is multiplied by the number of values that it can be evaluated on: the product of the limits
//! of all lists and maps around it, or what fits into one request if one has no limit.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use corten_api::status::ErrorList;
use corten_api::{Field, Value};
use corten_cel::cost;
use corten_cel::library::regex::Budget;
use corten_cel::schema::{MAX_REQUEST, Schema as Declared};
use corten_cel::{Environment, Version};

use super::compile::{Environments, OLD_SELF};
use super::{compile, declared, has_rules};
use crate::schema::{Additional, Check, ListType, Node, Rule, Schema, Type};

/// Maximum estimated cost of one rule.
const RULE_COST_LIMIT: u64 = 10_000_000;
/// Maximum estimated cost of all rules of a schema.
const SCHEMA_COST_LIMIT: u64 = 100_000_000;
/// The number of rules that are named when all together cost too much.
const MOST_EXPENSIVE: usize = 4;
/// New expressions may use the features of this version, so that the server can be rolled back.
const COMPATIBILITY: Version = Version(36);
/// The environment of new expressions. Made once: declaring all functions takes longer than checking a rule.
static NEW_EXPRESSIONS: LazyLock<Environment> = LazyLock::new(|| Environment::at(COMPATIBILITY));

/// The expressions of a stored definition: they may use every feature, and unchanged schemas may exceed the limit of
/// single rules.
#[derive(Clone, Debug, Default)]
pub struct StoredExpressions {
    rules: HashSet<String>,
    messages: HashSet<String>,
}

impl StoredExpressions {
    /// Adds the expressions of a schema (`openAPIV3Schema`).
    pub fn add(&mut self, schema: &Value) {
        match schema {
            Value::Object(map) => {
                for (key, value) in map.iter() {
                    if key.as_str() == "x-kubernetes-validations" {
                        value.as_array().unwrap_or_default().iter().for_each(|rule| self.add_rule(rule));
                    } else {
                        self.add(value);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            _ => {}
        }
    }

    fn add_rule(&mut self, rule: &Value) {
        let text = |key: &str| rule.str_at(&[key]).unwrap_or_default().to_owned();
        self.rules.insert(text("rule"));
        self.messages.insert(text("messageExpression"));
    }
}

/// Checks all rules of a schema. `ignore_rule_costs` tolerates single rules that cost too much.
pub fn validate_rules(
    schema: &Schema,
    stored: &StoredExpressions,
    ignore_rule_costs: bool,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if !has_rules(schema.root()) {
        return;
    }
    let mut checker = Checker {
        new: NEW_EXPRESSIONS.clone(),
        old: Environment::stored(),
        stored,
        ignore_rule_costs,
        patterns: Budget::new(Budget::SCHEMA),
        stored_patterns: Budget::lenient(Budget::SCHEMA),
        total: 0,
        expensive: Vec::new(),
        errors,
    };
    let place = Place { is_resource: true, declared: None, cardinality: Some(1), uncorrelatable: None };
    checker.node(schema.root(), &place, at);
    checker.finish(at);
}

/// The place of a schema.
struct Place<'p> {
    is_resource: bool,
    /// The schema as an enclosing rule sees it.
    declared: Option<Arc<Declared>>,
    /// The number of values of the schema that an object can have; none without a limit.
    cardinality: Option<u64>,
    /// The outermost list around it whose items have no old values.
    uncorrelatable: Option<&'p Field<'p>>,
}

struct Checker<'c> {
    new: Environment,
    old: Environment,
    stored: &'c StoredExpressions,
    ignore_rule_costs: bool,
    /// Of the constant patterns of new and of stored expressions.
    patterns: Budget,
    stored_patterns: Budget,
    total: u64,
    /// The paths and costs of the most expensive expressions.
    expensive: Vec<(String, u64)>,
    errors: &'c mut ErrorList,
}

impl Checker<'_> {
    fn node(&mut self, node: &Node, place: &Place<'_>, at: &Field<'_>) {
        if !has_rules(node) {
            return;
        }
        let declared = match &place.declared {
            None if !node.rules.is_empty() => Some(declared::declare(node, place.is_resource)),
            declared => declared.clone(),
        };
        let below = |node: &Node, declared| Place {
            is_resource: node.embedded_resource,
            declared,
            cardinality: place.cardinality,
            uncorrelatable: place.uncorrelatable,
        };
        let element = || declared.as_deref().and_then(declared::element);
        let cardinality = place.cardinality.zip(max_elements(node)).map(|(a, b)| a.saturating_mul(b));
        if let Some(inner) = node.additional.schema() {
            let place = Place { cardinality, ..below(inner, element()) };
            self.node(inner, &place, &at.child("additionalProperties"));
        }
        for (name, inner) in &node.properties {
            let declared = declared.as_deref().and_then(|declared| declared::field(declared, name));
            let place = Place { cardinality, ..below(inner, declared) };
            self.node(inner, &place, &at.child("properties").key(name));
        }
        if let Some(inner) = &node.items {
            let own = (node.list_type != ListType::Map).then_some(at);
            let uncorrelatable = place.uncorrelatable.or(own);
            let place = Place { cardinality, uncorrelatable, ..below(inner, element()) };
            self.node(inner, &place, &at.child("items"));
        }
        if let Some(declared) = declared.filter(|_| !node.rules.is_empty()) {
            self.rules(node, &declared, place, &at.child("x-kubernetes-validations"));
        }
    }

    fn budget(&self, is_stored: bool) -> &Budget {
        if is_stored { &self.stored_patterns } else { &self.patterns }
    }

    fn rules(&mut self, node: &Node, declared: &Arc<Declared>, place: &Place<'_>, at: &Field<'_>) {
        let (new, old) = (Environments::new(&self.new, declared), Environments::new(&self.old, declared));
        let (Some(new), Some(old)) = (new, old) else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.internal(at, why);
            return;
        };
        let rules = node.rules.iter().enumerate().filter(|(_, rule)| !rule.rule.trim().is_empty());
        for (i, rule) in rules {
            let is_stored = self.stored.rules.contains(rule.rule.as_str());
            let environment = if is_stored { old.of(rule) } else { new.of(rule) };
            let is_stored = self.stored.messages.contains(rule.message_expression.as_str());
            let message_environment = if is_stored { old.of(rule) } else { new.of(rule) };
            let at = at.index(i);
            self.rule(rule, environment, message_environment, declared, place, &at);
        }
    }

    fn rule(
        &mut self,
        rule: &Rule,
        environment: &Environment,
        message_environment: &Environment,
        declared: &Arc<Declared>,
        place: &Place<'_>,
        at: &Field<'_>,
    ) {
        let rule_at = at.child("rule");
        let checked = match compile::validation(
            environment,
            &rule.rule,
            self.budget(self.stored.rules.contains(rule.rule.as_str())),
        ) {
            Ok((checked, _)) => checked,
            Err(why) => {
                self.errors.invalid_shown(rule_at, shown(rule), why);
                // A rule that does not compile does not use `oldSelf` either.
                self.check_optional(rule, at);
                return;
            }
        };
        let cost = cost::estimate(&checked, declared.as_ref()).max;
        let values = place.cardinality.unwrap_or_else(|| max_values(declared));
        self.add_cost("estimated rule cost", &rule_at, cost.saturating_mul(values));
        if !rule.message_expression.is_empty() {
            self.message(rule, message_environment, declared, &at.child("messageExpression"));
        }
        if !checked.uses(OLD_SELF) {
            self.check_optional(rule, at);
        } else if let Some(list) = place.uncorrelatable {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.invalid(rule_at, &Value::from(rule.rule.clone()), why);
        }
    }

    fn message(&mut self, rule: &Rule, environment: &Environment, declared: &Arc<Declared>, at: &Field<'_>) {
        match compile::message(
            environment,
            &rule.message_expression,
            self.budget(self.stored.messages.contains(rule.message_expression.as_str())),
        ) {
            Ok((checked, _)) => {
                let cost = cost::estimate(&checked, declared.as_ref()).max;
                self.add_cost("estimated messageExpression cost", at, cost);
            }
            Err(why) => self.errors.invalid_shown(at, shown(rule), why),
        }
    }

    fn check_optional(&mut self, rule: &Rule, at: &Field<'_>) {
        if let Some(value) = rule.optional_old_self {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.invalid(at.child("optionalOldSelf"), &Value::from(value), why);
        }
    }

    fn add_cost(&mut self, what: &str, at: &Field<'_>, cost: u64) {
        if cost > RULE_COST_LIMIT && !self.ignore_rule_costs {
            self.errors.forbidden(at, too_expensive(what, cost, RULE_COST_LIMIT));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_LIMIT / 100 {
            self.expensive.push((at.to_string(), cost));
            self.expensive.sort_by(|(_, a), (_, b)| b.cmp(a));
            self.expensive.truncate(MOST_EXPENSIVE);
        }
    }

    fn finish(&mut self, at: &Field<'_>) {
        if self.total <= SCHEMA_COST_LIMIT {
            return;
        }
        for (path, _) in std::mem::take(&mut self.expensive) {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.forbidden(path, why);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.forbidden(at, too_expensive(what, self.total, SCHEMA_COST_LIMIT));
    }
}

/// The factor by which a schema multiplies the number of values in it; none without a limit.
fn max_elements(node: &Node) -> Option<u64> {
    let limit = |most: i64| u64::try_from(most).unwrap_or(0);
    match node.kind {
        Type::Object if !matches!(node.additional, Additional::Absent) => {
            node.checks.iter().find_map(|check| match check {
                Check::MaxProperties(most) => Some(limit(*most)),
                _ => None,
            })
        }
        Type::Array => node.checks.iter().find_map(|check| match check {
            Check::MaxItems(most) => Some(limit(*most)),
            _ => None,
        }),
        _ => Some(1),
    }
}

/// The number of values of a schema that fit into one request.
fn max_values(declared: &Declared) -> u64 {
    u64::try_from(MAX_REQUEST / (declared.min_size() + 1)).unwrap_or(0)
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule as upstream's errors show it.
fn shown(rule: &Rule) -> String {
    let text = |text: &str| corten_api::go::json(&Value::from(text));
    let optional = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        optional(rule.reason.as_deref().map(text)),
        text(&rule.field_path),
        optional(rule.optional_old_self.map(|value| value.to_string())),
    )
}
