//! Tables of accounts and pods.

use corten_api::json;

use super::*;

#[test]
fn tokens_are_mounted_once() {
    let mut pod = value!({"spec": {
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}],
        "volumes": [{"name": "own", "emptyDir": {}}],
    }});
    mount_token(&mut pod, "abcde");
    let mounts = |list: &str, at: usize| {
        let container = &pod.items_at(&["spec", list])[at];
        container.items_at(&["volumeMounts"]).iter().map(|m| pod::name(m).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(mounts("initContainers", 0), ["kube-api-access-abcde"]);
    assert_eq!(mounts("containers", 0), ["kube-api-access-abcde"]);
    assert_eq!(mounts("containers", 1), ["own"]);
    assert_eq!(
        json::write_to_string(&pod.items_at(&["spec", "volumes"])[1]),
        concat!(
            r#"{"name":"kube-api-access-abcde","projected":{"defaultMode":420,"sources":["#,
            r#"{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},"#,
            r#"{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},"#,
            r#"{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}"#
        )
    );
    let once = pod.clone();
    mount_token(&mut pod, "fghij");
    assert_eq!(pod, once);
}

#[test]
fn the_pod_overrides_the_accounts_token_mounting() {
    let account = |word: Option<bool>| match word {
        Some(word) => value!({"automountServiceAccountToken": word}),
        None => value!({}),
    };
    let pod = |word: Option<bool>| value!({"spec": (account(word))});
    let table = [
        (None, None, true),
        (Some(false), None, false),
        (Some(false), Some(true), true),
        (Some(true), Some(false), false),
    ];
    for (of_account, of_pod, expected) in table {
        assert_eq!(automounts(&account(of_account), &pod(of_pod)), expected, "{of_account:?} {of_pod:?}");
    }
}

#[test]
fn pull_secrets_come_from_the_account_unless_the_pod_has_its_own() {
    let account = value!({"imagePullSecrets": [{"name": "a"}, {"name": "b"}]});
    let mut pod = value!({"spec": {}});
    add_pull_secrets(&account, &mut pod);
    assert_eq!(pod, value!({"spec": {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}}));
    let mut own = value!({"spec": {"imagePullSecrets": [{"name": "c"}]}});
    add_pull_secrets(&account, &mut own);
    assert_eq!(own, value!({"spec": {"imagePullSecrets": [{"name": "c"}]}}));
}

#[test]
fn mirror_pods_reference_nothing() {
    let table = [
        (r#"{"spec":{}}"#, None),
        (r#"{"spec":{"serviceAccountName":"x"}}"#, Some("a mirror pod may not reference service accounts")),
        (
            r#"{"spec":{"volumes":[{"name":"v","secret":{"secretName":"s"}}]}}"#,
            Some("a mirror pod may not reference secrets"),
        ),
        (
            r#"{"spec":{"containers":[{"env":[{"name":"e","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}}"#,
            Some("a mirror pod may not reference secrets"),
        ),
        (
            r#"{"spec":{"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}}"#,
            Some("a mirror pod may not use ServiceAccountToken volume projections"),
        ),
    ];
    for (pod, expected) in table {
        assert_eq!(check_mirror(&json::parse(pod.as_bytes()).unwrap()).err(), expected, "{pod}");
    }
}

#[test]
fn secrets_can_be_limited_to_the_accounts_own() {
    let account = value!({
        "metadata": {"name": "sa", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "good"}],
        "imagePullSecrets": [{"name": "pull"}],
    });
    assert!(enforces_secrets(&account));
    assert!(!enforces_secrets(
        &value!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "yes"}}})
    ));
    let table = [
        (r#"{"volumes":[{"secret":{"secretName":"good"}}],"imagePullSecrets":[{"name":"pull"}]}"#, ""),
        (
            r#"{"volumes":[{"secret":{"secretName":"bad"}}]}"#,
            r#"volume with secret.secretName="bad" is not allowed because service account sa does not reference that secret"#,
        ),
        (
            r#"{"initContainers":[{"name":"i","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"bad"}}}]}]}"#,
            r#"init container i with envVar E referencing secret.secretName="bad" is not allowed because service account sa does not reference that secret"#,
        ),
        (
            r#"{"containers":[{"name":"c","envFrom":[{"secretRef":{"name":"bad"}}]}]}"#,
            r#"container c with envFrom referencing secret.secretName="bad" is not allowed because service account sa does not reference that secret"#,
        ),
        (
            r#"{"imagePullSecrets":[{"name":"pull"},{"name":"good"}]}"#,
            r#"imagePullSecrets[1].name="good" is not allowed because service account sa does not reference that imagePullSecret"#,
        ),
    ];
    for (spec, expected) in table {
        let pod = value!({"spec": (json::parse(spec.as_bytes()).unwrap())});
        assert_eq!(limit_secrets(&account, &pod).err().unwrap_or_default(), expected, "{spec}");
    }
}
