//! Paths to fields of a custom resource: `.spec.replicas`, and in rules also `.metadata.labels['a']`.

use corten_api::Value;
use corten_customresources::rules::path_tokens;

use super::schema::{named, part, property};
use crate::validation::text::member;

/// A field that was found.
#[derive(Debug, PartialEq)]
pub(super) struct Found<'v, 't> {
    /// The names on the way; none for the resource itself.
    pub(super) names: Vec<&'t str>,
    pub(super) schema: &'v Value,
}

/// Follows a path through a schema, or returns the reason for which that is not possible. Only rules may name fields in
/// brackets.
pub(super) fn find<'v, 't>(
    path: &'t str,
    schema: &'v Value,
    brackets: bool,
) -> Result<Found<'v, 't>, String> {
    const END: &str = "unexpected end of JSON path";
    let mut found = Found { names: Vec::new(), schema };
    let mut tokens = path_tokens(path);
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or(END)?,
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let name = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                name.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        found.schema = field(found.schema, name).ok_or("does not refer to a valid field")?;
        found.names.push(name);
        if token == "[" {
            match tokens.next().ok_or(END)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok(found)
}

/// The schema of a field: that of its name, or of any field where none are named.
fn field<'v>(schema: &'v Value, name: &str) -> Option<&'v Value> {
    if named(schema, "properties").next().is_some() {
        return property(schema, name);
    }
    member(schema, "additionalProperties")?;
    Some(part(schema, "additionalProperties").unwrap_or(&Value::Null))
}
