//! Evaluates rules.

use corten_api::status::{ErrorList, FieldError, FieldErrorKind, quoted, shown};
use corten_api::{Field, Map, Value};
use corten_cel::library::regex::Patterns;
use corten_cel::{Error, Program, Value as CelValue};

use super::ratchet::{Correlated, Ratchet};
use super::{Compiled, Expressions, MAX_MESSAGE_BYTES, OBJECT_COST_BUDGET, PER_CALL_LIMIT, RuleNode, Rules};
use crate::correlate::OldItems;
use crate::schema::{Node, Rule, Schema};

/// Maximum number of warnings of one object.
const MAX_WARNINGS: usize = 64;

impl Rules {
    /// Evaluates all rules on a new object.
    pub fn validate_create(&self, object: &Value, schema: &Schema, errors: &mut ErrorList) {
        self.validate(object, None, false, schema, errors, &mut Vec::new());
    }

    /// Evaluates all rules on a changed object. Errors of unchanged values become warnings.
    pub fn validate_update(
        &self,
        object: &Value,
        old: &Value,
        schema: &Schema,
        errors: &mut ErrorList,
        warnings: &mut Vec<String>,
    ) {
        self.validate(object, Some(old), true, schema, errors, warnings);
    }

    fn validate(
        &self,
        object: &Value,
        old: Option<&Value>,
        ratchets: bool,
        schema: &Schema,
        errors: &mut ErrorList,
        warnings: &mut Vec<String>,
    ) {
        if self.is_empty() {
            return;
        }
        if blocks_rules(errors) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.invalid("<nil>", &Value::Null, why);
            return;
        }
        let change = Change { node: schema.root(), value: object, old, ratchets };
        // An exceeded budget is an error that is listed.
        let _ = self.evaluate(&change, Limits::DEFAULT, &Patterns::default(), &Field::ROOT, errors, warnings);
    }

    /// Evaluates all rules on a value. Returns the budget that is left; none if it is exceeded.
    pub(super) fn evaluate(
        &self,
        change: &Change<'_>,
        limits: Limits,
        patterns: &Patterns,
        at: &Field<'_>,
        errors: &mut ErrorList,
        warnings: &mut Vec<String>,
    ) -> Option<i64> {
        let Some(root) = &self.root else { return Some(limits.budget) };
        let old = change.old.filter(|old| !old.is_null());
        let correlated =
            old.filter(|_| change.ratchets).map(|old| Correlated::new(change.node, change.value, old));
        let ratchet = Ratchet { current: correlated.as_ref(), parent: None };
        let mut walk = Walk { limits, patterns, errors, warnings };
        let walked = walk.value(root, change.node, change.value, old, ratchet, at);
        walked.ok().map(|()| walk.limits.budget)
    }

    /// Evaluates the rules of a default as of a value that did not exist, and as of one that did. Returns the budget
    /// that is left; none if it is exceeded.
    pub(crate) fn validate_default(
        &self,
        default: &Value,
        node: &Node,
        (budget, patterns): (i64, &Patterns),
        at: &Field<'_>,
        errors: &mut ErrorList,
    ) -> Option<i64> {
        let limits = Limits { budget, ..Limits::DEFAULT };
        let mut evaluate = |old: Option<&Value>| {
            let change = Change { node, value: default, old, ratchets: false };
            let before = errors.0.len();
            let left = self.evaluate(&change, limits, patterns, at, errors, &mut Vec::new());
            (left, errors.0.len() > before)
        };
        match evaluate(Some(default)) {
            (left, true) => left,
            (left, false) => left.zip(evaluate(None).0).map(|(a, b)| a.min(b)),
        }
    }
}

/// A value to validate, and its old value.
pub(super) struct Change<'v> {
    pub(super) node: &'v Node,
    pub(super) value: &'v Value,
    pub(super) old: Option<&'v Value>,
    /// Errors of unchanged values are tolerated.
    pub(super) ratchets: bool,
}

/// The costs that are allowed.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Of all evaluations.
    pub(super) budget: i64,
    pub(super) per_call: u64,
}

impl Limits {
    const DEFAULT: Limits = Limits { budget: OBJECT_COST_BUDGET, per_call: PER_CALL_LIMIT };
}

/// Returns true if an error keeps rules from being evaluated: their types and costs rely on what it violates.
fn blocks_rules(errors: &ErrorList) -> bool {
    use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    let blocks =
        |error: &FieldError| matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid);
    errors.0.iter().any(blocks)
}

/// The budget is exceeded; the error is listed.
struct BudgetExceeded;

type Walked = Result<(), BudgetExceeded>;

struct Walk<'e> {
    limits: Limits,
    /// Those that are not constant, of all evaluations.
    patterns: &'e Patterns,
    errors: &'e mut ErrorList,
    warnings: &'e mut Vec<String>,
}

impl Walk<'_> {
    fn value<'v>(
        &mut self,
        rules: &RuleNode,
        node: &'v Node,
        value: &'v Value,
        old: Option<&'v Value>,
        ratchet: Ratchet<'_, 'v>,
        at: &Field<'_>,
    ) -> Walked {
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(rules, node, value, old, &ratchet, at)?;
        match value {
            Value::Array(items) => self.items(rules, node, items, old, ratchet, at),
            Value::Object(map) => self.members(rules, node, map, old, ratchet, at),
            _ => Ok(()),
        }
    }

    fn members<'v>(
        &mut self,
        rules: &RuleNode,
        node: &'v Node,
        map: &'v Map,
        old: Option<&'v Value>,
        ratchet: Ratchet<'_, 'v>,
        at: &Field<'_>,
    ) -> Walked {
        if let (Some(inner), Some(inner_node)) = (&rules.additional, node.additional.schema()) {
            for (key, value) in map.iter() {
                self.member(inner, inner_node, (key, value), old, ratchet, &at.key(key))?;
            }
        }
        for (key, value) in map.iter() {
            if let (Some(inner), Some(inner_node)) = (rules.property(key), node.property(key)) {
                self.member(inner, inner_node, (key, value), old, ratchet, &at.child(key))?;
            }
        }
        Ok(())
    }

    fn member<'v>(
        &mut self,
        rules: &RuleNode,
        node: &'v Node,
        (key, value): (&str, &'v Value),
        old: Option<&'v Value>,
        ratchet: Ratchet<'_, 'v>,
        at: &Field<'_>,
    ) -> Walked {
        let old = old.and_then(|old| old.get(key));
        // Versions are converted before they are compared, so a change of them is not seen.
        let is_root = ratchet.current.is_some() && ratchet.parent.is_none();
        if is_root && matches!(key, "apiVersion" | "kind") {
            return self.value(rules, node, value, old, Ratchet::NONE, at);
        }
        let previous = ratchet.current.and_then(|current| current.old.get(key));
        let correlated = previous.map(|old| Correlated::new(node, value, old));
        self.value(rules, node, value, old, ratchet.below(correlated.as_ref()), at)
    }

    fn items<'v>(
        &mut self,
        rules: &RuleNode,
        node: &'v Node,
        items: &'v [Value],
        old: Option<&'v Value>,
        ratchet: Ratchet<'_, 'v>,
        at: &Field<'_>,
    ) -> Walked {
        let (Some(inner), Some(inner_node)) = (&rules.items, node.items.as_deref()) else { return Ok(()) };
        let old_items = old.and_then(|old| OldItems::new(node, old));
        for (i, item) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old| old.find(node, item));
            let correlated = old.map(|old| Correlated::new(inner_node, item, old));
            let ratchet = ratchet.below(correlated.as_ref());
            self.value(inner, inner_node, item, old, ratchet, &at.index(i))?;
        }
        Ok(())
    }

    /// Evaluates the rules of one value.
    fn rules(
        &mut self,
        rules: &RuleNode,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        ratchet: &Ratchet<'_, '_>,
        at: &Field<'_>,
    ) -> Walked {
        if rules.rules.is_empty() {
            return Ok(());
        }
        let at = match at.to_string() {
            text if text.is_empty() => "<nil>".to_owned(),
            text => text,
        };
        let place = Place { at: &at, kind: node.kind.name(), value };
        if self.limits.budget <= 0 {
            return self.exceed(&place, OUT_OF_BUDGET);
        }
        for compiled in &rules.rules {
            self.rule(rules, compiled, old, ratchet, &place)?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        node: &RuleNode,
        compiled: &Compiled,
        old: Option<&Value>,
        ratchet: &Ratchet<'_, '_>,
        place: &Place<'_>,
    ) -> Walked {
        let rule = &compiled.rule;
        let expressions = match &compiled.program {
            Ok(expressions) => expressions,
            Err(why) => {
                self.fail(place, &format!("rule compile error: {why}"));
                return Ok(());
            }
        };
        if expressions.uses_old_self && old.is_none() && !rule.is_optional_old_self() {
            return Ok(());
        }
        let Some(declared) = node.declared.as_deref() else { return Ok(()) };
        let typed = |value| CelValue::typed(value, declared);
        let evaluated = typed(place.value).and_then(|own| {
            let old = old.map(typed).transpose()?;
            Ok(Variables { own, old })
        });
        let variables = match evaluated {
            Ok(variables) => variables,
            Err(error) => {
                self.fail(place, &format!("{error} evaluating rule: {}", rule.shown()));
                return Ok(());
            }
        };
        let outcome =
            expressions.validation.eval_with(&variables.of(rule), self.limits.per_call, self.patterns);
        self.spend(outcome.cost, place)?;
        match outcome.value {
            Ok(value) if value.as_bool() == Some(true) => Ok(()),
            Ok(_) => self.refuse(rule, expressions, &variables, ratchet, place),
            Err(error) => self.report(&error, rule, place),
        }
    }

    fn spend(&mut self, cost: u64, place: &Place<'_>) -> Walked {
        match i64::try_from(cost).ok().filter(|cost| *cost <= self.limits.budget) {
            Some(cost) => {
                self.limits.budget -= cost;
                Ok(())
            }
            None => self.exceed(place, OUT_OF_BUDGET),
        }
    }

    /// Lists an error of the rule itself.
    fn fail(&mut self, place: &Place<'_>, detail: &str) {
        self.errors.invalid(place.at, &Value::from(place.kind), detail);
    }

    fn exceed(&mut self, place: &Place<'_>, detail: &str) -> Walked {
        self.fail(place, detail);
        Err(BudgetExceeded)
    }

    /// Lists the error of an evaluation.
    fn report(&mut self, error: &Error, rule: &Rule, place: &Place<'_>) -> Walked {
        let (text, shown) = (error.to_string(), rule.shown());
        if matches!(error, Error::Cancelled) {
            let why = "no further validation rules will be run due to call cost exceeds limit for rule";
            return self.exceed(place, &format!("'{text}': {why}: {shown}"));
        }
        if text.starts_with("no such overload") {
            let why =
                "call arguments did not match a supported operator, function or macro signature for rule";
            self.fail(place, &format!("'{text}': {why}: {shown}"));
        } else {
            self.fail(place, &format!("{text} evaluating rule: {shown}"));
        }
        Ok(())
    }

    /// Lists the error of a rule that does not hold, or warns of it if the value is unchanged.
    fn refuse(
        &mut self,
        rule: &Rule,
        expressions: &Expressions,
        variables: &Variables<'_>,
        ratchet: &Ratchet<'_, '_>,
        place: &Place<'_>,
    ) -> Walked {
        let field = match (&expressions.field_path, place.at) {
            (None, at) => at.to_owned(),
            (Some(path), "<nil>") => path.clone(),
            (Some(path), at) => format!("{at}.{path}"),
        };
        let message = match &expressions.message {
            None => Ok(None),
            Some(program) => self.message(program, rule, variables),
        };
        let (error, walked) = match message {
            Ok(message) => {
                let default = || match rule.message.trim() {
                    "" => format!("failed rule: {}", rule.shown()),
                    message => message.to_owned(),
                };
                (violation(rule, place, field, message.unwrap_or_else(default)), Ok(()))
            }
            Err(detail) => {
                let bad_value = Some(quoted(place.kind));
                let error = FieldError { kind: FieldErrorKind::Invalid, field, bad_value, detail };
                (error, Err(BudgetExceeded))
            }
        };
        if !expressions.uses_old_self && ratchet.tolerates() {
            if self.warnings.len() < MAX_WARNINGS {
                self.warnings.push(error.to_string());
            }
        } else {
            self.errors.add(error);
        }
        walked
    }

    /// The evaluated message of a rule; none if it is unusable. The error is that of an exceeded budget.
    fn message(
        &mut self,
        program: &Program,
        rule: &Rule,
        variables: &Variables<'_>,
    ) -> Result<Option<String>, String> {
        let outcome = program.eval_with(&variables.plain(), self.limits.per_call, self.patterns);
        let Some(cost) = i64::try_from(outcome.cost).ok().filter(|cost| *cost <= self.limits.budget) else {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(why.to_owned());
        };
        if matches!(outcome.value, Err(Error::Cancelled)) {
            let why = "no further validation rules will be run due to call cost exceeds limit for messageExpression";
            return Err(format!("{why}: {}", quoted(&rule.message_expression)));
        }
        self.limits.budget -= cost;
        let text = outcome.value.ok().and_then(|value| value.as_str().map(|text| text.trim().to_owned()));
        Ok(text.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n')))
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The validated value, its path, and the type of its schema.
struct Place<'p> {
    at: &'p str,
    kind: &'static str,
    value: &'p Value,
}

/// The values of `self` and `oldSelf`.
struct Variables<'v> {
    own: CelValue<'v>,
    old: Option<CelValue<'v>>,
}

impl<'v> Variables<'v> {
    fn of(&self, rule: &Rule) -> [Option<CelValue<'v>>; 2] {
        if !rule.is_optional_old_self() {
            return self.plain();
        }
        let old = self.old.clone().map_or(CelValue::Optional(None), CelValue::some);
        [Some(self.own.clone()), Some(old)]
    }

    fn plain(&self) -> [Option<CelValue<'v>>; 2] {
        [Some(self.own.clone()), self.old.clone()]
    }
}

/// The error of a rule that does not hold. Objects and lists are not shown.
fn violation(rule: &Rule, place: &Place<'_>, field: String, detail: String) -> FieldError {
    let bad_value = || (!matches!(place.kind, "object" | "array")).then(|| shown(place.value));
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => {
            FieldError { kind: FieldErrorKind::Forbidden, field, bad_value: None, detail }
        }
        Some("FieldValueRequired") => {
            FieldError { kind: FieldErrorKind::Required, field, bad_value: None, detail }
        }
        Some("FieldValueDuplicate") => FieldError {
            kind: FieldErrorKind::Duplicate,
            field,
            bad_value: bad_value(),
            detail: String::new(),
        },
        _ => FieldError { kind: FieldErrorKind::Invalid, field, bad_value: bad_value(), detail },
    }
}
