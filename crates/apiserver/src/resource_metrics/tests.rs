//! Tests of usage from several scrapes.

use std::time::Duration;

use jiff::Timestamp;

use super::exposition;
use super::points::{Batch, Points};

fn exposition_text(seconds: i64, containers: &[(&str, &str, f64, u64, f64)]) -> String {
    let at = seconds * 1000;
    let mut text = format!(
        "# HELP x y\nnode_cpu_usage_seconds_total {} {at}\nnode_memory_working_set_bytes 2.097152e+06 {at}\n",
        seconds * 2
    );
    for (pod, container, cpu, memory, started) in containers {
        let labels = format!("{{container=\"{container}\",namespace=\"default\",pod=\"{pod}\"}}");
        text += &format!("container_cpu_usage_seconds_total{labels} {cpu} {at}\n");
        text += &format!("container_memory_working_set_bytes{labels} {memory} {at}\n");
        text += &format!("container_start_time_seconds{labels} {started}\n");
    }
    text
}

fn batch(text: &str) -> Batch {
    let mut batch = Batch::default();
    exposition::read("node", text, &mut batch);
    batch
}

#[track_caller]
fn check(points: &Points, pod: &str, expected: &[(&str, &str, &str)]) {
    let found = points.of_pod("default", pod).unwrap_or_default();
    let found: Vec<(String, String, String)> = found
        .iter()
        .map(|(name, used)| {
            let tree = used.tree();
            let text = |resource: &str| tree.str_at(&[resource]).unwrap().to_owned();
            (name.clone(), text("cpu"), text("memory"))
        })
        .collect();
    let found: Vec<(&str, &str, &str)> =
        found.iter().map(|(name, cpu, memory)| (name.as_str(), cpu.as_str(), memory.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn cpu_usage_is_the_rate_between_two_scrapes() {
    let mut points = Points::default();
    points.take(batch(&exposition_text(100, &[("p", "a", 10.0, 4096, 1.0)])), false);
    check(&points, "p", &[]);
    assert_eq!(points.of_node("node"), None);
    points.take(batch(&exposition_text(115, &[("p", "a", 13.0, 8192, 1.0)])), false);
    check(&points, "p", &[("a", "200m", "8Ki")]);
    let node = points.of_node("node").unwrap();
    assert_eq!((node.cpu, node.memory, node.window), (2_000_000_000, 2 << 20, Duration::from_secs(15)));
    assert_eq!(node.at, Timestamp::from_second(115).unwrap());
}

#[test]
fn a_pod_has_metrics_only_if_all_its_containers_have() {
    let mut points = Points::default();
    points.take(batch(&exposition_text(100, &[("p", "a", 1.0, 1, 1.0)])), false);
    points.take(batch(&exposition_text(115, &[("p", "a", 1.0, 1, 1.0), ("p", "b", 1.0, 1, 114.0)])), false);
    check(&points, "p", &[]);
    points.take(batch(&exposition_text(130, &[("p", "a", 1.0, 1, 1.0), ("p", "b", 2.5, 1, 114.0)])), false);
    check(&points, "p", &[("a", "0", "1"), ("b", "100m", "1")]);
    points.take(batch(&exposition_text(145, &[])), false);
    check(&points, "p", &[]);
}

#[test]
fn a_new_container_is_measured_from_its_start() {
    let mut points = Points::default();
    points.take(batch(&exposition_text(100, &[("p", "a", 6.0, 1, 88.0)])), false);
    check(&points, "p", &[("a", "500m", "1")]);
    points.take(batch(&exposition_text(115, &[("p", "a", 6.0, 1, 113.0)])), false);
    check(&points, "p", &[]);
}

#[test]
fn a_restarted_container_is_measured_from_its_restart() {
    let mut points = Points::default();
    points.take(batch(&exposition_text(100, &[("p", "a", 6.0, 1, 1.0)])), false);
    points.take(batch(&exposition_text(115, &[("p", "a", 0.1, 1, 112.0)])), false);
    check(&points, "p", &[]);
}

#[test]
fn an_early_scrape_keeps_the_window() {
    let mut points = Points::default();
    points.take(batch(&exposition_text(100, &[("p", "a", 0.0, 1, 1.0)])), false);
    points.take(batch(&exposition_text(115, &[("p", "a", 15.0, 1, 1.0)])), false);
    points.take(batch(&exposition_text(116, &[("p", "a", 16.0, 1, 1.0)])), true);
    check(&points, "p", &[("a", "1", "1")]);
    assert_eq!(points.of_node("node").unwrap().window, Duration::from_secs(16));
}

#[test]
fn invalid_lines_are_skipped() {
    let text = "x{y=\"z\n}\nnode_cpu_usage_seconds_total\nnode_cpu_usage_seconds_total{ 1\n\
                container_cpu_usage_seconds_total{container=\"a\",namespace=\"n\",pod=\"\"} 1 1\n\
                container_cpu_usage_seconds_total{container=\"a\\\"b\",namespace=\"n\",pod=\"p\"} 1 1000\n\
                container_memory_working_set_bytes{container=\"a\\\"b\",namespace=\"n\",pod=\"p\"} NaN 1000\n";
    let batch = batch(text);
    let pods: Vec<_> =
        batch.pods.values().flat_map(|containers| containers.keys().map(String::as_str)).collect();
    assert_eq!((pods, batch.nodes.len()), (vec!["a\"b"], 0));
}
