//! Environments: the variables, functions and language features that an expression is compiled with.
//!
//! A server accepts new expressions only with the features of its minimum compatibility version, so that it can be
//! rolled back; stored expressions compile with all features. `features` lists what came when.

mod features;

use std::collections::HashMap;
use std::sync::Arc;

pub use features::{Feature, Version};

use crate::check::{Checked, check};
use crate::declare::{Declaration, Functions};
use crate::library::regex::Budget;
use crate::parser::{self, Macro, parse};
use crate::plan;
use crate::program::Program;
use crate::schema::{is_reserved, unescape};
use crate::source::{Issues, Source};
use crate::types::{ObjectType, Type};
use crate::validate;
use crate::value::JSON_PATCH;

/// The type of a whole object; those of its parts have the path as a suffix.
const OBJECT: &str = "Object";

/// A set of variables, functions and language features. Cloning is cheap.
#[derive(Clone)]
pub struct Environment {
    shared: Arc<Shared>,
    variables: Arc<[(Arc<str>, Type)]>,
    record: Option<Arc<Record>>,
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
    /// Literals of `Object` types and of `JSONPatch` are allowed.
    patch_types: bool,
}

/// A variable whose fields are variables of their own, `NAME.FIELD`, which are computed when they are first read.
#[derive(Clone, Debug)]
pub struct Record {
    name: &'static str,
    ty: Type,
    fields: Vec<(Arc<str>, Type)>,
    positions: HashMap<Arc<str>, usize>,
}

impl Record {
    pub fn new(name: &'static str, type_name: &str) -> Record {
        Record { name, ty: Type::object(type_name), fields: Vec::new(), positions: HashMap::new() }
    }

    /// Adds a field. One of the same name is replaced for expressions that are compiled from now on.
    pub fn push(&mut self, name: Arc<str>, ty: Type) {
        self.positions.insert(name.clone(), self.fields.len());
        self.fields.push((name, ty));
    }
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
        Environment { shared: self.shared.clone(), variables, record: self.record.clone() }
    }

    /// This environment with a record. Its position follows those of the variables, those of its fields follow it.
    #[must_use]
    pub fn with_record(&self, record: Arc<Record>) -> Environment {
        Environment { record: Some(record), ..self.clone() }
    }

    /// True for the position of a variable that is a field of the record.
    pub(crate) fn is_record_field(&self, slot: usize) -> bool {
        self.record.is_some() && slot > self.variables.len()
    }

    /// The name of the variable at a position.
    pub(crate) fn variable_name(&self, slot: usize) -> Option<Arc<str>> {
        match slot.checked_sub(self.variables.len()) {
            None => self.variables.get(slot).map(|(name, _)| name.clone()),
            Some(0) => self.record.as_ref().map(|record| record.name.into()),
            Some(at) => {
                let record = self.record.as_ref()?;
                let (field, _) = record.fields.get(at - 1)?;
                Some(format!("{}.{field}", record.name).into())
            }
        }
    }

    /// This environment with more functions and macros.
    #[must_use]
    pub fn with_library(&self, declarations: &[Declaration], macros: &[Macro]) -> Environment {
        let mut shared = (*self.shared).clone();
        shared.functions.add(declarations);
        shared.parser.macros.extend_from_slice(macros);
        Environment {
            shared: Arc::new(shared),
            variables: self.variables.clone(),
            record: self.record.clone(),
        }
    }

    /// This environment with literals of objects and JSON patches, and the functions for their paths.
    #[must_use]
    pub fn with_patch_types(&self) -> Environment {
        let extended = self.with_library(crate::library::jsonpatch::LIBRARY.declarations, &[]);
        let shared = Shared { patch_types: true, ..(*extended.shared).clone() };
        Environment { shared: Arc::new(shared), ..extended }
    }

    /// True for the name of a type that literals of patches create.
    pub(crate) fn is_patch_type(&self, name: &str) -> bool {
        let is_object =
            || name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.shared.patch_types && (name == JSON_PATCH || is_object())
    }

    /// This environment without the checks of constants, for tests of the language.
    #[doc(hidden)]
    #[must_use]
    pub fn without_validators(&self) -> Environment {
        let validators = validate::Validators { mixed: false, literals: false, formats: false };
        let shared = Shared { validators, ..(*self.shared).clone() };
        Environment {
            shared: Arc::new(shared),
            variables: self.variables.clone(),
            record: self.record.clone(),
        }
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
        if let Some(record) = &self.record
            && let Some(rest) = name.strip_prefix(record.name)
        {
            if rest.is_empty() {
                return Some((self.variables.len(), &record.ty));
            }
            if let Some(at) = rest.strip_prefix('.').and_then(|field| record.positions.get(field)) {
                return Some((self.variables.len() + 1 + at, &record.fields[*at].1));
            }
        }
        // A variable that is declared again replaces the first.
        let at = self.variables.iter().rposition(|(known, _)| **known == *name)?;
        Some((at, &self.variables[at].1))
    }

    pub fn variables(&self) -> &[(Arc<str>, Type)] {
        &self.variables
    }

    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        let known = self.shared.types.iter().find(|(known, _)| *known == name).map(|(_, ty)| ty.clone());
        known.or_else(|| self.is_patch_type(name).then(|| Type::object(name)))
    }

    /// The type that a message literal creates.
    pub(crate) fn struct_type(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let found = self.shared.structs.iter().find(|(known, _)| **known == *name).map(|(_, ty)| ty.clone());
        found.or_else(|| self.type_named(name))
    }

    /// The type of a field of an object, or the text of an error.
    pub(crate) fn field_type(&self, object: &ObjectType, field: &str) -> Result<Type, String> {
        if let Some(record) = self.record.as_ref().filter(|record| record.ty.name() == &*object.name) {
            let at = record.positions.get(field).ok_or_else(|| format!("undefined field '{field}'"))?;
            return Ok(record.fields[*at].1.clone());
        }
        if self.is_patch_type(&object.name) {
            return match (&*object.name, field) {
                (JSON_PATCH, "op" | "path" | "from") => Ok(Type::String),
                (JSON_PATCH, "value") => Ok(Type::Dyn),
                (JSON_PATCH, _) => Err(format!("undefined field '{field}'")),
                _ => Ok(Type::Dyn),
            };
        }
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
