//! The Common Expression Language as the API server uses it: parser, type checker, evaluator, and costs before and
//! during evaluation.
//!
//! Never in here: sockets, files, clocks, kinds of objects. An expression is accepted, rejected and priced exactly as
//! upstream does; texts of errors are upstream's, because clients see them.

pub mod ast;
pub mod check;
pub mod cost;
pub mod declare;
pub mod environment;
pub mod error;
mod eval;
pub mod library;
pub mod parser;
mod plan;
pub mod program;
pub mod schema;
pub mod source;
pub mod types;
mod validate;
pub mod value;
mod work;

pub use environment::{CompileError, Environment, Version};
pub use error::{Error, Result};
pub use program::{Outcome, Program, Variables};
pub use source::Issues;
pub use types::Type;
pub use value::Value;
