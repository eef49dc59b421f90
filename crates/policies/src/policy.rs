//! Parts that validating and mutating policies share.

use std::sync::Arc;

use corten_api::Value as Tree;
use corten_cel::environment::Record;
use corten_cel::{Environment, Type};

use crate::activation::Composited;
use crate::environment::{Declared, Mode, environment, variables};
use crate::expression::{CompileError, Expression, Returns, compile};

/// The text of a field.
pub(crate) fn text<'t>(owner: &'t Tree, field: &str) -> &'t str {
    owner.get(field).and_then(Tree::as_str).unwrap_or_default()
}

pub(crate) fn items<'t>(owner: &'t Tree, field: &str) -> &'t [Tree] {
    owner.get(field).and_then(Tree::as_array).unwrap_or_default()
}

/// The environments of a policy, which grow with its variables.
pub(crate) struct Composition {
    declared: Declared,
    record: Arc<Record>,
    expressions: Vec<(Arc<str>, Expression)>,
}

impl Composition {
    pub(crate) fn new(params: bool) -> Composition {
        let declared = Declared { params, authorizer: true, patch_types: false };
        Composition { declared, record: Arc::new(variables()), expressions: Vec::new() }
    }

    /// Compiles the variables of a stored policy's specification.
    pub(crate) fn of_spec(spec: &Tree) -> Composition {
        let mut composition = Composition::new(has_params(spec));
        let environment = environment(Mode::Stored, composition.declared);
        for variable in items(spec, "variables") {
            composition.add(&environment, text(variable, "name"), text(variable, "expression"));
        }
        composition
    }

    /// Compiles a variable and declares it for the expressions that follow, even if it does not compile.
    pub(crate) fn add(&mut self, base: &Environment, name: &str, expression: &str) -> Option<CompileError> {
        let name: Arc<str> = name.into();
        let environment = base.with_record(self.record.clone());
        let compiled = compile(&environment, expression, Returns::Any);
        drop(environment);
        let (ty, program) = match compiled {
            Ok((checked, program)) => (declared_type(checked.output()), Ok(program)),
            Err(error) => (Type::Dyn, Err(error)),
        };
        let failed = program.as_ref().err().cloned();
        Arc::make_mut(&mut self.record).push(name.clone(), ty);
        self.expressions.push((name, Expression { text: expression.into(), program }));
        failed
    }

    /// An environment with the variables.
    pub(crate) fn extend(&self, base: &Environment) -> Environment {
        base.with_record(self.record.clone())
    }

    /// The environment of validations, conditions and annotations of stored policies.
    pub(crate) fn environment(&self) -> Environment {
        self.extend(&environment(Mode::Stored, self.declared))
    }

    /// The environment of messages, which have no authorizer.
    pub(crate) fn message_environment(&self) -> Environment {
        self.extend(&environment(Mode::Stored, Declared { authorizer: false, ..self.declared }))
    }

    pub(crate) fn patch_environment(&self) -> Environment {
        self.extend(&environment(Mode::Stored, Declared { patch_types: true, ..self.declared }))
    }

    pub(crate) fn into_variables(self) -> Box<Composited> {
        self.expressions.into()
    }
}

/// Returns true if the policy of a specification has parameters.
pub(crate) fn has_params(spec: &Tree) -> bool {
    spec.get("paramKind").is_some_and(|kind| !kind.is_null())
}

/// The type that a variable is declared with: lists, maps and simple types keep theirs, all others are dynamic.
pub(crate) fn declared_type(ty: &Type) -> Type {
    match ty {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint
        | Type::Any => ty.clone(),
        Type::List(item) => Type::list(declared_type(item)),
        Type::Map(pair) => Type::map(declared_type(&pair[0]), declared_type(&pair[1])),
        _ => Type::Dyn,
    }
}
