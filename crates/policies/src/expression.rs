//! One expression: compiled, with its return type checked.

use std::fmt;

use corten_cel::check::Checked;
use corten_cel::{Environment, Program, Type};

/// A compiled expression, or the reason why it does not compile.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) text: Box<str>,
    pub(crate) program: Result<Program, CompileError>,
}

/// A reason why an expression is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct CompileError {
    pub kind: ErrorKind,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The expression is invalid.
    Invalid,
    /// The expression is valid, but no program can be made of it.
    Internal,
}

/// The types that an expression may evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    Any,
    Bool,
    String,
    StringOrNull,
    /// An `Object`.
    ApplyConfiguration,
    /// A list of `JSONPatch`.
    JsonPatch,
}

impl Returns {
    fn types(self) -> Vec<Type> {
        match self {
            Returns::Any => vec![Type::Any, Type::Dyn],
            Returns::Bool => vec![Type::Bool],
            Returns::String => vec![Type::String],
            Returns::StringOrNull => vec![Type::String, Type::Null],
            Returns::ApplyConfiguration => vec![Type::object("Object")],
            Returns::JsonPatch => vec![Type::list(Type::object("JSONPatch"))],
        }
    }

    fn check(self, output: &Type) -> Result<(), String> {
        if self == Returns::Any || self.types().contains(output) {
            return Ok(());
        }
        Err(match &self.types()[..] {
            [one] => format!("must evaluate to {} but got {}", GoType(one), GoType(output)),
            several => {
                let names: Vec<String> = several.iter().map(|ty| GoType(ty).to_string()).collect();
                format!("must evaluate to one of [{}] but got {}", names.join(" "), GoType(output))
            }
        })
    }
}

impl Expression {
    pub(crate) fn compile(environment: &Environment, text: &str, returns: Returns) -> Expression {
        let program = compile(environment, text, returns).map(|(_, program)| program);
        Expression { text: text.into(), program }
    }
}

/// Compiles an expression: its checked form and its program.
pub(crate) fn compile(
    environment: &Environment,
    text: &str,
    returns: Returns,
) -> Result<(Checked, Program), CompileError> {
    let invalid = |detail| CompileError { kind: ErrorKind::Invalid, detail };
    let checked =
        environment.check(text).map_err(|issues| invalid(format!("compilation failed: {issues}")))?;
    returns.check(checked.output()).map_err(invalid)?;
    let program = environment.program(&checked).map_err(|why| CompileError {
        kind: ErrorKind::Internal,
        detail: format!("program instantiation failed: {why}"),
    })?;
    Ok((checked, program))
}

/// A type as upstream prints it outside of compilation issues.
struct GoType<'t>(&'t Type);

impl fmt::Display for GoType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Type::Wrapper(inner) => write!(f, "wrapper({})", inner.name()),
            other => f.write_str(other.name()),
        }?;
        let parameters = self.0.parameters();
        if parameters.is_empty() {
            return Ok(());
        }
        f.write_str("(")?;
        for (at, parameter) in parameters.iter().enumerate() {
            write!(f, "{}{}", if at > 0 { ", " } else { "" }, GoType(parameter))?;
        }
        f.write_str(")")
    }
}
