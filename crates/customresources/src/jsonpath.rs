//! JSONPath templates in the dialect of kubectl and of printer columns: text with expressions in braces.
//!
//! An expression selects fields (`.spec.name`, `['name']`), items (`[0]`, `[-1]`, `[1:3]`, `[*]`), several at once
//! (`[0,2]`), items by a condition (`[?(@.type=="Ready")]`), and values at any depth (`..name`). `{range}` repeats the
//! template up to `{end}` for each selected value.
//!
//! Invariants: evaluation visits at most `MAX_STEPS` values; members of objects are visited in order of their names,
//! where upstream's order is random.

mod compare;
mod evaluate;
mod parse;
mod print;
#[cfg(test)]
mod tests;

use corten_api::Value;

pub use evaluate::Found;

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

/// One step of an expression, or one part of a template.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    /// An expression.
    List(Vec<Node>),
    Field(String),
    Slice([Bound; 3]),
    Filter(Box<Filter>),
    Int(i64),
    Float(f64),
    Bool(bool),
    Wildcard,
    Recursive,
    Union(Vec<Vec<Node>>),
    Identifier(String),
}

/// The start, end or step of a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bound {
    value: i64,
    is_known: bool,
    /// True for the end that follows from a single index.
    is_derived: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Node>,
    right: Vec<Node>,
    /// `exists` without a comparison.
    operator: String,
}

/// The treatment of fields that an object does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingKeys {
    /// They select nothing.
    Allowed,
    /// They are an error.
    Refused,
}

impl JsonPath {
    /// Parses a template: `{.metadata.name}`. The error is upstream's.
    pub fn parse(template: &str) -> Result<JsonPath, String> {
        Ok(JsonPath { nodes: parse::template(template)? })
    }

    /// The values that each part of the template selects.
    pub fn find<'a>(&'a self, data: &'a Value, missing: MissingKeys) -> Result<Vec<Vec<Found<'a>>>, String> {
        evaluate::find(&self.nodes, data, missing)
    }

    /// The text that the template makes of an object.
    pub fn execute(&self, data: &Value, missing: MissingKeys) -> Result<String, String> {
        let mut out = String::new();
        for results in self.find(data, missing)? {
            print::results(&results, &mut out);
        }
        Ok(out)
    }
}

impl Found<'_> {
    /// The text of a value: compact JSON of lists and objects, and plain scalars.
    pub fn text(&self) -> String {
        print::text(self)
    }
}
