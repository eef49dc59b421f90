use std::fmt::Write;

use corten_api::{Str, Value, meta, value};

use super::*;
use crate::zone::{Service, Slice};

fn put_service(zone: &mut Zone, name: &str, spec: Value) {
    let tree = value!({"metadata": {"name": (name), "namespace": "default"}, "spec": (spec)});
    zone.set_service(&"default".into(), &name.into(), Some(Service::of(&tree)));
}

fn put_slice(zone: &mut Zone, name: &str, service: &str, endpoints: Value, ports: Value) {
    let labels = value!({"kubernetes.io/service-name": (service)});
    let tree = value!({
        "metadata": {"name": (name), "namespace": "default", "labels": (labels)},
        "endpoints": (endpoints), "ports": (ports),
    });
    zone.set_slice(&"default".into(), &Str::new(meta::name(&tree)), Slice::of(&tree));
}

fn domain() -> Domain {
    Domain { name: Name::parse("cluster.local").unwrap(), servers: vec![[10, 96, 0, 10].into()] }
}

/// A cluster with a Service of every type.
fn zone() -> Zone {
    let mut zone = Zone::default();
    zone.set_namespace(&"default".into(), true);
    let http = || value!({"name": "http", "protocol": "TCP", "port": 80});
    let https = || value!({"name": "https", "protocol": "TCP", "port": 443});
    let ports = || value!([(http()), (https())]);
    put_service(
        &mut zone,
        "web",
        value!({"clusterIPs": ["10.96.0.7"], "clusterIP": "10.96.0.7", "ports": (ports())}),
    );
    put_slice(&mut zone, "web-1", "web", value!([{"addresses": ["10.244.0.5"]}]), value!([(http())]));
    put_service(&mut zone, "both", value!({"clusterIPs": ["10.96.0.8", "fd00::8"], "ports": [(http())]}));
    put_service(&mut zone, "db", value!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [(http())]}));
    let endpoints = value!([
        {"addresses": ["10.244.0.2"], "hostname": "db-0", "conditions": {"ready": true}},
        {"addresses": ["10.244.0.3"], "hostname": "db-1", "conditions": {"ready": true}},
        {"addresses": ["10.244.0.4"], "conditions": {"ready": false}},
    ]);
    put_slice(&mut zone, "db-1", "db", endpoints, value!([(http()), (https())]));
    put_slice(&mut zone, "db-2", "db", value!([{"addresses": ["fd00:1::a"]}]), value!([(http())]));
    put_service(&mut zone, "idle", value!({"clusterIP": "None", "ports": [(http())]}));
    put_service(&mut zone, "portless", value!({"clusterIP": "None"}));
    put_slice(&mut zone, "portless-1", "portless", value!([{"addresses": ["10.244.0.9"]}]), value!([]));
    for (name, target) in [
        ("away", "db.example.com"),
        ("alias", "web.default.svc.cluster.local"),
        ("twice", "alias.default.svc.cluster.local."),
        ("out", "away.default.svc.cluster.local"),
        ("round", "trip.default.svc.cluster.local"),
        ("trip", "round.default.svc.cluster.local"),
        ("self", "self.default.svc.cluster.local"),
        ("nowhere", "gone.default.svc.cluster.local"),
        ("numeric", "192.0.2.1"),
    ] {
        put_service(&mut zone, name, value!({"type": "ExternalName", "externalName": (target)}));
    }
    zone
}

fn shown(section: &str, records: &[Record]) -> String {
    let mut out = String::new();
    for record in records {
        let owner = record.owner.as_ref().map_or(String::new(), |owner| format!("{owner} "));
        let data = match &record.data {
            Data::A(address) => address.to_string(),
            Data::Aaaa(address) => address.to_string(),
            Data::Cname(name) => format!("cname {name}"),
            Data::Ns(name) => format!("ns {name}"),
            Data::Ptr(name) => format!("ptr {name}"),
            Data::Txt(text) => format!("txt {text}"),
            Data::Srv { weight, port, target } => format!("srv {weight} {port} {target}"),
            Data::Soa { server, least, .. } => format!("soa {server} {least}"),
        };
        let _ = write!(out, "{section}{owner}{data}; ");
    }
    out
}

fn resolve_text(zone: &Zone, name: &str, kind: u16) -> String {
    let question = Question { name: Name::parse(name).unwrap(), kind };
    match resolve(zone, &domain(), &question, 1) {
        Resolved::External => "elsewhere".to_owned(),
        Resolved::Continues(answer, name) => format!("{}→ {name}", shown("", &answer.records)),
        Resolved::Answered(answer) => {
            assert!(answer.authoritative || answer.code == Code::Refused);
            if answer.records.is_empty() && answer.code != Code::Refused {
                assert_eq!(shown("", &answer.authority), "cluster.local. soa ns.dns.cluster.local. 30; ");
            }
            let code = match answer.code {
                Code::NoError if answer.records.is_empty() => "nodata".to_owned(),
                Code::NoError => String::new(),
                code => format!("{code:?}").to_lowercase(),
            };
            format!("{code}{}{}", shown("", &answer.records), shown("+", &answer.additional))
        }
    }
}

#[track_caller]
fn check(name: &str, kind: u16, expected: &str) {
    assert_eq!(resolve_text(&zone(), name, kind).trim_end(), expected, "{name} {kind}");
}

#[test]
fn services_have_addresses() {
    check("web.default.svc.cluster.local", kind::A, "10.96.0.7;");
    check("WEB.default.SVC.cluster.Local", kind::A, "10.96.0.7;");
    check("web.default.svc.cluster.local", kind::AAAA, "nodata");
    check("both.default.svc.cluster.local", kind::A, "10.96.0.8;");
    check("both.default.svc.cluster.local", kind::AAAA, "fd00::8;");
    check("_http._tcp.web.default.svc.cluster.local", kind::A, "10.96.0.7;");
}

#[test]
fn endpoints_of_headless_services_have_addresses_and_names() {
    check("db.default.svc.cluster.local", kind::A, "10.244.0.2; 10.244.0.3;");
    check("db.default.svc.cluster.local", kind::AAAA, "fd00:1::a;");
    check("db-1.db.default.svc.cluster.local", kind::A, "10.244.0.3;");
    check("db-1.db.default.svc.cluster.local", kind::AAAA, "nodata");
    check("fd00-1--a.db.default.svc.cluster.local", kind::AAAA, "fd00:1::a;");
    check("10-244-0-4.db.default.svc.cluster.local", kind::A, "nxdomain");
    check("10-244-0-5.web.default.svc.cluster.local", kind::A, "10.244.0.5;");
    check("idle.default.svc.cluster.local", kind::A, "nxdomain");
    check("portless.default.svc.cluster.local", kind::A, "10.244.0.9;");
    check("portless.default.svc.cluster.local", kind::SRV, "nodata");
}

#[test]
fn ports_have_srv_records() {
    let web = "web.default.svc.cluster.local.";
    check(
        "web.default.svc.cluster.local",
        kind::SRV,
        &format!("srv 50 80 {web}; srv 50 443 {web}; +{web} 10.96.0.7;"),
    );
    check(
        "_https._tcp.web.default.svc.cluster.local",
        kind::SRV,
        &format!("srv 100 443 {web}; +{web} 10.96.0.7;"),
    );
    check("_https._udp.web.default.svc.cluster.local", kind::SRV, "nxdomain");
    check("_none._tcp.web.default.svc.cluster.local", kind::SRV, "nxdomain");
    let (first, second) = ("db-0.db.default.svc.cluster.local.", "db-1.db.default.svc.cluster.local.");
    check(
        "_https._tcp.db.default.svc.cluster.local",
        kind::SRV,
        &format!("srv 50 443 {first}; srv 50 443 {second}; +{first} 10.244.0.2; +{second} 10.244.0.3;"),
    );
}

#[test]
fn names_of_pods_spell_their_addresses() {
    check("10-244-0-2.default.pod.cluster.local", kind::A, "10.244.0.2;");
    check("10-244-0-2.default.pod.cluster.local", kind::AAAA, "nodata");
    check("fd00-1--a.default.pod.cluster.local", kind::AAAA, "fd00:1::a;");
    check("10-244-0-2.missing.pod.cluster.local", kind::A, "nxdomain");
    check("absent.default.pod.cluster.local", kind::A, "nxdomain");
}

#[test]
fn a_name_without_records_is_noerror_and_an_unknown_name_nxdomain() {
    for name in ["cluster.local", "svc.cluster.local", "pod.cluster.local", "default.svc.cluster.local"] {
        check(name, kind::A, "nodata");
    }
    for name in ["missing.svc.cluster.local", "other.cluster.local", "none.default.svc.cluster.local"] {
        check(name, kind::A, "nxdomain");
    }
    check("a.b.c.web.default.svc.cluster.local", kind::A, "nxdomain");
    check("example.com.default.svc.cluster.local", kind::A, "nxdomain");
    check("web.default.svc.cluster.local", kind::TXT, "nodata");
    check("web.default.svc.cluster.local", 15, "nodata");
    check("gone.default.svc.cluster.local", 15, "nxdomain");
    check("web.default.svc.cluster.local", kind::AXFR, "refused");
}

#[test]
fn cnames_are_followed() {
    check("away.default.svc.cluster.local", kind::A, "cname db.example.com.; → db.example.com.");
    check("away.default.svc.cluster.local", kind::CNAME, "cname db.example.com.;");
    check("away.default.svc.cluster.local", kind::SRV, "nodata");
    check("_http._tcp.away.default.svc.cluster.local", kind::SRV, "nxdomain");
    let web = "web.default.svc.cluster.local.";
    check("alias.default.svc.cluster.local", kind::A, &format!("cname {web}; {web} 10.96.0.7;"));
    check("alias.default.svc.cluster.local", kind::AAAA, "nodata");
    let alias = "alias.default.svc.cluster.local.";
    check(
        "twice.default.svc.cluster.local",
        kind::A,
        &format!("cname {alias}; {alias} cname {web}; {web} 10.96.0.7;"),
    );
    let away = "away.default.svc.cluster.local.";
    check(
        "out.default.svc.cluster.local",
        kind::A,
        &format!("cname {away}; {away} cname db.example.com.; → db.example.com."),
    );
    for name in ["round", "self", "nowhere"] {
        check(&format!("{name}.default.svc.cluster.local"), kind::A, "nodata");
    }
    check("numeric.default.svc.cluster.local", kind::A, "nxdomain");
}

#[test]
fn addresses_have_ptr_records() {
    check("7.0.96.10.in-addr.arpa", kind::PTR, "ptr web.default.svc.cluster.local.;");
    check("2.0.244.10.in-addr.arpa", kind::PTR, "ptr db-0.db.default.svc.cluster.local.;");
    check("5.0.244.10.in-addr.arpa", kind::PTR, "ptr 10-244-0-5.web.default.svc.cluster.local.;");
    let v6 = "a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa";
    check(v6, kind::PTR, "ptr fd00-1--a.db.default.svc.cluster.local.;");
    check("1.2.0.192.in-addr.arpa", kind::PTR, "elsewhere");
    check("7.0.96.10.in-addr.arpa", kind::A, "elsewhere");
    check("96.10.in-addr.arpa", kind::PTR, "elsewhere");
}

#[test]
fn the_domain_has_soa_and_ns_records() {
    check("dns-version.cluster.local", kind::TXT, "txt 1.1.0;");
    check("dns-version.cluster.local", kind::A, "nxdomain");
    check("cluster.local", kind::SOA, "soa ns.dns.cluster.local. 30;");
    let server = "kube-dns.kube-system.svc.cluster.local.";
    check("cluster.local", kind::NS, &format!("ns {server}; +{server} 10.96.0.10;"));
    check("ns.dns.cluster.local", kind::A, "10.96.0.10;");
    check("example.com", kind::A, "elsewhere");
    check("local", kind::A, "elsewhere");
}

#[test]
fn removed_objects_leave_no_records() {
    let mut zone = zone();
    let default: Str = "default".into();
    put_slice(&mut zone, "db-1", "db", value!([{"addresses": ["10.244.0.2"], "hostname": "x"}]), value!([]));
    assert_eq!(
        resolve_text(&zone, "2.0.244.10.in-addr.arpa", kind::PTR),
        "ptr x.db.default.svc.cluster.local.; "
    );
    assert_eq!(resolve_text(&zone, "3.0.244.10.in-addr.arpa", kind::PTR), "elsewhere");
    zone.set_service(&default, &"web".into(), None);
    assert_eq!(resolve_text(&zone, "web.default.svc.cluster.local", kind::A), "nxdomain");
    assert_eq!(resolve_text(&zone, "7.0.96.10.in-addr.arpa", kind::PTR), "elsewhere");
    for slice in ["web-1", "db-1", "db-2", "portless-1"] {
        zone.set_slice(&default, &slice.into(), None);
    }
    for name in [
        "both", "db", "idle", "portless", "away", "alias", "twice", "out", "round", "trip", "self", "nowhere",
    ] {
        zone.set_service(&default, &name.into(), None);
    }
    zone.set_service(&default, &"numeric".into(), None);
    zone.set_namespace(&default, false);
    assert_eq!(format!("{zone:?}"), format!("{:?}", Zone::default()));
}
