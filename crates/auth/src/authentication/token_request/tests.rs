use corten_api::value;

use super::*;

#[test]
fn lifetimes_are_bounded() {
    let check = |seconds: i64| validate(&value!({"expirationSeconds": seconds})).summary();
    assert_eq!(check(600), "");
    assert_eq!(check(1 << 32), "");
    assert!(check(599).contains(
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
    ));
    assert!(check((1 << 32) + 1).contains("may not specify a duration larger than 2^32 seconds"));
    let attested = validate(&value!({"expirationSeconds": 600, "attestations": {"a": ["b"]}})).summary();
    assert!(attested.contains("spec.attestations: Invalid value"), "{attested}");
}

#[test]
fn marked_tokens_of_pods_live_longer() {
    let rules = LifetimeRules { longest: 0, extend: true };
    let plain = |seconds| Lifetime { reported: seconds, actual: seconds, warn_after: None };
    let extended = Lifetime { reported: 3607, actual: 31_536_000, warn_after: Some(3607) };
    assert_eq!(rules.lifetime(3607, true, true), extended);
    assert_eq!(rules.lifetime(3607, false, true), plain(3607));
    assert_eq!(rules.lifetime(3607, true, false), plain(3607));
    assert_eq!(rules.lifetime(3600, true, true), plain(3600));
    assert_eq!(LifetimeRules { extend: false, ..rules }.lifetime(3607, true, true), plain(3607));
    assert_eq!(LifetimeRules { longest: 3600, ..rules }.lifetime(7200, true, true), plain(3600));
    assert_eq!(LifetimeRules { longest: 7200, ..rules }.lifetime(3607, true, true), extended);
}

#[test]
fn only_some_kinds_can_be_bound_to() {
    let kind = |api_version: &str, kind: &str| bound_kind(&value!({"apiVersion": api_version, "kind": kind}));
    assert_eq!(kind("v1", "Pod"), Ok(Bound::Pod));
    assert_eq!(kind("", "Secret"), Ok(Bound::Secret));
    assert_eq!(kind("v1", "Node"), Ok(Bound::Node));
    let refused = |api_version: &str, name: &str| kind(api_version, name).unwrap_err();
    assert_eq!(refused("v1", "ConfigMap"), "cannot bind token to object of type /v1, Kind=ConfigMap");
    assert_eq!(refused("apps/v1", "Pod"), "cannot bind token to object of type apps/v1, Kind=Pod");
    assert_eq!(refused("v1/x/y", "a/b"), "cannot bind token to object of type /, Kind=a/b");
    assert_eq!(refused("", ""), "cannot bind token to object of type /, Kind=");
}
