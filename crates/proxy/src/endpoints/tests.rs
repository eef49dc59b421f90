use corten_api::{Value, value};

use super::*;

fn slice(endpoints: Value) -> Slice {
    let tree = value!({
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (endpoints),
    });
    Slice::of(&tree).unwrap()
}

fn all(slices: &[Slice]) -> Merged {
    let ports =
        slices.iter().flat_map(|slice| &slice.ports).map(|(name, protocol, _)| (name.clone(), *protocol));
    merge(&slices.iter().collect::<Vec<_>>(), &ports.collect(), usize::MAX, "here")
}

fn merged(slices: &[Slice]) -> Vec<Endpoint> {
    all(slices).remove(&("http".into(), Protocol::Tcp)).unwrap_or_default()
}

#[test]
fn endpoints_of_all_slices_are_merged_in_order() {
    let found = merged(&[
        slice(value!([{"addresses": ["10.0.0.9"], "nodeName": "here"}])),
        slice(value!([{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.9"]}])),
    ]);
    let addresses: Vec<String> = found.iter().map(|endpoint| endpoint.address.to_string()).collect();
    assert_eq!(addresses, ["10.0.0.1:8080", "10.0.0.9:8080"], "one for each, by its first address");
}

#[test]
fn absent_conditions_count_as_ready() {
    let found = merged(&[slice(value!([{"addresses": ["10.0.0.1"]}]))]);
    assert!(found[0].ready && found[0].serving && !found[0].terminating && !found[0].local);
    let ending = value!([{
        "addresses": ["10.0.0.1"], "nodeName": "here",
        "conditions": {"ready": false, "serving": true, "terminating": true},
    }]);
    let found = merged(&[slice(ending)]);
    assert!(!found[0].ready && found[0].serving && found[0].terminating && found[0].local);
}

#[test]
fn an_address_belongs_to_the_endpoint_that_is_not_terminating() {
    let new = || slice(value!([{"addresses": ["10.0.0.1"], "nodeName": "here"}]));
    let old =
        || slice(value!([{"addresses": ["10.0.0.1"], "conditions": {"terminating": true, "ready": false}}]));
    assert!(merged(&[old(), new()])[0].ready);
    assert!(merged(&[new(), old()])[0].ready);
}

#[test]
fn endpoints_without_an_address_are_left_out() {
    let names =
        value!({"addressType": "FQDN", "ports": [{"port": 80}], "endpoints": [{"addresses": ["a.b"]}]});
    assert_eq!(Slice::of(&names), None);
    let portless = value!({
        "addressType": "IPv4", "ports": [{"name": "all"}, {"name": "none", "port": 0}],
        "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": []}],
    });
    assert!(all(&[Slice::of(&portless).unwrap()]).is_empty());
    let six = value!({
        "addressType": "IPv6", "ports": [{"name": "http", "port": 80}], "endpoints": [{"addresses": ["fd00::1"]}],
    });
    let six = [Slice::of(&six).unwrap()];
    assert!(six.iter().all(|slice| !slice.is_ipv4()));
    assert_eq!(all(&six).len(), 1);
}

#[test]
fn a_slice_names_its_service() {
    let labeled = |labels: Value| value!({"metadata": {"name": "s-1", "labels": (labels)}});
    assert_eq!(service_of(&labeled(value!({"kubernetes.io/service-name": "s"}))).as_deref(), Some("s"));
    assert_eq!(service_of(&labeled(value!({}))), None);
    assert_eq!(
        service_of(&labeled(
            value!({"kubernetes.io/service-name": "s", "service.kubernetes.io/headless": ""})
        )),
        None
    );
    assert_eq!(
        service_of(&labeled(
            value!({"kubernetes.io/service-name": "s", "service.kubernetes.io/service-proxy-name": "x"})
        )),
        None
    );
}
