//! CNI network configurations: files of a folder, `.conflist` with a list of plugins, `.conf` and `.json` with one.
//!
//! The first valid file by name is used; invalid ones are skipped, as upstream's runtimes do.

use std::path::Path;
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Error, Result};

/// The supported versions of the specification, oldest first.
const SUPPORTED: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// A version of the specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version(String);

impl Version {
    pub fn is_at_least(&self, other: &str) -> bool {
        numbers(&self.0) >= numbers(other)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// A network: plugins that are run one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    pub name: String,
    pub version: Version,
    pub disable_check: bool,
    pub disable_gc: bool,
    /// As the file has them; each has a type.
    pub plugins: Vec<Map<String, Value>>,
}

/// The first valid configuration of a folder.
pub fn first(folder: &Path) -> Result<List> {
    let mut trouble = None;
    for path in candidates(folder)? {
        let read = fs::read(&path).map_err(|error| error.to_string());
        let is_list = path.extension().is_some_and(|extension| extension == "conflist");
        match read.and_then(|text| if is_list { list(&text) } else { single(&text) }) {
            Ok(list) => return Ok(list),
            Err(reason) => trouble = trouble.or(Some(Error::Configuration { path, reason })),
        }
    }
    Err(trouble.unwrap_or_else(|| Error::NoConfiguration(folder.to_owned())))
}

/// True if there is any configuration, valid or not.
pub fn exists(folder: &Path) -> bool {
    candidates(folder).is_ok_and(|candidates| !candidates.is_empty())
}

fn candidates(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let failed = |source| Error::System { operation: format!("cannot read {}", folder.display()), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_file() && matches!(extension, Some("conf" | "conflist" | "json")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Parses a `.conflist`.
pub fn list(text: &[u8]) -> std::result::Result<List, String> {
    let whole = object(text)?;
    let plugins = match whole.get("plugins") {
        Some(Value::Array(plugins)) if !plugins.is_empty() => plugins.clone(),
        _ => return Err("it has no plugins".to_owned()),
    };
    let plugins = plugins.into_iter().map(plugin).collect::<std::result::Result<_, _>>()?;
    Ok(List {
        name: name(&whole)?,
        version: version(&whole)?,
        disable_check: flag(&whole, "disableCheck")?,
        disable_gc: flag(&whole, "disableGC")?,
        plugins,
    })
}

/// Parses a `.conf`: a list of one plugin.
pub fn single(text: &[u8]) -> std::result::Result<List, String> {
    let whole = object(text)?;
    let (name, version) = (name(&whole)?, version(&whole)?);
    let plugins = vec![plugin(Value::Object(whole))?];
    Ok(List { name, version, disable_check: false, disable_gc: false, plugins })
}

fn object(text: &[u8]) -> std::result::Result<Map<String, Value>, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

fn plugin(value: Value) -> std::result::Result<Map<String, Value>, String> {
    match value {
        Value::Object(plugin) if plugin.get("type").and_then(Value::as_str).is_some_and(plain) => Ok(plugin),
        _ => Err("a plugin has no type that could name a program".to_owned()),
    }
}

/// True if a word is a plain file name, without a path.
fn plain(word: &str) -> bool {
    !word.is_empty() && word != "." && word != ".." && !word.contains(['/', '\0'])
}

fn name(whole: &Map<String, Value>) -> std::result::Result<String, String> {
    let name = whole.get("name").and_then(Value::as_str).unwrap_or_default();
    let good = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let begins_well = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if begins_well && name.chars().all(good) {
        return Ok(name.to_owned());
    }
    Err(format!("{name:?} cannot name a network"))
}

/// The highest version that the configuration offers and this runtime supports.
fn version(whole: &Map<String, Value>) -> std::result::Result<Version, String> {
    let one = whole.get("cniVersion").and_then(Value::as_str).filter(|version| !version.is_empty());
    let many = whole.get("cniVersions").and_then(Value::as_array).into_iter().flatten();
    let offered: Vec<&str> = one.into_iter().chain(many.filter_map(Value::as_str)).collect();
    // A configuration without a version is older than versions.
    let offered = if offered.is_empty() { vec![SUPPORTED[0]] } else { offered };
    let spoken = SUPPORTED.iter().rev().find(|spoken| offered.contains(spoken));
    let spoken = spoken.ok_or_else(|| format!("no version of {} is known", offered.join(", ")))?;
    Ok(Version((*spoken).to_owned()))
}

/// Parses a boolean, which some configurations write as a string.
fn flag(whole: &Map<String, Value>, field: &str) -> std::result::Result<bool, String> {
    match whole.get(field) {
        None => Ok(false),
        Some(Value::Bool(set)) => Ok(*set),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("false") => Ok(false),
        Some(other) => Err(format!("{field} is neither true nor false but {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        fs::write(folder.join(name), text).unwrap();
    }

    #[test]
    fn the_first_valid_file_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(matches!(first(path), Err(Error::NoConfiguration(_))));
        assert!(matches!(first(&path.join("missing")), Err(Error::NoConfiguration(_))));
        write(path, "00-note.txt", "{}");
        assert!(!exists(path));
        write(path, "05-broken.conflist", r#"{"name": "a", "cniVersion": "1.0.0", "plugins": []}"#);
        assert!(matches!(first(path), Err(Error::Configuration { .. })));
        assert!(exists(path), "what is broken is to be mended, not passed over by another network");
        write(path, "20-last.conf", r#"{"name": "last", "cniVersion": "0.4.0", "type": "bridge"}"#);
        assert_eq!(first(path).unwrap().name, "last");
        write(path, "10-better.conflist", r#"{"name": "better", "plugins": [{"type": "ptp"}]}"#);
        assert_eq!(first(path).unwrap().name, "better");
    }

    #[test]
    fn the_highest_supported_version_is_used() {
        for (versions, spoken) in [
            (r#""cniVersion": "0.3.1""#, Some("0.3.1")),
            (r#""cniVersion": "1.0.0", "cniVersions": ["0.4.0", "1.1.0", "2.0.0"]"#, Some("1.1.0")),
            (r#""other": 1"#, Some("0.1.0")),
            (r#""cniVersion": "7.0.0""#, None),
        ] {
            let text = format!(r#"{{"name": "n", {versions}, "plugins": [{{"type": "t"}}]}}"#);
            let read = list(text.as_bytes()).ok().map(|list| list.version.to_string());
            assert_eq!(read.as_deref(), spoken, "{versions}");
        }
        assert!(Version("1.1.0".into()).is_at_least("0.4.0"));
        assert!(!Version("0.3.1".into()).is_at_least("0.4.0"));
    }

    #[test]
    fn invalid_configurations_are_refused() {
        for bad in [
            "[]",
            r#"{"plugins": [{"type": "t"}]}"#,
            r#"{"name": "../n", "plugins": [{"type": "t"}]}"#,
            r#"{"name": "n", "plugins": [{"type": "../t"}]}"#,
            r#"{"name": "n", "plugins": [{}]}"#,
            r#"{"name": "n", "plugins": [{"type": "t"}], "disableCheck": 1}"#,
        ] {
            assert!(list(bad.as_bytes()).is_err(), "{bad}");
        }
        let good = r#"{"name": "n", "plugins": [{"type": "t"}], "disableCheck": "true", "disableGC": true}"#;
        let good = list(good.as_bytes()).unwrap();
        assert!(good.disable_check && good.disable_gc);
    }
}
