//! The values of variables for one request, and the evaluation of expressions with them.
//!
//! Values are read from the request when an expression first needs them. The variables of a policy are evaluated once
//! per activation, when they are first read; what they cost is added to the cost of the expression that read them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use corten_api::Value as Tree;
use corten_cel::library::authz::{ResourceCheck, Subject};
use corten_cel::library::regex::Patterns;
use corten_cel::value::{Entries, Map};
use corten_cel::{Error, Result as CelResult, Value, Variables};

use crate::PER_CALL_LIMIT;
use crate::environment::{
    AUTHORIZER, NAMESPACE, OBJECT, OLD_OBJECT, PARAMS, REQUEST, REQUEST_RESOURCE, VARIABLES,
};
use crate::expression::Expression;

/// Variables that are evaluated for each other at once. Each takes part of the stack.
const MAX_NESTING: usize = 48;

/// The error of a policy whose expressions cost too much.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The values of one request. Each is made when it is first asked for.
pub trait Request {
    /// The object in the version that the policy or webhook matched; none for deletions.
    fn object(&self) -> Option<&Tree>;
    /// The old object in that version; none for creations.
    fn old_object(&self) -> Option<&Tree>;
    /// The AdmissionRequest, without object and old object.
    fn admission_request(&self) -> &Tree;
    /// The namespace of the object, without owners and managed fields; none for cluster-scoped objects.
    fn namespace_object(&self) -> Option<&Tree>;
    /// The user's authorizer, and the check of the requested resource.
    fn authorizer(&self) -> (&Subject, &ResourceCheck);
}

/// The values of optional variables.
#[derive(Clone, Copy, Default)]
pub struct Bindings<'a> {
    pub params: Option<&'a Tree>,
    /// The namespace of the object is known.
    pub namespace: bool,
    pub authorizer: bool,
}

/// The compiled variables of a policy, in their order.
pub(crate) type Composited = [(Arc<str>, Expression)];

/// The value of an expression, or the text of its error.
pub(crate) type Evaluated<'a> = Result<Value<'a>, String>;

pub(crate) struct Activation<'a> {
    request: &'a dyn Request,
    bindings: Bindings<'a>,
    composited: &'a Composited,
    /// Values of the variables that were read.
    values: RefCell<Vec<Option<CelResult<Value<'a>>>>>,
    nesting: Cell<usize>,
    /// Cost of variables since the last evaluation.
    cost: Cell<u64>,
    patterns: Patterns,
}

impl<'a> Activation<'a> {
    pub(crate) fn new(
        request: &'a dyn Request,
        bindings: Bindings<'a>,
        composited: &'a Composited,
    ) -> Activation<'a> {
        Activation {
            request,
            bindings,
            composited,
            values: RefCell::default(),
            nesting: Cell::new(0),
            cost: Cell::new(0),
            patterns: Patterns::default(),
        }
    }

    /// Evaluates an expression and takes its cost from the budget. The outer error ends all evaluations of the list.
    pub(crate) fn evaluate(
        &self,
        expression: &'a Expression,
        budget: &mut u64,
    ) -> Result<Evaluated<'a>, &'static str> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(error) => return Ok(Err(format!("compilation error: {error}"))),
        };
        let outcome = program.eval_lazily(self, PER_CALL_LIMIT, &self.patterns);
        let total = self.cost.take().saturating_add(outcome.cost);
        *budget = budget.checked_sub(total).ok_or(OUT_OF_BUDGET)?;
        Ok(outcome
            .value
            .map_err(|error| format!("expression '{}' resulted in error: {error}", expression.text)))
    }

    /// The value of a variable of the policy.
    fn variable(&self, at: usize) -> CelResult<Option<Value<'a>>> {
        let Some((name, expression)) = self.composited.get(at) else { return Ok(None) };
        if let Some(Some(known)) = self.values.borrow().get(at) {
            return known.clone().map(Some);
        }
        let value = self.compute(name, expression);
        let mut values = self.values.borrow_mut();
        if values.len() < self.composited.len() {
            values.resize(self.composited.len(), None);
        }
        if let Some(cell) = values.get_mut(at) {
            *cell = Some(value.clone());
        }
        value.map(Some)
    }

    fn compute(&self, name: &str, expression: &'a Expression) -> CelResult<Value<'a>> {
        let name = corten_api::status::quoted(name);
        let program = expression
            .program
            .as_ref()
            .map_err(|error| Error::from(format!("composited variable {name} fails to compile: {error}")))?;
        let nesting = self.nesting.get();
        if nesting >= MAX_NESTING {
            return Err(Error::from(format!(
                "composited variable {name} fails to evaluate: nested too deeply"
            )));
        }
        self.nesting.set(nesting + 1);
        let outcome = program.eval_lazily(self, PER_CALL_LIMIT, &self.patterns);
        self.nesting.set(nesting);
        self.cost.set(self.cost.get().saturating_add(outcome.cost));
        outcome
            .value
            .map_err(|error| Error::from(format!("composited variable {name} fails to evaluate: {error}")))
    }

    /// All variables as a map, for expressions that use them as a whole.
    fn all_variables(&self) -> CelResult<Value<'a>> {
        let mut entries = Entries::default();
        for (at, (name, _)) in self.composited.iter().enumerate() {
            if let Some(value) = self.variable(at)? {
                entries.insert(Value::text(name.clone()), value);
            }
        }
        Ok(Value::Map(Map::of(entries)))
    }
}

impl<'a> Variables<'a> for Activation<'a> {
    fn get(&self, slot: usize) -> CelResult<Option<Value<'a>>> {
        let tree = |tree: Option<&'a Tree>| Some(tree.map_or(Value::Null, Value::plain));
        Ok(match slot {
            OBJECT => tree(self.request.object()),
            OLD_OBJECT => tree(self.request.old_object()),
            NAMESPACE if self.bindings.namespace => tree(self.request.namespace_object()),
            NAMESPACE => Some(Value::Null),
            REQUEST => tree(Some(self.request.admission_request())),
            PARAMS => tree(self.bindings.params),
            AUTHORIZER if self.bindings.authorizer => {
                Some(Value::opaque(self.request.authorizer().0.clone()))
            }
            REQUEST_RESOURCE if self.bindings.authorizer => {
                Some(Value::opaque(self.request.authorizer().1.clone()))
            }
            AUTHORIZER | REQUEST_RESOURCE => None,
            VARIABLES => Some(self.all_variables()?),
            variable => self.variable(variable - VARIABLES - 1)?,
        })
    }
}
