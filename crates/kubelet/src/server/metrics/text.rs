//! The text that a Prometheus reads.

use std::fmt::Write;

use jiff::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Begins a family of samples.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64, at: Option<Timestamp>) {
        self.0.push_str(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            self.0.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = write!(self.0, " {value}");
        if let Some(at) = at {
            let _ = write!(self.0, " {}", at.as_millisecond());
        }
        self.0.push('\n');
    }

    /// A family of one sample without labels.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value, None);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_lines() {
        let mut text = Exposition::default();
        text.one("up", Kind::Gauge, "Whether.", 1.0);
        text.family("a_total", Kind::Counter, "All.");
        let at = Timestamp::from_millisecond(1500).unwrap();
        text.sample("a_total", &[("x", "1\"\\\n"), ("y", "")], 0.25, Some(at));
        let expected = "# HELP up Whether.\n# TYPE up gauge\nup 1\n# HELP a_total All.\n# TYPE a_total counter\n\
                        a_total{x=\"1\\\"\\\\\\n\",y=\"\"} 0.25 1500\n";
        assert_eq!(text.finish(), expected);
    }
}
