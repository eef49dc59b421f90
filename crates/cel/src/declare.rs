//! Declarations of functions: a library is a table of overloads, one line each.
//!
//! ```text
//! Declaration::new("contains", "contains_string", "string.(string) bool", Implementation::Values(contains))
//! ```
//!
//! The evaluator checks the types of arguments before it calls an implementation, so an implementation sees values of
//! the types it declares; arguments of type `dyn` and type parameters can be anything. An implementation never panics
//! and bounds its result: text and lists larger than `MAX_RESULT` bytes are `Error::Cancelled`, because some functions
//! cost less than the memory that their results take.
//!
//! Costs: functions that upstream's base environment prices by name are in `cost::functions`; functions of extension
//! libraries that have their own rules carry them as `Cost::Rules`. All others cost 1.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cost;
use crate::error::Result;
use crate::library::regex::Pattern;
use crate::types::{Type, split_top};
use crate::value::Value;

/// The largest result of a function, in bytes of memory.
pub const MAX_RESULT: usize = 64 << 20;

/// A function of its arguments; the receiver of a method is the first.
pub type Function = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>>;
/// A function with a regular expression among its arguments, which is compiled once where it is a literal.
pub type PatternFunction = for<'a> fn(&Pattern, &[Value<'a>]) -> Result<Value<'a>>;

#[derive(Clone, Copy)]
pub enum Implementation {
    Values(Function),
    /// The argument at this position is a regular expression. A literal that does not compile fails the compilation of
    /// the expression.
    Pattern(usize, PatternFunction),
    /// The evaluator implements this operator itself.
    Special,
}

/// The cost of a call, without that of its arguments.
#[derive(Clone, Copy)]
pub enum Cost {
    /// By function name or overload, as in upstream's base environment (`cost::functions`).
    Standard,
    Rules(Rules),
}

/// Cost rules of one overload.
#[derive(Clone, Copy)]
pub struct Rules {
    pub estimate: fn(&cost::Call<'_>) -> cost::Estimate,
    /// From the arguments and the result.
    pub actual: fn(&[Value<'_>], Option<&Value<'_>>) -> u64,
}

/// One overload of a function, as a line of a table.
#[derive(Clone, Copy)]
pub struct Declaration {
    pub function: &'static str,
    /// The overload's id, which is unique in an environment.
    pub overload: &'static str,
    /// Types of the arguments and of the result: `(list(T), T) bool` for a function, `string.(int) string` for a method.
    pub signature: &'static str,
    pub implementation: Implementation,
    pub cost: Cost,
    /// The overload accepts arguments of any type at run time and reports wrong ones itself.
    pub unguarded: bool,
}

impl Declaration {
    pub const fn new(
        function: &'static str,
        overload: &'static str,
        signature: &'static str,
        implementation: Implementation,
    ) -> Declaration {
        let cost = Cost::Standard;
        Declaration { function, overload, signature, implementation, cost, unguarded: false }
    }

    #[must_use]
    pub const fn with_cost(self, rules: Rules) -> Declaration {
        Declaration { cost: Cost::Rules(rules), ..self }
    }

    #[must_use]
    pub const fn unguarded(self) -> Declaration {
        Declaration { unguarded: true, ..self }
    }
}

/// A set of declarations that an environment includes as a whole.
#[derive(Clone, Copy)]
pub struct Library {
    pub declarations: &'static [Declaration],
    /// Names of types that expressions may refer to.
    pub types: &'static [&'static str],
}

/// An overload with parsed types.
pub struct Overload {
    pub id: &'static str,
    pub member: bool,
    pub arguments: Box<[Type]>,
    pub result: Type,
    /// Names of the type parameters in order of their first use.
    pub parameters: Box<[Arc<str>]>,
    pub implementation: Implementation,
    pub cost: Cost,
    pub unguarded: bool,
}

impl Overload {
    fn of(declaration: &Declaration) -> Overload {
        let (receiver, rest) = declaration.signature.split_once(".(").map_or_else(
            || (None, declaration.signature.strip_prefix('(').unwrap_or(declaration.signature)),
            |(receiver, rest)| (Some(receiver), rest),
        );
        let end = closing(rest);
        let mut arguments: Vec<Type> = receiver.into_iter().map(Type::parse).collect();
        arguments.extend(split_top(&rest[..end]).into_iter().map(Type::parse));
        let result = Type::parse(rest.get(end + 1..).unwrap_or_default());
        let mut parameters = Vec::new();
        for ty in arguments.iter().chain([&result]) {
            collect_parameters(ty, &mut parameters);
        }
        Overload {
            id: declaration.overload,
            member: receiver.is_some(),
            arguments: arguments.into(),
            result,
            parameters: parameters.into(),
            implementation: declaration.implementation,
            cost: declaration.cost,
            unguarded: declaration.unguarded,
        }
    }
}

/// The position of the parenthesis that closes an argument list.
fn closing(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return at,
            b')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

fn collect_parameters(ty: &Type, into: &mut Vec<Arc<str>>) {
    if let Type::Parameter(name) = ty
        && !into.contains(name)
    {
        into.push(name.clone());
    }
    for parameter in ty.parameters() {
        collect_parameters(parameter, into);
    }
}

/// The functions of an environment by name.
#[derive(Clone, Default)]
pub struct Functions {
    by_name: HashMap<&'static str, Arc<Vec<Arc<Overload>>>>,
}

impl Functions {
    /// Adds declarations. Of overloads with the same id, the last wins.
    pub fn add(&mut self, declarations: &[Declaration]) {
        for declaration in declarations {
            let overloads = Arc::make_mut(self.by_name.entry(declaration.function).or_default());
            let overload = Arc::new(Overload::of(declaration));
            match overloads.iter_mut().find(|known| known.id == overload.id) {
                Some(known) => *known = overload,
                None => overloads.push(overload),
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<(&'static str, &Arc<Vec<Arc<Overload>>>)> {
        self.by_name.get_key_value(name).map(|(name, overloads)| (*name, overloads))
    }
}
