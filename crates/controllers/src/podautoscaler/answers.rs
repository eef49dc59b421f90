//! What the server was asked, and what it said.

use std::collections::BTreeMap;

use corten_api::Value;
use corten_client::Error;

#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<String, Result<Value, Error>>);

/// Why something is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lack {
    /// This path has to be read first.
    Unasked(String),
    /// It cannot be had.
    Failed(String),
}

impl Lack {
    /// The same with more said about what failed.
    pub(super) fn within(self, text: impl FnOnce(String) -> String) -> Lack {
        match self {
            Lack::Failed(why) => Lack::Failed(text(why)),
            unasked => unasked,
        }
    }
}

impl Answers {
    pub(super) fn learn(&mut self, path: &str, answer: Result<Value, Error>) {
        self.0.insert(path.to_owned(), answer);
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// What is at a path. Servers that say nothing more than a number are quoted as clients put it.
    pub(super) fn read(&self, path: &str, request: &str) -> Result<&Value, Lack> {
        match self.0.get(path) {
            None => Err(Lack::Unasked(path.to_owned())),
            Some(Ok(answer)) => Ok(answer),
            Some(Err(Error::Transport(text))) if text.starts_with("404") => {
                Err(Lack::Failed(format!("the server could not find the requested resource ({request})")))
            }
            Some(Err(Error::Transport(text))) if text.starts_with("503") => {
                Err(Lack::Failed(format!("the server is currently unable to handle the request ({request})")))
            }
            Some(Err(error)) => Err(Lack::Failed(error.to_string())),
        }
    }

    /// The same, where `None` means that there is no such thing.
    pub(super) fn find(&self, path: &str) -> Result<Option<&Value>, Lack> {
        match self.0.get(path) {
            Some(Err(error)) if error.is_not_found() => Ok(None),
            Some(Err(Error::Transport(text))) if text.starts_with("404") => Ok(None),
            _ => self.read(path, path).map(Some),
        }
    }
}

/// A query of labels, to be put after a path; nothing if it selects by nothing.
pub(super) fn query(name: &str, selector: &str, separator: char) -> String {
    if selector.is_empty() {
        return String::new();
    }
    let mut text = format!("{separator}{name}=");
    for byte in selector.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
