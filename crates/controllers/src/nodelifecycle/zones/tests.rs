//! Tests of zone states and of the rate of NoExecute tainting.

use super::*;
use crate::testing::at;

fn counts(zones: &[(&str, usize, usize)]) -> HashMap<Str, ReadyCounts> {
    zones
        .iter()
        .map(|(zone, ready, not_ready)| {
            (Str::new(zone), ReadyCounts { ready: *ready, not_ready: *not_ready })
        })
        .collect()
}

fn zones_with(nodes: &[(&str, &str)]) -> Zones {
    let mut zones = Zones::new(EvictionRates::default());
    for (zone, node) in nodes {
        zones.add(&Str::new(zone), &Str::new(node), false, at(0));
    }
    zones
}

/// The nodes tainted until a time, with the second of each.
fn tainted(zones: &mut Zones, until: i64) -> Vec<(i64, String)> {
    let mut tainted = Vec::new();
    for second in 0..=until {
        while let Some((_, node)) = zones.take_due(at(second)) {
            tainted.push((second, node.to_string()));
        }
    }
    tainted
}

#[test]
fn the_state_of_a_zone() {
    let rates = EvictionRates::default();
    for (ready, not_ready, expected) in [
        (0, 1, ZoneState::FullDisruption),
        (0, 9, ZoneState::FullDisruption),
        (1, 0, ZoneState::Normal),
        (1, 2, ZoneState::Normal),
        (1, 3, ZoneState::PartialDisruption),
        (4, 4, ZoneState::Normal),
        (45, 55, ZoneState::PartialDisruption),
        (46, 54, ZoneState::Normal),
    ] {
        assert_eq!(
            state(ReadyCounts { ready, not_ready }, &rates),
            expected,
            "{ready} ready, {not_ready} not ready"
        );
    }
}

#[test]
fn one_node_is_tainted_every_ten_seconds() {
    let mut zones = zones_with(&[("z", "a"), ("z", "b"), ("z", "c")]);
    assert_eq!(zones.update_states(&counts(&[("z", 10, 3)]), at(0)), Disruption::Unchanged);
    assert_eq!(zones.next_due(), Some(at(0)));
    let expected = [(0, "a"), (10, "b"), (20, "c")].map(|(at, node)| (at, node.to_owned()));
    assert_eq!(tainted(&mut zones, 60), expected);
    assert_eq!(zones.next_due(), None, "the queue is empty");
}

#[test]
fn every_zone_has_its_own_queue() {
    let mut zones = zones_with(&[("east", "a"), ("west", "b")]);
    zones.update_states(&counts(&[("east", 5, 1), ("west", 5, 1)]), at(0));
    assert_eq!(tainted(&mut zones, 0).len(), 2);
}

#[test]
fn a_node_is_tainted_once_until_it_is_removed() {
    let (zone, node) = (Str::new("z"), Str::new("a"));
    let mut zones = zones_with(&[("z", "a"), ("z", "a")]);
    assert_eq!(tainted(&mut zones, 30).len(), 1);
    zones.add(&zone, &node, true, at(30));
    assert_eq!(tainted(&mut zones, 60).len(), 0, "it still has the taint");
    zones.add(&zone, &node, false, at(60));
    assert_eq!(zones.take_due(at(60)), Some((zone.clone(), node.clone())), "a user removed the taint");
    zones.requeue(&zone, node.clone());
    assert_eq!(zones.take_due(at(70)), Some((zone.clone(), node.clone())), "the write failed");
    zones.add(&zone, &node, false, at(80));
    zones.remove("a");
    assert_eq!(zones.take_due(at(90)), None, "it is back");
    zones.requeue(&zone, node);
    assert_eq!(zones.take_due(at(90)), None, "it is back");
}

#[test]
fn partial_disruption_slows_tainting_in_large_zones_and_suspends_it_in_small_ones() {
    for (ready, not_ready, next) in [(20, 40, Some(at(100))), (2, 8, None)] {
        let mut zones = zones_with(&[("z", "a"), ("z", "b")]);
        zones.take_due(at(0));
        zones.update_states(&counts(&[("z", ready, not_ready)]), at(0));
        assert_eq!(zones.next_due(), next, "{ready} ready, {not_ready} not ready");
        zones.update_states(&counts(&[("z", 60, 1)]), at(5));
        assert_eq!(zones.next_due(), Some(at(15)), "a waiting limiter waits for a full interval");
    }
}

#[test]
fn a_single_fully_disrupted_zone_is_tainted_at_the_normal_rate() {
    let mut zones = zones_with(&[("east", "a"), ("east", "b")]);
    let east_down = counts(&[("east", 0, 4), ("west", 4, 0)]);
    assert_eq!(zones.update_states(&east_down, at(0)), Disruption::Unchanged);
    assert_eq!(tainted(&mut zones, 10).len(), 2);
}

#[test]
fn no_node_is_tainted_when_all_zones_are_fully_disrupted() {
    let mut zones = zones_with(&[("east", "a"), ("west", "b")]);
    let all_down = counts(&[("east", 0, 4), ("west", 0, 4)]);
    assert_eq!(zones.update_states(&all_down, at(0)), Disruption::AllZones);
    assert_eq!(zones.update_states(&all_down, at(5)), Disruption::Unchanged, "reported once");
    assert_eq!(tainted(&mut zones, 1000), []);
    assert_eq!(
        zones.update_states(&counts(&[("east", 1, 3), ("west", 0, 4)]), at(1000)),
        Disruption::Recovered
    );
    assert_eq!(zones.next_due(), Some(at(1010)));
}

#[test]
fn zones_without_counted_nodes_are_ignored() {
    let mut zones = zones_with(&[("excluded", "a")]);
    assert_eq!(zones.update_states(&counts(&[]), at(0)), Disruption::Unchanged);
    assert_eq!(zones.update_states(&counts(&[("z", 0, 1)]), at(0)), Disruption::AllZones);
    assert_eq!(zones.update_states(&counts(&[]), at(5)), Disruption::Unchanged, "the last node was deleted");
    assert_eq!(
        zones.update_states(&counts(&[("z", 1, 0)]), at(9)),
        Disruption::Unchanged,
        "a zone that appears again starts in the initial state"
    );
}
