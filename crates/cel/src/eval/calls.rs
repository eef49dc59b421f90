//! Calls of functions: arguments, cost, and the choice of an overload.

use super::Evaluator;
use crate::cost::functions::Actual;
use crate::declare::{Implementation, Overload};
use crate::error::{Error, Result};
use crate::library::regex::Patterns;
use crate::program::{Call, Dispatch};
use crate::value::Value;

impl<'a> Evaluator<'_, 'a> {
    pub(super) fn call(&mut self, call: &'a Call) -> Result<Value<'a>> {
        match *call.arguments {
            [a] => {
                let a = [self.eval(a)];
                self.finish(call, a)
            }
            [a, b] if !call.variadic => {
                let (a, b) = self.operands(a, b)?;
                self.finish(call, [a, b])
            }
            _ => self.call_variadic(call),
        }
    }

    /// Evaluates arguments up to the first that fails.
    fn call_variadic(&mut self, call: &'a Call) -> Result<Value<'a>> {
        let mut values = Vec::with_capacity(call.arguments.len());
        for (at, argument) in call.arguments.iter().enumerate() {
            match self.eval(*argument) {
                Ok(value) => values.push(value),
                // Upstream counts the cost of a call once all of its arguments are evaluated.
                Err(error) if at + 1 == call.arguments.len() && error != Error::Cancelled => {
                    values.push(Value::Null);
                    self.charge(call.cost.of_call(&values, None))?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        self.invoke(call, &values)
    }

    /// Calls with arguments that are all evaluated. The call costs the same if one of them failed.
    fn finish<const N: usize>(
        &mut self,
        call: &'a Call,
        arguments: [Result<Value<'a>>; N],
    ) -> Result<Value<'a>> {
        let mut failed = None;
        let values = arguments.map(|argument| {
            argument.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                Value::Null
            })
        });
        match failed {
            None => self.invoke(call, &values),
            Some(Error::Cancelled) => Err(Error::Cancelled),
            Some(error) => {
                self.charge(call.cost.of_call(&values, None))?;
                Err(error)
            }
        }
    }

    fn invoke(&mut self, function: &'a Call, arguments: &[Value<'a>]) -> Result<Value<'a>> {
        // Costs that do not depend on the result are counted first, so that an expensive call is never made.
        let after = matches!(function.cost, Actual::After(_));
        if !after {
            self.charge(function.cost.of_call(arguments, None))?;
        }
        let patterns = self.patterns;
        let result = self.counted(|| call(function, arguments, patterns));
        if matches!(result, Err(Error::Cancelled)) {
            return result;
        }
        if after {
            self.charge(function.cost.of_call(arguments, result.as_ref().ok()))?;
        }
        let value = result?;
        self.allocate(&value)?;
        Ok(value)
    }
}

/// Calls a function with values.
pub(crate) fn call<'a>(call: &Call, arguments: &[Value<'a>], patterns: &Patterns) -> Result<Value<'a>> {
    let no_overload = || {
        let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
        Err(format!("no such overload: {}({})", call.function, types.join(", ")).into())
    };
    match &call.dispatch {
        Dispatch::One(overload) if accepts(overload, arguments) => invoke(overload, arguments, patterns),
        Dispatch::Pattern(overload, constant, function) if accepts(overload, arguments) => {
            constant.call(*function, arguments, patterns)
        }
        Dispatch::Several(overloads) => {
            match overloads.iter().find(|overload| accepts(overload, arguments)) {
                Some(overload) => invoke(overload, arguments, patterns),
                None => no_overload(),
            }
        }
        _ => no_overload(),
    }
}

fn accepts(overload: &Overload, arguments: &[Value<'_>]) -> bool {
    overload.arguments.len() == arguments.len()
        && (overload.unguarded
            || arguments.iter().zip(&overload.arguments).all(|(value, ty)| value.has_type(ty)))
}

fn invoke<'a>(overload: &Overload, arguments: &[Value<'a>], patterns: &Patterns) -> Result<Value<'a>> {
    match overload.implementation {
        Implementation::Values(function) => function(arguments),
        Implementation::Pattern(at, function) => match arguments.get(at) {
            Some(Value::String(pattern)) => function(&*patterns.get(pattern)?, arguments),
            _ => Err(Error::no_such_overload()),
        },
        Implementation::Special => Err(Error::no_such_overload()),
    }
}

/// The error of a value that cannot be the key of a map.
pub(crate) fn unsupported_key(key: &Value<'_>) -> Error {
    format!("unsupported key type: {}", key.type_name()).into()
}
