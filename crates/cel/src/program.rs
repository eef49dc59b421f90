//! A compiled expression: nodes in one array, children before parents.
//!
//! Variables are slots: those of the environment by their position, those of comprehensions by the depth of nesting.
//! Constant parts are already computed. A program is immutable and shared between threads.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use crate::cost::functions::Actual;
use crate::declare::{Overload, PatternFunction};
use crate::error::{Error, Result};
use crate::eval;
use crate::library::regex::{Pattern, Patterns, compile_checked};
use crate::value::{Key, Value};

pub struct Program {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    /// Slots of comprehensions that are in use at once.
    pub(crate) locals: usize,
}

/// A value and what it cost.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    pub value: Result<Value<'a>>,
    pub cost: u64,
}

/// The values of the variables of an environment, by their positions.
pub trait Variables<'a> {
    /// The value of a variable; none if it has no value, which is an error of the expression.
    fn get(&self, slot: usize) -> Result<Option<Value<'a>>>;
}

impl<'a> Variables<'a> for &[Option<Value<'a>>] {
    fn get(&self, slot: usize) -> Result<Option<Value<'a>>> {
        Ok(<[_]>::get(self, slot).cloned().flatten())
    }
}

impl Program {
    /// Evaluates with the values of the variables, in the order in which the environment declares them. Evaluation ends
    /// with an error when it costs more than the limit.
    pub fn eval<'a>(&'a self, variables: &[Option<Value<'a>>], cost_limit: u64) -> Outcome<'a> {
        self.eval_with(variables, cost_limit, &Patterns::default())
    }

    /// Evaluates like `eval`, with the patterns that other evaluations compiled.
    pub fn eval_with<'a>(
        &'a self,
        variables: &[Option<Value<'a>>],
        cost_limit: u64,
        patterns: &Patterns,
    ) -> Outcome<'a> {
        self.eval_lazily(&variables, cost_limit, patterns)
    }

    /// Evaluates with variables that are computed when they are first read.
    pub fn eval_lazily<'a>(
        &'a self,
        variables: &dyn Variables<'a>,
        cost_limit: u64,
        patterns: &Patterns,
    ) -> Outcome<'a> {
        let (value, cost) = eval::evaluate(self, variables, cost_limit, patterns);
        Outcome { value, cost }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        // Ids are only created for nodes of the same program.
        self.nodes.get(id.0 as usize).unwrap_or(&Node::MISSING)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} nodes)", self.nodes.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub(crate) u32);

pub(crate) enum Node {
    Constant(Value<'static>),
    Attribute(Attribute),
    And(NodeId, NodeId),
    Or(NodeId, NodeId),
    Equal(NodeId, NodeId),
    NotEqual(NodeId, NodeId),
    Call(Box<Call>),
    /// True unless the argument is false; errors count as true.
    NotStrictlyFalse(NodeId),
    /// `argument in [constants]`.
    InSet(NodeId, HashSet<Key>),
    /// Elements, and which of them are optional.
    List(Box<[(NodeId, bool)]>),
    /// Keys, values, and which of them are optional.
    Map(Box<[(NodeId, NodeId, bool)]>),
    /// An object literal: its type, and fields with which of them are optional.
    Object(Arc<str>, Box<[(Arc<str>, NodeId, bool)]>),
    Fold(Box<Fold>),
    /// `accumulator + [item]`: the accumulator's slot and the item.
    Append(usize, NodeId),
    /// Adds an entry to the map in the accumulator's slot: key and value.
    Insert(usize, NodeId, NodeId),
    /// Adds the entries of a map to the map in the accumulator's slot.
    InsertAll(usize, NodeId),
    OptionalOr(NodeId, NodeId),
    OptionalOrValue(NodeId, NodeId),
}

impl Node {
    const MISSING: Node = Node::Constant(Value::Null);
}

/// A variable or an expression, with the fields and indexes that are read from it.
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// The last qualifier is only tested for presence.
    pub(crate) test: bool,
}

pub(crate) enum Root {
    Variable(usize, Arc<str>),
    /// A field of a record (`Environment::with_record`), which costs as one.
    Field(usize, Arc<str>),
    Local(usize),
    Node(NodeId),
    /// Condition, and the two values.
    Conditional(NodeId, NodeId, NodeId),
}

pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) optional: bool,
}

pub(crate) enum QualifierKey {
    Field(Arc<str>),
    Constant(Value<'static>),
    Node(NodeId),
}

pub(crate) struct Call {
    pub(crate) function: &'static str,
    pub(crate) arguments: Box<[NodeId]>,
    pub(crate) dispatch: Dispatch,
    pub(crate) cost: Actual,
    /// Evaluation stops at the first argument that fails, and such a call costs nothing.
    pub(crate) variadic: bool,
}

pub(crate) enum Dispatch {
    One(Arc<Overload>),
    /// The overload is chosen by the types of the values.
    Several(Arc<Vec<Arc<Overload>>>),
    /// A function with a regular expression that is constant.
    Pattern(Arc<Overload>, Constant, PatternFunction),
}

/// A constant regular expression.
pub(crate) struct Constant {
    pub(crate) pattern: Arc<str>,
    /// Compiled when it is first used; none if the budget of the expression does not allow to keep it.
    pub(crate) kept: Option<OnceLock<std::result::Result<Pattern, String>>>,
}

impl Constant {
    /// Calls a function with the compiled expression.
    pub(crate) fn call<'a>(
        &self,
        function: PatternFunction,
        arguments: &[Value<'a>],
        patterns: &Patterns,
    ) -> Result<Value<'a>> {
        let Some(kept) = &self.kept else { return function(&*patterns.get(&self.pattern)?, arguments) };
        match kept.get_or_init(|| compile_checked(&self.pattern)) {
            Ok(regex) => function(regex, arguments),
            Err(why) => Err(why.clone().into()),
        }
    }
}

pub(crate) struct Fold {
    pub(crate) range: NodeId,
    pub(crate) init: NodeId,
    pub(crate) condition: NodeId,
    pub(crate) step: NodeId,
    pub(crate) result: NodeId,
    /// The slot of the accumulator; those of the variables follow.
    pub(crate) slot: usize,
    pub(crate) two_variables: bool,
}

/// The error of a variable without a value.
pub(crate) fn missing(name: &str) -> Error {
    format!("no such attribute(s): {name}").into()
}
