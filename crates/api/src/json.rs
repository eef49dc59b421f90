//! JSON text to `Value` and back, with Go's errors and their wording.

mod order;
mod parse;
mod scan;
mod write;

pub use order::places;
pub use parse::{Duplicate, ParseError, parse, parse_envelope, parse_literally, parse_reporting};
pub(crate) use parse::{MAX_DEPTH, MAX_FINDINGS_BYTES};
pub(crate) use write::is_escaped;
pub use write::{write, write_pretty, write_string, write_to_string};
