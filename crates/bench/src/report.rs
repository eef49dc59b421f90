//! The results of a benchmark: numbers under stable keys, as a table for people and as JSON for programs.
//!
//! A key is `<phase>.<measure>` (`create.per_s`) and is also the path in the JSON. The end of a measure's name
//! is its unit: `_ms`, `_s`, `_mb`, `_kb`, `_us`, `_percent`, `per_s`; without one it is a plain count.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

/// The width of a phase's name in the table, and of a whole line.
const INDENT: usize = 14;
const WIDTH: usize = 110;

/// The numbers of one run.
#[derive(Debug, Default)]
pub struct Report {
    phases: Vec<Phase>,
}

#[derive(Debug)]
pub(crate) struct Phase {
    name: String,
    measures: Vec<(&'static str, f64)>,
    first_error: Option<String>,
}

impl Phase {
    pub(crate) fn set(&mut self, measure: &'static str, value: f64) -> &mut Phase {
        match self.measures.iter_mut().find(|(name, _)| *name == measure) {
            Some((_, old)) => *old = value,
            None => self.measures.push((measure, value)),
        }
        self
    }

    pub(crate) fn set_first_error(&mut self, error: Option<String>) {
        self.first_error = self.first_error.take().or(error);
    }
}

impl Report {
    /// The phase of this name, added at the end if it is new.
    pub(crate) fn phase(&mut self, name: &str) -> &mut Phase {
        let at = self.phases.iter().position(|phase| phase.name == name).unwrap_or_else(|| {
            self.phases.push(Phase { name: name.to_owned(), measures: Vec::new(), first_error: None });
            self.phases.len() - 1
        });
        &mut self.phases[at]
    }

    /// Adds the phases of another server, with its name before theirs.
    pub(crate) fn append(&mut self, server: &str, other: Report) {
        let renamed = other.phases.into_iter();
        self.phases.extend(renamed.map(|phase| Phase { name: format!("{server}_{}", phase.name), ..phase }));
    }

    /// One number, by its key: `create.per_s`.
    pub fn value(&self, key: &str) -> Option<f64> {
        let (phase, measure) = key.split_once('.')?;
        let phase = self.phases.iter().find(|candidate| candidate.name == phase)?;
        phase.measures.iter().find(|(name, _)| *name == measure).map(|(_, value)| *value)
    }

    /// True if any request failed. The numbers of such a run are not reliable.
    pub fn has_errors(&self) -> bool {
        self.phases.iter().any(|phase| phase.first_error.is_some())
    }

    /// A line or two per phase.
    pub fn table(&self) -> String {
        let mut out = String::new();
        for phase in &self.phases {
            let mut line = format!("{:<INDENT$}", phase.name);
            for (measure, value) in &phase.measures {
                let text = shown(measure, *value);
                if line.len() + 2 + text.len() > WIDTH {
                    let _ = writeln!(out, "{line}");
                    line = " ".repeat(INDENT);
                }
                let _ = write!(line, "  {text}");
            }
            let _ = writeln!(out, "{line}");
            if let Some(error) = &phase.first_error {
                let _ = writeln!(out, "{:<INDENT$}  first error: {error}", "");
            }
        }
        out
    }

    /// `{"create": {"per_s": ..., ...}, ...}`; a phase with failed requests also has `first_error`.
    pub fn json(&self) -> String {
        let mut all = Map::new();
        for phase in &self.phases {
            let mut measures = Map::new();
            for (name, value) in &phase.measures {
                measures.insert((*name).to_owned(), number(*value));
            }
            if let Some(error) = &phase.first_error {
                measures.insert("first_error".to_owned(), Value::String(error.clone()));
            }
            all.insert(phase.name.clone(), Value::Object(measures));
        }
        format!("{:#}", Value::Object(all))
    }
}

fn number(value: f64) -> Value {
    let rounded = (value * 1e4).round() / 1e4;
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        return Value::from(rounded as i64);
    }
    Number::from_f64(rounded).map_or(Value::Null, Value::Number)
}

/// `p99_ms`, 3.45678 → `p99 3.46 ms`.
fn shown(measure: &str, value: f64) -> String {
    let units = [
        ("mb_per_s", "MB/s"),
        ("per_s", "/s"),
        ("_ms", "ms"),
        ("_us", "µs"),
        ("_mb", "MB"),
        ("_kb", "kB"),
        ("_percent", "%"),
        ("_s", "s"),
    ];
    let found = units.iter().find_map(|(end, unit)| Some((measure.strip_suffix(end)?, *unit)));
    let (label, unit) = found.unwrap_or((measure, ""));
    let label = label.trim_end_matches('_').replace('_', " ");
    [label, rounded(value), unit.to_owned()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Three or more significant digits, thousands separated.
fn rounded(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1000.0 {
        return format!("{value:.0}");
    }
    match value.abs() {
        1000.0.. => {
            let digits = format!("{value:.0}");
            let mut out = String::with_capacity(digits.len() + 4);
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 && !out.ends_with('-') {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_is_shown_with_its_unit() {
        let cases = [
            ("per_s", 12_345.6, "12,346 /s"),
            ("mb_per_s", 812.3, "812 MB/s"),
            ("events_per_s", 1_234_567.0, "events 1,234,567 /s"),
            ("p99_ms", 3.456_78, "p99 3.46 ms"),
            ("server_cpu_s", 0.25, "server cpu 0.250 s"),
            ("errors", 0.0, "errors 0"),
            ("count", 5000.0, "count 5,000"),
            ("cpu_percent", 42.42, "cpu 42.4 %"),
        ];
        for (measure, value, expected) in cases {
            assert_eq!(shown(measure, value), expected);
        }
    }

    #[test]
    fn keys_are_paths_in_the_json() {
        let mut report = Report::default();
        report.phase("create").set("per_s", 10.5).set("count", 5000.0);
        assert!(!report.has_errors());
        report.phase("create").set_first_error(Some("503: busy".to_owned()));
        report.phase("create").set("count", 4999.0);
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["create"]["per_s"], 10.5);
        assert_eq!(json["create"]["count"], 4999);
        assert_eq!(json["create"]["first_error"], "503: busy");
        assert_eq!(report.value("create.count"), Some(4999.0));
        assert_eq!(report.value("create.nothing"), None);
        assert!(report.has_errors());
        assert!(report.table().starts_with("create          10.5 /s  count 4,999\n"), "{}", report.table());
    }
}
