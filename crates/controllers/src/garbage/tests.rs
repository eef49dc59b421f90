//! Tests of the graph: the work that changes cause.

#[path = "../../../api/tests/bounds/meter.rs"]
mod meter;

use corten_api::Str;
use corten_client::Owner;
use meter::{excess, settle};

use super::graph::{Facts, Graph, Identity, Work};

fn identity(namespace: &str, name: &str) -> Identity {
    Identity {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
    }
}

fn owner(name: &str, blocks_deletion: bool) -> Owner {
    let Identity { api_version, kind, name, uid, .. } = identity("", name);
    Owner { api_version, kind, name, uid, controller: false, blocks_deletion }
}

fn object(name: &str, owners: &[Owner]) -> Facts {
    Facts {
        identity: identity("n", name),
        owners: owners.into(),
        deleting: false,
        waits_for_deletion: false,
        waits_for_orphaning: false,
    }
}

fn waiting(mut facts: Facts) -> Facts {
    facts.deleting = true;
    facts.waits_for_deletion = true;
    facts
}

fn delete(name: &str) -> Work {
    Work::Delete(Str::new(format!("uid-{name}")))
}

#[test]
fn a_virtual_owner_is_processed_until_it_is_observed_or_absent() {
    let mut graph = Graph::default();
    assert_eq!(graph.present(object("child", &[owner("parent", true)])), [delete("parent")]);
    assert!(graph.state_of("uid-parent").is_some_and(|seen| seen.is_virtual && seen.has_dependents));
    assert_eq!(graph.present(object("parent", &[])), []);
    assert!(graph.state_of("uid-parent").is_some_and(|seen| !seen.is_virtual));
    assert_eq!(graph.gone("uid-parent"), [delete("child")]);
    assert!(graph.is_absent(&identity("n", "parent")));

    let mut graph = Graph::default();
    graph.present(object("child", &[owner("parent", true)]));
    assert_eq!(graph.absent(&identity("n", "parent")), [delete("child")]);
    assert!(graph.state_of("uid-parent").is_none());
}

#[test]
fn waiting_for_dependents_wakes_them_and_their_end_wakes_the_owner() {
    let mut graph = Graph::default();
    graph.present(object("parent", &[]));
    graph.present(object("child", &[owner("parent", true)]));
    assert_eq!(graph.blocking("uid-parent"), [(Str::new("uid-child"), false)]);
    assert_eq!(graph.present(waiting(object("parent", &[]))), [delete("child"), delete("parent")]);
    assert_eq!(graph.present(waiting(object("parent", &[]))), [], "reported once");
    assert_eq!(graph.gone("uid-child"), [delete("parent")]);
    assert_eq!(graph.blocking("uid-parent"), []);
}

#[test]
fn orphaning_comes_before_deleting() {
    let mut graph = Graph::default();
    graph.present(object("child", &[]));
    let mut facts = waiting(object("parent", &[]));
    facts.waits_for_orphaning = true;
    assert_eq!(graph.present(facts), [Work::Orphan(Str::new("uid-parent"))]);
}

#[test]
fn owners_are_processed_when_a_dependent_no_longer_blocks() {
    let mut graph = Graph::default();
    graph.present(object("parent", &[]));
    graph.present(object("child", &[owner("parent", true)]));
    assert_eq!(graph.present(object("child", &[owner("parent", false)])), [delete("parent")]);
    assert_eq!(graph.blocking("uid-parent"), []);
    assert_eq!(graph.dependents("uid-parent").len(), 1);
    assert_eq!(graph.present(object("child", &[])), [], "it did not block any more");
    assert_eq!(graph.dependents("uid-parent"), []);
    graph.present(object("child", &[owner("parent", true)]));
    assert_eq!(graph.present(object("child", &[])), [delete("parent")]);
}

#[test]
fn an_owner_in_another_namespace_is_reported_and_processed() {
    let mut graph = Graph::default();
    let mut parent = object("parent", &[]);
    parent.identity.namespace = "elsewhere".into();
    graph.present(parent);
    let work = graph.present(object("child", &[owner("parent", true)]));
    assert_eq!(work, [Work::Report(identity("n", "child"), owner("parent", true)), delete("child")]);

    let mut graph = Graph::default();
    graph.present(object("child", &[owner("parent", true)]));
    let mut parent = object("parent", &[]);
    parent.identity.namespace = "elsewhere".into();
    let work = graph.present(parent);
    assert_eq!(work, [Work::Report(identity("n", "child"), owner("parent", true)), delete("child")]);
}

#[test]
fn one_wrong_reference_does_not_take_others_with_it() {
    let mut graph = Graph::default();
    let mut wrong = owner("parent", true);
    wrong.kind = "Secret".into();
    let mut absent = identity("n", "parent");
    absent.kind = "Secret".into();
    graph.present(object("bad", &[wrong]));
    assert_eq!(graph.present(object("good", &[owner("parent", true)])), [delete("good")]);
    let work = graph.absent(&absent);
    assert_eq!(work, [delete("bad"), delete("parent")], "the other name is tried next");
    assert!(graph.state_of("uid-parent").is_some_and(|seen| seen.facts.identity == identity("n", "parent")));

    graph.present(object("parent", &[]));
    assert_eq!(graph.absent(&absent), [delete("bad")], "what was seen stays");
    assert!(graph.state_of("uid-parent").is_some());
}

#[test]
fn circles_are_noticed() {
    let mut graph = Graph::default();
    graph.present(object("a", &[owner("b", true)]));
    graph.present(object("b", &[owner("a", true)]));
    assert!(graph.state_of("uid-a").is_some_and(|seen| !seen.dependent_waits));
    graph.present(waiting(object("b", &[owner("a", true)])));
    assert!(graph.state_of("uid-a").is_some_and(|seen| seen.dependent_waits));
}

#[test]
fn an_object_may_have_many_owners_and_change_them_all() {
    let owners =
        |n: usize, of: &str| -> Vec<Owner> { (0..n).map(|i| owner(&format!("{of}{i}"), true)).collect() };
    let size = |(before, after): &(Vec<Owner>, Vec<Owner>)| 100 * (before.len() + after.len());
    let change = |(before, after): &(Vec<Owner>, Vec<Owner>)| {
        let mut graph = Graph::default();
        graph.present(object("child", before));
        graph.present(object("child", after));
        assert!(graph.state_of("uid-a0").is_some_and(|seen| !seen.has_dependents));
        assert!(graph.state_of("uid-b0").is_some_and(|seen| seen.has_dependents));
    };
    let complaints = excess("owners", 1500, |n| (owners(n, "a"), owners(n, "b")), size, change);
    settle(complaints.as_slice());
}
