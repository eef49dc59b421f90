//! Differences of objects as text: lines of YAML with their context, without what changes with every write.

use corten_api::{Value, yaml};
use similar::{ChangeTag, TextDiff};

/// The unchanged lines around a change.
const CONTEXT: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Colours,
}

impl Style {
    fn painted(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    /// A line that begins a change.
    pub(super) fn heading(self, text: &str) -> String {
        format!("{}\n", self.painted("1", &printable(text)))
    }
}

/// The differences of two objects; empty if there are none that matter.
pub(super) fn objects(before: &Value, after: &Value, with_status: bool, style: Style) -> String {
    lines(&shown(before, with_status), &shown(after, with_status), style)
}

/// The text of an object that is compared.
pub(super) fn shown(object: &Value, with_status: bool) -> String {
    let mut object = object.clone();
    for field in ["managedFields", "resourceVersion", "generation"] {
        object.remove(&["metadata", field]);
    }
    if !with_status {
        object.remove(&["status"]);
    }
    yaml::to_string(&object)
}

fn lines(before: &str, after: &str, style: Style) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut out = String::new();
    for (index, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if index > 0 {
            out.push_str("      …\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let line = printable(change.value().trim_end_matches('\n'));
            let (sign, code) = match change.tag() {
                ChangeTag::Equal => (' ', "2"),
                ChangeTag::Delete => ('-', "31"),
                ChangeTag::Insert => ('+', "32"),
            };
            out.push_str(&format!("    {}\n", style.painted(code, &format!("{sign}{line}"))));
        }
    }
    out
}

/// A line without control characters, which an object's author could aim at the terminal.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn differences_show_what_users_changed() {
        let object = |revision: &str, replicas: i64, ready: i64| {
            value!({
                "kind": "D", "apiVersion": "v1",
                "metadata": {"name": "d", "resourceVersion": (revision), "managedFields": [{"time": (revision)}]},
                "spec": {"replicas": (replicas)}, "status": {"ready": (ready)},
            })
        };
        let changed = objects(&object("1", 1, 0), &object("2", 3, 1), false, Style::Plain);
        assert!(changed.contains("    -  replicas: 1\n    +  replicas: 3\n"), "{changed}");
        assert!(!changed.contains("resourceVersion") && !changed.contains("ready"), "{changed}");
        assert_eq!(objects(&object("1", 1, 0), &object("2", 1, 1), false, Style::Plain), "");
        assert!(objects(&object("1", 1, 0), &object("2", 1, 1), true, Style::Plain).contains("+  ready: 1"));
        let coloured = objects(&object("1", 1, 0), &object("2", 3, 1), false, Style::Colours);
        assert!(coloured.contains("\x1b[31m-  replicas: 1\x1b[0m"), "{coloured:?}");
    }

    #[test]
    fn text_of_objects_cannot_drive_the_terminal() {
        let shown = lines("a: \"\"\n", "a: \x1b[2J\u{9b}1m\n", Style::Plain);
        assert!(!shown.contains('\x1b') && !shown.contains('\u{9b}'), "{shown:?}");
    }
}
