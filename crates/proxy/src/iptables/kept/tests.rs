use super::*;
use crate::testing::base;

fn service(name: &str, rules: &[&str]) -> (Key, Wanted) {
    let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
    let chain = format!("KUBE-SVC-{name}");
    let wanted = Wanted {
        shared: [(Shared::NatServices, vec![format!("-d {name} -j {chain}")])].into(),
        own: [(chain, rules)].into(),
    };
    (Key::new("n", name), wanted)
}

fn lines(kept: &Kept) -> Vec<String> {
    kept.restore_inputs(&base())
        .concat()
        .lines()
        .filter(|line| line.contains("KUBE-SVC-"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn only_changed_chains_are_written() {
    let mut kept = Kept::default();
    kept.change([service("A", &["-j X"]), service("B", &["-j Y"])]);
    assert_eq!(
        lines(&kept),
        [
            ":KUBE-SVC-A - [0:0]",
            ":KUBE-SVC-B - [0:0]",
            "-A KUBE-SERVICES -d A -j KUBE-SVC-A",
            "-A KUBE-SERVICES -d B -j KUBE-SVC-B",
            "-A KUBE-SVC-A -j X",
            "-A KUBE-SVC-B -j Y",
        ]
    );
    kept.mark_written();
    kept.change([service("A", &["-j X"]), service("B", &["-j Z"])]);
    assert_eq!(lines(&kept), [":KUBE-SVC-B - [0:0]", "-A KUBE-SVC-B -j Z"]);
    assert_eq!(kept.count(), Count { filter: 0, nat: 4, nat_written: 1 });
    kept.mark_written();
    kept.change([service("C", &["-j Z"])]);
    let shared = lines(&kept).iter().filter(|line| line.starts_with("-A KUBE-SERVICES")).count();
    assert_eq!(shared, 3, "what all share is written whole");
}

#[test]
fn many_chains_are_written_in_several_inputs_and_shared_chains_last() {
    let mut kept = Kept::default();
    kept.change((0..CHAINS_PER_INPUT + 1).map(|n| service(&format!("{n:05}"), &["-j KUBE-MARK-MASQ"])));
    let restore_inputs = kept.restore_inputs(&base());
    let [own, last] = restore_inputs.as_slice() else { panic!("{} restore_inputs", restore_inputs.len()) };
    assert_eq!(own.matches("\n:KUBE-SVC-").count(), CHAINS_PER_INPUT);
    assert!(own.contains(":KUBE-MARK-MASQ") && !own.contains("KUBE-SERVICES"));
    assert!(own.starts_with("*nat\n") && own.ends_with("COMMIT\n"));
    assert_eq!(last.matches("\n:KUBE-SVC-").count(), 1);
    assert_eq!(last.matches("-A KUBE-SERVICES -d").count(), CHAINS_PER_INPUT + 1);
}

#[test]
fn unused_chains_are_deleted() {
    let mut kept = Kept::default();
    kept.change([service("A", &["-j X"])]);
    kept.mark_written();
    kept.change([(Key::new("n", "A"), Wanted::default())]);
    assert_eq!(lines(&kept), [":KUBE-SVC-A - [0:0]", "-X KUBE-SVC-A"]);
    kept.change([service("A", &["-j X"])]);
    assert!(!lines(&kept).contains(&"-X KUBE-SVC-A".to_owned()), "it came back in time");
}

#[test]
fn stale_chains_of_an_earlier_process_are_deleted_and_foreign_ones_kept() {
    let mut kept = Kept::default();
    kept.change([service("A", &["-j X"])]);
    kept.mark_written();
    kept.distrust(["KUBE-SVC-A", "KUBE-SVC-OLD", "DOCKER", "PREROUTING"].into_iter());
    let text = kept.restore_inputs(&base()).concat();
    assert!(text.contains("-X KUBE-SVC-OLD") && text.contains("-A KUBE-SVC-A -j X"));
    assert!(!text.contains("DOCKER") && !text.contains("-X KUBE-SVC-A"));
}

#[test]
fn node_ports_come_last_and_are_open_at_the_configured_addresses() {
    let last = |base: &Base| -> Vec<String> {
        let mut kept = Kept::default();
        kept.distrust([].into_iter());
        let text = kept.restore_inputs(base).concat();
        let rules = text.lines().filter(|line| line.ends_with("-j KUBE-NODEPORTS"));
        rules.map(|rule| rule.rsplit_once('"').unwrap().1.trim().to_owned()).collect()
    };
    assert_eq!(last(&base()), ["-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"]);
    let closed = Base { localhost_node_ports: false, ..base() };
    assert_eq!(last(&closed), ["-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -j KUBE-NODEPORTS"]);
    let some = Base { node_port_addresses: Some(vec!["192.0.2.1".parse().unwrap()]), ..base() };
    assert_eq!(last(&some), ["-d 192.0.2.1 -j KUBE-NODEPORTS"]);
    let six = Base { ipv4: false, ..base() };
    assert_eq!(last(&six), ["-m addrtype --dst-type LOCAL ! -d ::1/128 -j KUBE-NODEPORTS"]);
}
