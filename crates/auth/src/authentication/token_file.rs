//! The static token file: lines of `token,user,uid,"group1,group2"`.

use std::collections::HashMap;
use std::sync::Arc;

use super::digest;
use crate::{AUTHENTICATED, User};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    #[error("record on line {line}: quote inside an unquoted field")]
    BareQuote { line: usize },
    #[error("record on line {line}: quoted field is not terminated, or text follows its closing quote")]
    Quote { line: usize },
    #[error("token file must have at least 3 columns (token, user name, user uid), found {found}")]
    Columns { found: usize },
}

/// The users of a token file. Tokens are kept as digests, so that the time of a lookup discloses nothing about others.
#[derive(Debug, Clone, Default)]
pub struct TokenFile(HashMap<[u8; 32], Arc<User>>);

impl TokenFile {
    /// Parses a file. Of equal tokens the last counts; a record without a token is skipped.
    pub fn parse(text: &str) -> Result<TokenFile, TokenFileError> {
        let mut users = HashMap::new();
        for record in records(text)? {
            let [token, name, uid, rest @ ..] = record.as_slice() else {
                return Err(TokenFileError::Columns { found: record.len() });
            };
            if token.is_empty() {
                continue;
            }
            let mut groups: Vec<String> =
                rest.first().map(|groups| groups.split(',').map(str::to_owned).collect()).unwrap_or_default();
            groups.push(AUTHENTICATED.to_owned());
            let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
            users.insert(digest(token.as_bytes()), Arc::new(user));
        }
        Ok(TokenFile(users))
    }

    pub fn user(&self, token: &str) -> Option<Arc<User>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&digest(token.as_bytes())).cloned()
    }
}

/// Comma-separated values as Go parses them: empty lines are skipped, quoted fields may span lines.
fn records(text: &str) -> Result<Vec<Vec<String>>, TokenFileError> {
    let text = text.replace("\r\n", "\n");
    let mut records = Vec::new();
    let mut rest = text.as_str();
    let mut line = 1;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('\n') {
            (rest, line) = (after, line + 1);
            continue;
        }
        let mut record = Vec::new();
        let start = rest.len();
        loop {
            let (field, after) = field(rest, line)?;
            record.push(field);
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None => {
                    rest = after;
                    break;
                }
            }
        }
        let consumed = &text[text.len() - start..text.len() - rest.len()];
        line += consumed.matches('\n').count();
        records.push(record);
    }
    Ok(records)
}

/// One field and the rest, which begins with a comma or a line's end, or is empty.
fn field(text: &str, line: usize) -> Result<(String, &str), TokenFileError> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let (field, after) = text.split_at(text.find([',', '\n']).unwrap_or(text.len()));
        return match field.contains('"') {
            true => Err(TokenFileError::BareQuote { line }),
            false => Ok((field.to_owned(), after)),
        };
    };
    let mut field = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or(TokenFileError::Quote { line })?;
        field.push_str(part);
        match after.chars().next() {
            Some('"') => {
                field.push('"');
                rest = &after[1..];
            }
            None | Some(',' | '\n') => return Ok((field, after)),
            Some(_) => return Err(TokenFileError::Quote { line }),
        }
    }
}

#[cfg(test)]
mod tests;
