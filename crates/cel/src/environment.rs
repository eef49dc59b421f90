//! Environments: the variables, functions and language features that an expression is compiled with.
//!
//! A server accepts new expressions only with the features of its minimum compatibility version, so that it can be
//! rolled back; stored expressions compile with all features. `features` lists what came when.

mod features;

use std::sync::Arc;

pub use features::{Feature, Version};

use crate::check::{Checked, check};
use crate::declare::{Declaration, Functions};
use crate::library::regex::Budget;
use crate::parser::{self, Macro, parse};
use crate::plan;
use crate::program::Program;
use crate::schema::{Property, Schema, is_reserved, unescape};
use crate::source::{Issues, Source};
use crate::types::{ObjectType, Type};
use crate::validate;

/// A set of variables, functions and language features. Cloning is cheap.
#[derive(Clone)]
pub struct Environment {
    shared: Arc<Shared>,
    variables: Arc<[(Arc<str>, Type)]>,
    /// The name of the record, whose fields are variables of their own.
    record: Option<&'static str>,
}

#[derive(Clone)]
struct Shared {
    functions: Functions,
    types: Vec<(&'static str, Type)>,
    structs: Vec<(Arc<str>, Type)>,
    parser: parser::Options,
    cross_type_comparisons: bool,
    validators: validate::Validators,
    keyword_fields: bool,
}

/// A reason why an expression is not accepted.
#[derive(Clone, Debug)]
pub enum CompileError {
    /// The expression is invalid; upstream's text begins with `compilation failed: `.
    Issues(Issues),
    /// A constant part of the expression fails; upstream's text begins with `program instantiation failed: `.
    Program(String),
}

impl Environment {
    /// The environment of new expressions at a compatibility version.
    pub fn at(version: Version) -> Environment {
        features::environment(|feature| feature.enabled_at(version))
    }

    /// The environment of stored expressions: all features.
    pub fn stored() -> Environment {
        features::environment(Feature::enabled_now)
    }

    /// This environment with more variables. Values are given in the order of the variables.
    #[must_use]
    pub fn with_variables(&self, variables: impl IntoIterator<Item = (Arc<str>, Type)>) -> Environment {
        let variables = self.variables.iter().cloned().chain(variables).collect();
        Environment { shared: self.shared.clone(), variables, record: self.record }
    }

    /// This environment with a record: a variable whose fields are variables of their own, `NAME.FIELD`, which are
    /// computed when they are first read. The record itself comes first.
    #[must_use]
    pub fn with_record(
        &self,
        name: &'static str,
        type_name: &str,
        fields: &[(Arc<str>, Type)],
    ) -> Environment {
        let property = |(name, ty): &(Arc<str>, Type)| Property {
            name: (&**name).into(),
            schema: Arc::new(Schema::named(ty.clone())),
            required: true,
            has_default: false,
        };
        let schema = Arc::new(Schema::object(fields.iter().map(property).collect()));
        let record = Type::Object(ObjectType { name: type_name.into(), declared: Some(schema) });
        let fields = fields.iter().map(|(field, ty)| (format!("{name}.{field}").into(), ty.clone()));
        let extended = self.with_variables(std::iter::once((name.into(), record)).chain(fields));
        Environment { record: Some(name), ..extended }
    }

    /// True for the name of a variable that is a field of the record.
    pub(crate) fn is_record_field(&self, name: &str) -> bool {
        let rest = self.record.and_then(|record| name.strip_prefix(record));
        rest.is_some_and(|rest| rest.starts_with('.'))
    }

    /// This environment with more functions and macros.
    #[must_use]
    pub fn with_library(&self, declarations: &[Declaration], macros: &[Macro]) -> Environment {
        let mut shared = (*self.shared).clone();
        shared.functions.add(declarations);
        shared.parser.macros.extend_from_slice(macros);
        Environment { shared: Arc::new(shared), variables: self.variables.clone(), record: self.record }
    }

    /// This environment without the checks of constants, for tests of the language.
    #[doc(hidden)]
    #[must_use]
    pub fn without_validators(&self) -> Environment {
        let validators = validate::Validators { mixed: false, literals: false, formats: false };
        let shared = Shared { validators, ..(*self.shared).clone() };
        Environment { shared: Arc::new(shared), variables: self.variables.clone(), record: self.record }
    }

    /// Parses and checks an expression.
    pub fn check(&self, text: &str) -> Result<Checked, Issues> {
        let source = Source::new(text);
        let checked = parse(&source, &self.shared.parser)
            .and_then(|parsed| check(parsed, &source, self))
            .map_err(|issues| issues.finish(&source))?;
        let issues = validate::validate(&checked, &source, self.shared.validators);
        match issues.is_empty() {
            true => Ok(checked),
            false => Err(issues.finish(&source)),
        }
    }

    /// Compiles a checked expression.
    pub fn program(&self, checked: &Checked) -> Result<Program, String> {
        self.program_within(checked, &Budget::new(Budget::EXPRESSION))
    }

    /// Compiles a checked expression whose constant patterns take part of a budget.
    pub fn program_within(&self, checked: &Checked, budget: &Budget) -> Result<Program, String> {
        plan::plan(checked, self, budget)
    }

    /// Parses, checks and compiles an expression.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        let checked = self.check(text).map_err(CompileError::Issues)?;
        self.program(&checked).map_err(CompileError::Program)
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.shared.functions
    }

    pub(crate) fn cross_type_comparisons(&self) -> bool {
        self.shared.cross_type_comparisons
    }

    /// The position and type of a variable.
    pub fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        // A variable that is declared again replaces the first.
        let at = self.variables.iter().rposition(|(known, _)| **known == *name)?;
        Some((at, &self.variables[at].1))
    }

    pub fn variables(&self) -> &[(Arc<str>, Type)] {
        &self.variables
    }

    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        self.shared.types.iter().find(|(known, _)| *known == name).map(|(_, ty)| ty.clone())
    }

    /// The type that a message literal creates.
    pub(crate) fn struct_type(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let found = self.shared.structs.iter().find(|(known, _)| **known == *name).map(|(_, ty)| ty.clone());
        found.or_else(|| self.type_named(name))
    }

    /// The type of a field of an object, or the text of an error.
    pub(crate) fn field_type(&self, object: &ObjectType, field: &str) -> Result<Type, String> {
        let Some(schema) = &object.declared else {
            return Err(format!("unexpected failed resolution of '{}'", object.name));
        };
        let undefined = || format!("undefined field '{field}'");
        let declared = schema.field(field, self.shared.keyword_fields).ok_or_else(undefined)?;
        // A reserved word is the name of the field that is escaped as such.
        let escaped = match is_reserved(field) && unescape(field).is_some() {
            true => format!("__{field}__"),
            false => field.to_owned(),
        };
        declared.to_type(&format!("{}.{escaped}", object.name)).ok_or_else(undefined)
    }
}
