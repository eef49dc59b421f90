//! Which states zones come to, and how fast their nodes are given up.

use super::*;
use crate::testing::at;

fn tallies(zones: &[(&str, usize, usize)]) -> HashMap<Str, Tally> {
    zones.iter().map(|(zone, up, down)| (Str::new(zone), Tally { up: *up, down: *down })).collect()
}

fn zones_with(nodes: &[(&str, &str)]) -> Zones {
    let mut zones = Zones::new(Rates::default());
    for (zone, node) in nodes {
        zones.mark(&Str::new(zone), &Str::new(node), false, at(0));
    }
    zones
}

/// The nodes given up until a time, with the second they were.
fn given_up(zones: &mut Zones, until: i64) -> Vec<(i64, String)> {
    let mut given_up = Vec::new();
    for second in 0..=until {
        while let Some((_, node)) = zones.take_due(at(second)) {
            given_up.push((second, node.to_string()));
        }
    }
    given_up
}

#[test]
fn the_state_of_a_zone() {
    let rates = Rates::default();
    for (up, down, expected) in [
        (0, 1, State::Full),
        (0, 9, State::Full),
        (1, 0, State::Normal),
        (1, 2, State::Normal),
        (1, 3, State::Partial),
        (4, 4, State::Normal),
        (45, 55, State::Partial),
        (46, 54, State::Normal),
    ] {
        assert_eq!(state(Tally { up, down }, &rates), expected, "{up} up, {down} down");
    }
}

#[test]
fn nodes_are_given_up_one_every_ten_seconds() {
    let mut zones = zones_with(&[("z", "a"), ("z", "b"), ("z", "c")]);
    assert_eq!(zones.weigh(&tallies(&[("z", 10, 3)]), at(0)), Shift::None);
    assert_eq!(zones.next_due(), Some(at(0)));
    let expected = [(0, "a"), (10, "b"), (20, "c")].map(|(at, node)| (at, node.to_owned()));
    assert_eq!(given_up(&mut zones, 60), expected);
    assert_eq!(zones.next_due(), None, "nobody is left");
}

#[test]
fn every_zone_has_its_own_line() {
    let mut zones = zones_with(&[("east", "a"), ("west", "b")]);
    zones.weigh(&tallies(&[("east", 5, 1), ("west", 5, 1)]), at(0));
    assert_eq!(given_up(&mut zones, 0).len(), 2);
}

#[test]
fn a_node_is_given_up_once_until_it_is_let_off() {
    let (zone, node) = (Str::new("z"), Str::new("a"));
    let mut zones = zones_with(&[("z", "a"), ("z", "a")]);
    assert_eq!(given_up(&mut zones, 30).len(), 1);
    zones.mark(&zone, &node, true, at(30));
    assert_eq!(given_up(&mut zones, 60).len(), 0, "it still is");
    zones.mark(&zone, &node, false, at(60));
    assert_eq!(zones.take_due(at(60)), Some((zone.clone(), node.clone())), "somebody took it back");
    zones.put_back(&zone, node.clone());
    assert_eq!(zones.take_due(at(70)), Some((zone.clone(), node.clone())), "it did not work");
    zones.mark(&zone, &node, false, at(80));
    zones.unmark("a");
    assert_eq!(zones.take_due(at(90)), None, "it is back");
    zones.put_back(&zone, node);
    assert_eq!(zones.take_due(at(90)), None, "it is back");
}

#[test]
fn a_partly_disrupted_zone_is_slow_if_large_and_still_if_small() {
    for (up, down, next) in [(20, 40, Some(at(100))), (2, 8, None)] {
        let mut zones = zones_with(&[("z", "a"), ("z", "b")]);
        zones.take_due(at(0));
        zones.weigh(&tallies(&[("z", up, down)]), at(0));
        assert_eq!(zones.next_due(), next, "{up} up, {down} down");
        zones.weigh(&tallies(&[("z", 60, 1)]), at(5));
        assert_eq!(zones.next_due(), Some(at(15)), "who had to wait still has to");
    }
}

#[test]
fn a_zone_that_is_down_alone_is_given_up_at_the_normal_rate() {
    let mut zones = zones_with(&[("east", "a"), ("east", "b")]);
    let east_down = tallies(&[("east", 0, 4), ("west", 4, 0)]);
    assert_eq!(zones.weigh(&east_down, at(0)), Shift::None);
    assert_eq!(given_up(&mut zones, 10).len(), 2);
}

#[test]
fn nobody_is_given_up_when_all_are_down() {
    let mut zones = zones_with(&[("east", "a"), ("west", "b")]);
    let all_down = tallies(&[("east", 0, 4), ("west", 0, 4)]);
    assert_eq!(zones.weigh(&all_down, at(0)), Shift::AllDown);
    assert_eq!(zones.weigh(&all_down, at(5)), Shift::None, "it was said once");
    assert_eq!(given_up(&mut zones, 1000), []);
    assert_eq!(zones.weigh(&tallies(&[("east", 1, 3), ("west", 0, 4)]), at(1000)), Shift::SomeUp);
    assert_eq!(zones.next_due(), Some(at(1010)));
}

#[test]
fn zones_without_counted_nodes_have_no_say() {
    let mut zones = zones_with(&[("excluded", "a")]);
    assert_eq!(zones.weigh(&tallies(&[]), at(0)), Shift::None);
    assert_eq!(zones.weigh(&tallies(&[("z", 0, 1)]), at(0)), Shift::AllDown);
    assert_eq!(zones.weigh(&tallies(&[]), at(5)), Shift::None, "the last node went");
    assert_eq!(
        zones.weigh(&tallies(&[("z", 1, 0)]), at(9)),
        Shift::None,
        "and is another one when it comes back"
    );
}
