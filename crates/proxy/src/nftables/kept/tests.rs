use std::net::IpAddr;

use super::*;
use crate::nftables::service::Map as ServiceMap;

fn key(name: &str) -> Key {
    Key::new("n", name)
}

fn entry(last: u8) -> Entry {
    Entry {
        map: ServiceMap::ServiceIps,
        address: Some(IpAddr::from([10, 96, 0, last])),
        port: Some((Protocol::Tcp, 80)),
    }
}

fn verdict(chain: &str) -> Option<Verdict> {
    Some(Verdict::Goto(chain.to_owned()))
}

/// A Service with one entry and one chain of its name.
fn service(name: &str, last: u8, targets: &[&str]) -> (Key, Wanted) {
    let targets = targets.iter().map(|target| target.parse().unwrap()).collect();
    let wanted = Wanted {
        entries: [(entry(last), verdict(name))].into(),
        chains: [(name.to_owned(), vec![Rule::Redirect(Protocol::Tcp, targets)])].into(),
        affinity: BTreeMap::new(),
    };
    (key(name), wanted)
}

fn numbers(first: u32, count: u32) -> Numbers {
    Numbers { map: Map { chains: false, id: 0 }, first, count }
}

const TWO: [&str; 2] = ["10.244.0.1:80", "10.244.0.2:80"];

#[test]
fn a_new_service_is_added_and_nothing_else() {
    let mut kept = Kept::default();
    kept.change((0..100).map(|n| service(&format!("s{n}"), n, &TWO)));
    let changes = kept.change([service("new", 200, &TWO)]);
    assert_eq!(changes.new_chains, ["new"]);
    assert_eq!(changes.added, [(entry(200), verdict("new"))]);
    assert_eq!(changes.rules, [("new".to_owned(), Placed::RedirectAny(Protocol::Tcp, numbers(200, 2)))]);
    let targets = TWO.map(|target| target.parse().unwrap());
    assert_eq!(changes.numbered, [(numbers(200, 2), targets.to_vec())]);
    assert!(changes.new_maps.is_empty(), "there is room in the first one");
    assert!(changes.flushed.is_empty() && changes.removed.is_empty());
}

#[test]
fn unchanged_services_change_nothing() {
    let mut kept = Kept::default();
    kept.change([service("s", 1, &TWO)]);
    assert!(kept.change([service("s", 1, &TWO)]).is_empty());
}

#[test]
fn a_changed_endpoint_changes_one_chain_and_its_numbers() {
    let mut kept = Kept::default();
    kept.change([service("s", 1, &TWO)]);
    let changes = kept.change([service("s", 1, &["10.244.0.1:80", "10.244.0.3:80", "10.244.0.4:80"])]);
    assert_eq!(changes.flushed, ["s"]);
    assert!(changes.new_chains.is_empty() && changes.added.is_empty() && changes.removed.is_empty());
    assert_eq!(changes.numbered[0].0, numbers(2, 3));
    let stale = kept.take_stale();
    assert_eq!(stale.endpoints, [numbers(0, 2)]);
    assert!(stale.chains.is_empty() && !kept.has_stale());
}

#[test]
fn replaced_endpoints_change_no_rule() {
    let mut kept = Kept::default();
    kept.change([service("s", 1, &["10.244.0.1:80", "10.244.0.2:80", "10.244.0.3:80"])]);
    let changes = kept.change([service("s", 1, &["10.244.0.0:80", "10.244.0.1:80", "10.244.0.3:80"])]);
    let map = Map { chains: false, id: 0 };
    let expected =
        Changes { renumbered: vec![(map, 1, "10.244.0.0:80".parse().unwrap())], ..Changes::default() };
    assert_eq!(changes, expected);
    let changes = kept.change([service("s", 1, &["10.244.0.1:80", "10.244.0.3:80", "10.244.0.9:80"])]);
    assert_eq!(changes.renumbered, [(map, 1, "10.244.0.9:80".parse().unwrap())]);
    assert!(!kept.has_stale());
    let changes = kept.change([service("s", 1, &["10.244.0.9:80"])]);
    assert_eq!(changes.flushed, ["s"], "another number of them is another rule");
    assert_eq!(kept.take_stale().endpoints, [numbers(0, 3)]);
}

#[test]
fn a_deleted_service_leaves_an_empty_chain_for_clean_up() {
    let mut kept = Kept::default();
    kept.change([service("s", 1, &TWO)]);
    let changes = kept.change([(key("s"), Wanted::default())]);
    assert_eq!((changes.flushed, changes.removed), (vec!["s".to_owned()], vec![entry(1)]));
    assert!(kept.has_stale());
    let changes = kept.change([service("s", 1, &TWO)]);
    assert_eq!(changes.new_chains, ["s"]);
    assert!(kept.take_stale().chains.is_empty(), "it came back in time");
}

#[test]
fn an_entry_of_two_services_belongs_to_the_first() {
    let mut kept = Kept::default();
    kept.change([service("b", 1, &TWO)]);
    let changes = kept.change([service("a", 1, &TWO)]);
    assert_eq!((changes.removed, changes.added), (vec![entry(1)], vec![(entry(1), verdict("a"))]));
    let changes = kept.change([service("c", 1, &TWO)]);
    assert!(changes.removed.is_empty() && changes.added.is_empty());
    let changes = kept.change([(key("a"), Wanted::default())]);
    assert_eq!((changes.removed, changes.added), (vec![entry(1)], vec![(entry(1), verdict("b"))]));
}

#[test]
fn an_entry_that_moves_between_services_is_never_missing() {
    let mut kept = Kept::default();
    let changes = kept.change([service("b", 1, &TWO), service("a", 1, &TWO)]);
    assert_eq!((changes.removed, changes.added), (vec![], vec![(entry(1), verdict("a"))]));
    let changes = kept.change([(key("a"), Wanted::default()), (key("b"), Wanted::default())]);
    assert_eq!((changes.removed, changes.added), (vec![entry(1)], vec![]));
}

#[test]
fn everything_fills_an_empty_table() {
    let mut kept = Kept::default();
    kept.change([service("a", 1, &TWO), service("b", 2, &["10.244.0.1:80"])]);
    kept.change([service("a", 1, &["10.244.0.9:80", "10.244.0.8:80"])]);
    let everything = kept.everything();
    assert_eq!(everything.added, [(entry(1), verdict("a")), (entry(2), verdict("b"))]);
    assert!(everything.flushed.is_empty() && everything.removed.is_empty() && !kept.has_stale());
    assert_eq!((everything.numbered.len(), everything.numbered[0].0), (1, numbers(0, 2)));
}

#[test]
fn a_set_with_a_new_timeout_is_created_again() {
    let sticky = |seconds| {
        let timeout = Duration::from_secs(seconds);
        let rules = vec![Rule::Remember { set: "affinity-x".to_owned(), timeout }];
        let wanted = Wanted {
            chains: [("endpoint-x".to_owned(), rules)].into(),
            affinity: [("affinity-x".to_owned(), timeout)].into(),
            ..Wanted::default()
        };
        (key("s"), wanted)
    };
    let mut kept = Kept::default();
    kept.change([sticky(10)]);
    let changes = kept.change([sticky(20)]);
    assert_eq!(changes.forgotten_sets, ["affinity-x"]);
    assert_eq!(changes.new_sets, [("affinity-x".to_owned(), Duration::from_secs(20))]);
    assert_eq!(changes.flushed, ["endpoint-x"], "chains that use the set are written again");
}

#[test]
fn an_unused_map_is_removed_at_clean_up() {
    let many: Vec<String> = (0..600).map(|n| format!("10.244.{}.{}:80", n / 250, n % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut kept = Kept::default();
    kept.change([service("big", 1, &many)]);
    let changes = kept.change([service("small", 2, &TWO)]);
    assert_eq!(changes.new_maps, [Map { chains: false, id: 1 }]);
    kept.change([(key("big"), Wanted::default())]);
    assert_eq!(kept.take_stale().maps, [Map { chains: false, id: 0 }].into());
}
