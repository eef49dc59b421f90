//! The responses of the API server to an autoscaler's requests.

use std::collections::BTreeMap;

use corten_api::Value;
use corten_client::Error;

#[derive(Debug, Default)]
pub(super) struct Responses(BTreeMap<String, Result<Value, Error>>);

/// The reason why a response is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    /// This path has to be read first.
    Unasked(String),
    /// The request failed.
    Failed(String),
}

impl Missing {
    /// The same with a longer message.
    pub(super) fn within(self, text: impl FnOnce(String) -> String) -> Missing {
        match self {
            Missing::Failed(why) => Missing::Failed(text(why)),
            unasked => unasked,
        }
    }
}

impl Responses {
    pub(super) fn learn(&mut self, path: &str, answer: Result<Value, Error>) {
        self.0.insert(path.to_owned(), answer);
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// The response at a path. An error without a message is quoted as upstream's client does.
    pub(super) fn read(&self, path: &str, request: &str) -> Result<&Value, Missing> {
        match self.0.get(path) {
            None => Err(Missing::Unasked(path.to_owned())),
            Some(Ok(answer)) => Ok(answer),
            Some(Err(Error::Transport(text))) if text.starts_with("404") => {
                Err(Missing::Failed(format!("the server could not find the requested resource ({request})")))
            }
            Some(Err(Error::Transport(text))) if text.starts_with("503") => Err(Missing::Failed(format!(
                "the server is currently unable to handle the request ({request})"
            ))),
            Some(Err(error)) => Err(Missing::Failed(error.to_string())),
        }
    }

    /// The same; `None` if the object does not exist.
    pub(super) fn find(&self, path: &str) -> Result<Option<&Value>, Missing> {
        match self.0.get(path) {
            Some(Err(error)) if error.is_not_found() => Ok(None),
            Some(Err(Error::Transport(text))) if text.starts_with("404") => Ok(None),
            _ => self.read(path, path).map(Some),
        }
    }
}

/// A query parameter with a label selector, to be appended to a path; empty for an empty selector.
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
