//! Parser of a kubelet's `/metrics/resource`, line by line. Invalid lines are skipped.

use jiff::Timestamp;

use super::points::{Batch, Point};

/// A line: `name{label="value",…} number milliseconds`.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
    at: Option<Timestamp>,
}

impl Sample<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_str())
    }
}

/// Adds the samples of a node's kubelet to a batch. Containers with incomplete samples are left out.
pub(super) fn read(node: &str, text: &str, batch: &mut Batch) {
    let mut own = Found::default();
    let mut pods: std::collections::BTreeMap<(String, String, String), Found> = Default::default();
    for sample in text.lines().filter_map(sample) {
        let found = match sample.name {
            "node_cpu_usage_seconds_total" | "node_memory_working_set_bytes" => &mut own,
            name if name.starts_with("container_") => {
                let label =
                    |name: &str| sample.label(name).filter(|text| !text.is_empty()).map(str::to_owned);
                let (Some(namespace), Some(pod), Some(container)) =
                    (label("namespace"), label("pod"), label("container"))
                else {
                    continue;
                };
                pods.entry((namespace, pod, container)).or_default()
            }
            _ => continue,
        };
        found.take(&sample);
    }
    batch.nodes.extend(own.point().map(|point| (node.to_owned(), point)));
    let mut partial = std::collections::BTreeSet::new();
    for ((namespace, pod, container), found) in pods {
        let name = (namespace, pod);
        match found.point() {
            Some(point) => drop(batch.pods.entry(name).or_default().insert(container, point)),
            None => drop(partial.insert(name)),
        }
    }
    batch.pods.retain(|name, _| !partial.contains(name));
}

#[derive(Default)]
struct Found {
    at: Option<Timestamp>,
    started: Option<Timestamp>,
    cpu: Option<f64>,
    memory: Option<f64>,
}

impl Found {
    fn take(&mut self, sample: &Sample<'_>) {
        match sample.name {
            "node_cpu_usage_seconds_total" | "container_cpu_usage_seconds_total" => {
                self.cpu = Some(sample.value);
                self.at = sample.at;
            }
            "node_memory_working_set_bytes" | "container_memory_working_set_bytes" => {
                self.memory = Some(sample.value);
            }
            "container_start_time_seconds" => {
                self.started = Timestamp::from_millisecond((sample.value * 1000.0) as i64).ok();
            }
            _ => {}
        }
    }

    fn point(&self) -> Option<Point> {
        let memory = self.memory? as u64;
        Some(Point { at: self.at?, started: self.started, cpu: self.cpu?, memory })
    }
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (name, labels, rest) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, rest) = labels(rest)?;
            (name, labels, rest)
        }
        None => {
            let (name, rest) = line.split_once(' ')?;
            (name, Vec::new(), rest)
        }
    };
    let mut words = rest.split_whitespace();
    let value = words.next()?.parse().ok()?;
    let at = words.next().and_then(|text| Timestamp::from_millisecond(text.parse().ok()?).ok());
    Some(Sample { name: name.trim(), labels, value, at })
}

/// Parses `a="b",c="d"}`; returns the labels and the rest.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((found, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        loop {
            match characters.next()? {
                (end, '"') => {
                    rest = &quoted[end + 1..];
                    break;
                }
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, character) => value.push(character),
            }
        }
        found.push((name, value));
    }
}
