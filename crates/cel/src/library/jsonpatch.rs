//! `jsonpatch.escapeKey`, for paths of JSON patches.

use super::arguments::{check_text, declare, text};
use crate::declare::{Declaration, Library};
use crate::error::Result;
use crate::value::Value;

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] =
    &[declare("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) string", escape_key)];

fn escape_key<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = text(arguments, 0)?;
    check_text(text.len().saturating_mul(2))?;
    Ok(text.replace('~', "~0").replace('/', "~1").into())
}
