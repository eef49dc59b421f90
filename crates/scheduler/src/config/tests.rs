use corten_api::{Value, value};

use super::*;

fn config(rest: &Value) -> Result<Config, ConfigError> {
    let mut config = value!({"apiVersion": (API_VERSION), "kind": "KubeSchedulerConfiguration"});
    for (key, value) in rest.as_object().unwrap().iter() {
        config.set(&[key.as_str()], value.clone());
    }
    Config::of(&config)
}

fn filters(profile: &Profile) -> Vec<&'static str> {
    profile.filters.iter().map(|plugin| plugin.name()).collect()
}

fn scores(profile: &Profile) -> Vec<(&'static str, i64)> {
    profile.scores.iter().map(|(plugin, weight)| (plugin.name(), *weight)).collect()
}

#[test]
fn defaults_are_upstreams() {
    let config = Config::default();
    let [profile] = config.profiles.as_slice() else { panic!("one profile") };
    assert_eq!(profile.scheduler, "default-scheduler");
    let weights = scores(profile);
    for expected in [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesFit", 1),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ] {
        assert!(weights.contains(&expected), "{expected:?} in {weights:?}");
    }
    let first =
        ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"];
    assert_eq!(filters(profile)[..6], first);
}

#[test]
fn profiles_enable_and_disable_plugins() {
    let config = config(&value!({"profiles": [
        {"schedulerName": "only-fit", "plugins": {
            "multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 5}]}}},
        {"schedulerName": "less", "plugins": {
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality", "weight": 7}]},
            "filter": {"disabled": [{"name": "NodePorts"}]}}},
    ]}))
    .unwrap();
    let [only_fit, less] = config.profiles.as_slice() else { panic!("two profiles") };
    assert_eq!(
        (filters(only_fit), scores(only_fit)),
        (vec!["NodeResourcesFit"], vec![("NodeResourcesFit", 5)])
    );
    assert_eq!(scores(less), [("ImageLocality", 7)]);
    assert!(!filters(less).contains(&"NodePorts") && filters(less).contains(&"NodeResourcesFit"));
}

#[test]
fn invalid_configurations_are_reported() {
    let said = |rest: Value| config(&rest).err().map(|error| error.to_string()).unwrap_or_default();
    let of = |profile: Value| said(value!({"profiles": [(profile)]}));
    assert_eq!(
        of(value!({"plugins": {"filter": {"enabled": [{"name": "Nonsense"}]}}})),
        "profiles[0]: plugin \"Nonsense\" does not exist"
    );
    assert_eq!(
        of(value!({"plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}})),
        "profiles[0].plugins.filter: plugin \"ImageLocality\" does not extend filter plugin"
    );
    assert_eq!(
        said(value!({"profiles": [{}, {}]})),
        "profiles[1].schedulerName: Duplicate value: \"default-scheduler\""
    );
    assert_eq!(
        said(value!({"percentageOfNodesToScore": 101})),
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"
    );
    let args = value!([{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]);
    assert!(of(value!({"pluginConfig": (args)})).ends_with("not in valid range [0, 100]"));
    let args = value!([{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": (-1)}}]);
    assert!(of(value!({"pluginConfig": (args)})).ends_with("should not be a negative value"));
    assert!(Config::of(&value!({"kind": "Pod", "apiVersion": "v1"})).is_err());
}
