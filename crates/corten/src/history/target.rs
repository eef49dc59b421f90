//! The object that a command is about: its kind by any name that discovery has for it.

use anyhow::{Context, bail, ensure};
use corten_client::{Client, Discovery, Kind};

#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Target {
    pub(super) async fn find(client: &Client, object: &str, namespace: &str) -> anyhow::Result<Target> {
        let (kind, name) = split(object)?;
        let discovery = client.discover().await.context("cannot discover the kinds of the server")?;
        Ok(Target { kind: find(&discovery, kind)?, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The path of the object.
    pub(super) fn path(&self) -> String {
        self.kind.path(&self.namespace, &self.name, "")
    }
}

fn split(object: &str) -> anyhow::Result<(&str, &str)> {
    let (kind, name) = object.split_once('/').with_context(|| format!("{object:?}: give KIND/NAME"))?;
    ensure!(!kind.is_empty() && !name.is_empty() && !name.contains('/'), "{object:?}: give KIND/NAME");
    Ok((kind, name))
}

/// The kind with a name: plural, singular, short or the kind itself, with a group after a dot if wanted. The core group and
/// preferred versions come first.
fn find(discovery: &Discovery, name: &str) -> anyhow::Result<Kind> {
    let name = name.to_ascii_lowercase();
    let (bare, group) =
        name.split_once('.').map_or((name.as_str(), None), |(bare, group)| (bare, Some(group)));
    let found = discovery.preferred().find(|served| {
        let kind = &served.kind;
        let is_named = kind.plural == bare
            || kind.kind.eq_ignore_ascii_case(bare)
            || served.aliases.iter().any(|alias| alias == bare);
        is_named && group.is_none_or(|group| kind.group == group)
    });
    match found {
        Some(served) if served.has_verbs(&["get"]) => Ok(served.kind.clone()),
        Some(_) => bail!("{name} cannot be read, so it has no history"),
        None => bail!("the server has no kind {name}"),
    }
}

/// A value of a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_kind_and_name() {
        assert_eq!(split("pod/web").unwrap(), ("pod", "web"));
        for bad in ["pod", "pod/", "/web", "pod/a/b"] {
            assert!(split(bad).is_err(), "{bad}");
        }
        assert_eq!(encoded("2026-11-19T21:30:00+01"), "2026-11-19T21%3A30%3A00%2B01");
    }
}
