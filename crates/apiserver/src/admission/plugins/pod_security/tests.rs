//! Tables of pods and labels, and the violations of each level.

use corten_api::{json, value};

use super::policy::{LevelVersion, Version};
use super::*;

/// Holds a pod against every level, for the tests of what that costs.
pub(in crate::admission) fn check_all_levels(pod: &Value) {
    for level in [Level::Baseline, Level::Restricted] {
        for minor in [Some(0), Some(24), None] {
            let violations = evaluate(at(level, minor), pod);
            drop((violations.detail(), violations.reasons()));
        }
    }
    assert!(!is_significant(pod, pod));
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn at(level: Level, minor: Option<u32>) -> LevelVersion {
    LevelVersion { level, version: minor.map_or(Version::Latest, Version::Minor) }
}

/// A pod that satisfies the restricted level.
fn good() -> Value {
    tree(
        r#"{"metadata":{"name":"p"},"spec":{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
            "containers":[{"name":"c","image":"i","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}"#,
    )
}

#[track_caller]
fn check(level: LevelVersion, path: &[&str], bad: &str, expected: &str) {
    let mut pod = good();
    if let ["containers", rest @ ..] = path {
        let containers = pod.get_mut("spec").unwrap().get_mut("containers").unwrap().as_array_mut().unwrap();
        containers[0].set(rest, tree(bad));
    } else {
        pod.set(path, tree(bad));
    }
    assert_eq!(evaluate(level, &pod).detail(), expected, "{path:?} {bad}");
}

#[test]
fn good_pods_pass() {
    for minor in 0..=40 {
        assert!(evaluate(at(Level::Restricted, Some(minor)), &good()).is_empty(), "1.{minor}");
    }
    assert!(evaluate(at(Level::Restricted, None), &good()).is_empty());
}

#[test]
fn plain_pods_are_baseline() {
    let plain = tree(r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#);
    assert!(evaluate(at(Level::Baseline, None), &plain).is_empty());
    assert_eq!(
        evaluate(at(Level::Restricted, None), &plain).detail(),
        concat!(
            r#"allowPrivilegeEscalation != false (containers "a", "b" must set securityContext.allowPrivilegeEscalation=false), "#,
            r#"unrestricted capabilities (containers "a", "b" must set securityContext.capabilities.drop=["ALL"]), "#,
            r#"runAsNonRoot != true (pod or containers "a", "b" must set securityContext.runAsNonRoot=true), "#,
            r#"seccompProfile (pod or containers "a", "b" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#
        )
    );
}

#[test]
fn baseline_forbids() {
    let baseline = at(Level::Baseline, None);
    let table: [(&[&str], &str, &str); 17] = [
        (&["spec", "hostNetwork"], "true", "host namespaces (hostNetwork=true)"),
        (
            &["spec", "volumes"],
            r#"[{"name":"v","hostPath":{"path":"/"}}]"#,
            r#"hostPath volumes (volume "v")"#,
        ),
        (
            &["containers", "ports"],
            r#"[{"containerPort":80,"hostPort":80},{"containerPort":81,"hostPort":81}]"#,
            r#"hostPort (container "c" uses hostPorts 80, 81)"#,
        ),
        (
            &["containers", "livenessProbe"],
            r#"{"httpGet":{"host":"10.0.0.1","port":80}}"#,
            r#"probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")"#,
        ),
        (
            &["containers", "securityContext", "privileged"],
            "true",
            r#"privileged (container "c" must not set securityContext.privileged=true)"#,
        ),
        (
            &["containers", "securityContext", "capabilities", "add"],
            r#"["NET_RAW","CHOWN","SYS_ADMIN"]"#,
            r#"non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            &["containers", "securityContext", "procMount"],
            r#""Unmasked""#,
            r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            &["spec", "securityContext", "seLinuxOptions"],
            r#"{"type":"spc_t","user":"u"}"#,
            r#"seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set)"#,
        ),
        (&["spec", "securityContext", "seLinuxOptions"], r#"{"type":"container_engine_t"}"#, ""),
        (
            &["containers", "securityContext", "seccompProfile"],
            r#"{"type":"Unconfined"}"#,
            r#"seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            &["spec", "securityContext", "appArmorProfile"],
            r#"{"type":"Unconfined"}"#,
            r#"forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            &["metadata", "annotations"],
            r#"{"container.apparmor.security.beta.kubernetes.io/c":"unconfined"}"#,
            r#"forbidden AppArmor profile (annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/c="unconfined"")"#,
        ),
        (
            &["spec", "securityContext", "sysctls"],
            r#"[{"name":"kernel.msgmax","value":"1"},{"name":"net.ipv4.tcp_rmem","value":"1"}]"#,
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            &["spec", "securityContext", "windowsOptions"],
            r#"{"hostProcess":true}"#,
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (&["spec", "securityContext", "runAsUser"], "0", ""),
        (&["spec", "volumes"], r#"[{"name":"v","nfs":{"path":"/"}}]"#, ""),
        (&["spec", "hostPID"], "false", ""),
    ];
    for (path, bad, expected) in table {
        check(baseline, path, bad, expected);
    }
}

#[test]
fn restricted_forbids_more() {
    let restricted = at(Level::Restricted, None);
    let table: [(&[&str], &str, &str); 8] = [
        (
            &["spec", "volumes"],
            r#"[{"name":"v","hostPath":{"path":"/"}},{"name":"w","nfs":{"path":"/"}},{"name":"x","emptyDir":{}}]"#,
            r#"restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")"#,
        ),
        (&["spec", "securityContext", "runAsUser"], "0", "runAsUser=0 (pod must not set runAsUser=0)"),
        (
            &["containers", "securityContext", "runAsNonRoot"],
            "false",
            r#"runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)"#,
        ),
        (
            &["containers", "securityContext", "capabilities", "add"],
            r#"["CHOWN","NET_BIND_SERVICE"]"#,
            r#"unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)"#,
        ),
        (
            &["spec", "securityContext", "seccompProfile", "type"],
            r#""Unconfined""#,
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            &["containers", "securityContext", "procMount"],
            r#""Unmasked""#,
            r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            &["containers", "securityContext", "allowPrivilegeEscalation"],
            "true",
            r#"allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)"#,
        ),
        (&["spec", "os"], r#"{"name":"windows"}"#, ""),
    ];
    for (path, bad, expected) in table {
        check(restricted, path, bad, expected);
    }
}

/// A field that nodes do not implement must not relax a level.
#[test]
fn host_users_relaxes_no_check() {
    let mut pod = good();
    pod.set(&["spec", "hostUsers"], false);
    pod.set(&["spec", "securityContext", "runAsNonRoot"], false);
    pod.set(&["spec", "securityContext", "runAsUser"], 0);
    let containers = pod.get_mut("spec").unwrap().get_mut("containers").unwrap().as_array_mut().unwrap();
    containers[0].set(&["securityContext", "procMount"], "Unmasked");
    for minor in [Some(34), Some(35), Some(37), None] {
        let unmasked = r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#;
        assert_eq!(evaluate(at(Level::Baseline, minor), &pod).detail(), unmasked, "{minor:?}");
        let detail = evaluate(at(Level::Restricted, minor), &pod).detail();
        for expected in [unmasked, "runAsNonRoot != true (pod must not", "runAsUser=0 (pod must not"] {
            assert!(detail.contains(expected), "{minor:?}: {detail}");
        }
    }
}

#[test]
fn checks_depend_on_the_version() {
    let sysctl = |name: &str| format!(r#"[{{"name":"{name}","value":"1"}}]"#);
    let path = &["spec", "securityContext", "sysctls"];
    let recent = sysctl("net.ipv4.tcp_notsent_lowat");
    check(at(Level::Baseline, Some(36)), path, &recent, "forbidden sysctls (net.ipv4.tcp_notsent_lowat)");
    check(at(Level::Baseline, Some(37)), path, &recent, "");
    check(at(Level::Baseline, Some(99)), path, &recent, "");
    check(at(Level::Restricted, Some(22)), &["spec", "securityContext", "runAsUser"], "0", "");
    let root = "runAsUser=0 (pod must not set runAsUser=0)";
    check(at(Level::Restricted, Some(23)), &["spec", "securityContext", "runAsUser"], "0", root);
    let capable = &["containers", "securityContext", "capabilities", "add"];
    let expected = r#"non-default capabilities (container "c" must not include "NET_RAW" in securityContext.capabilities.add)"#;
    check(at(Level::Restricted, Some(21)), capable, r#"["NET_RAW"]"#, expected);
    let annotated = r#"{"seccomp.security.alpha.kubernetes.io/pod":"unconfined"}"#;
    let expected =
        r#"seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")"#;
    check(at(Level::Baseline, Some(18)), &["metadata", "annotations"], annotated, expected);
    check(at(Level::Baseline, Some(19)), &["metadata", "annotations"], annotated, "");
}

#[track_caller]
fn check_labels(labels: &[(&str, &str)], expected: &str) {
    let prefix = "pod-security.kubernetes.io/";
    let (policy, errors) = Policy::read(|label| {
        let found = labels.iter().find(|(key, _)| Some(*key) == label.strip_prefix(prefix));
        found.map(|(_, value)| *value)
    });
    let summary = if errors.is_empty() { String::new() } else { format!(" {}", errors.summary()) };
    assert_eq!(
        format!("{} {} {}{summary}", policy.enforce, policy.audit, policy.warn),
        expected,
        "{labels:?}"
    );
}

#[test]
fn labels_define_the_policy() {
    check_labels(&[], "privileged:latest privileged:latest privileged:latest");
    check_labels(&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest");
    check_labels(
        &[("enforce", "restricted"), ("enforce-version", "v1.30")],
        "restricted:v1.30 privileged:latest restricted:v1.30",
    );
    check_labels(
        &[("enforce", "restricted"), ("warn", "privileged")],
        "restricted:latest privileged:latest privileged:latest",
    );
    check_labels(
        &[("enforce", "bogus"), ("audit", "bogus")],
        concat!(
            "restricted:latest privileged:latest privileged:latest ",
            r#"[metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "bogus": must be one of privileged, baseline, restricted, "#,
            r#"metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: "bogus": must be one of privileged, baseline, restricted]"#
        ),
    );
    for bad in ["1.30", "v1.030", "v2.1", "v1.", "v1.99999999999"] {
        check_labels(
            &[("warn-version", bad)],
            &format!(
                "privileged:latest privileged:latest privileged:latest metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: {bad:?}: must be \"latest\" or \"v1.x\""
            ),
        );
    }
}

#[test]
fn only_images_and_containers_matter_on_update() {
    let pod = |image: &str| value!({"spec": {"containers": [{"name": "c", "image": image}]}});
    assert!(!is_significant(&pod("a"), &pod("a")));
    assert!(is_significant(&pod("b"), &pod("a")));
    let mut attached = pod("a");
    attached.set(&["spec", "ephemeralContainers"], vec![value!({"name": "d", "image": "x"})]);
    assert!(is_significant(&attached, &pod("a")));
    assert!(!is_significant(&attached, &attached));
}
