//! JSON text to `Value` and back, with Go's notion of what is an error and what it is called.

mod parse;
mod scan;
mod write;

pub use parse::{Duplicate, ParseError, member_paths, parse, parse_reporting};
pub(crate) use write::is_escaped;
pub use write::{write, write_pretty, write_string, write_to_string};
