//! The pods of the benchmark: like a small service's, 2.2 KB in JSON.

use std::fmt::Write;

/// The namespace of all pods.
pub(crate) const NAMESPACE: &str = "bench";
/// The path of their collection.
pub(crate) const PODS: &str = "/api/v1/namespaces/bench/pods";
/// The prefix of all pod names.
pub(crate) const NAME_PREFIX: &str = "bench-pod-";

/// The name of the pod with this number.
pub(crate) fn name(index: usize) -> String {
    format!("{NAME_PREFIX}{index:05}")
}

/// The manifest of the pod with this number, in JSON.
pub(crate) fn manifest(index: usize) -> String {
    let mut out = String::with_capacity(2400);
    // Writing into a string cannot fail.
    let _ = write!(
        out,
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"{NAMESPACE}","labels":{{"app.kubernetes.io/name":"web-frontend","app.kubernetes.io/instance":"web-frontend-{shard}","app.kubernetes.io/version":"2.14.3","app.kubernetes.io/component":"server","pod-template-hash":"7c9d8f6b5d"}},"annotations":{{"prometheus.io/scrape":"true","prometheus.io/port":"9102","prometheus.io/path":"/metrics","checksum/config":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}}}},"spec":"#,
        name = name(index),
        shard = index % 100,
    );
    out.push_str(SPEC);
    out.push('}');
    out
}

const SPEC: &str = concat!(
    r#"{"serviceAccountName":"default","automountServiceAccountToken":false,"restartPolicy":"Always","#,
    r#""terminationGracePeriodSeconds":30,"nodeSelector":{"kubernetes.io/os":"linux"},"#,
    r#""securityContext":{"runAsNonRoot":true,"runAsUser":65532,"fsGroup":65532},"#,
    r#""containers":[{"name":"server","image":"registry.example.com/shop/web-frontend:2.14.3","#,
    r#""imagePullPolicy":"IfNotPresent","args":["--listen=:8080","--log-format=json","--upstream=http://catalog:8080"],"#,
    r#""ports":[{"name":"http","containerPort":8080,"protocol":"TCP"},{"name":"metrics","containerPort":9102,"protocol":"TCP"}],"#,
    r#""env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},"#,
    r#"{"name":"GOMAXPROCS","value":"2"},{"name":"CACHE_URL","value":"redis://cache.shop.svc:6379/0"}],"#,
    r#""resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"500m","memory":"256Mi"}},"#,
    r#""livenessProbe":{"httpGet":{"path":"/healthz","port":8080},"initialDelaySeconds":5,"periodSeconds":10},"#,
    r#""readinessProbe":{"httpGet":{"path":"/ready","port":8080},"periodSeconds":5},"#,
    r#""lifecycle":{"preStop":{"httpGet":{"path":"/drain","port":8080}}},"terminationMessagePolicy":"FallbackToLogsOnError","#,
    r#""securityContext":{"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"capabilities":{"drop":["ALL"]}},"#,
    r#""volumeMounts":[{"name":"config","mountPath":"/etc/web","readOnly":true},{"name":"tmp","mountPath":"/tmp"}]}],"#,
    r#""volumes":[{"name":"config","configMap":{"name":"web-frontend"}},{"name":"tmp","emptyDir":{}}],"#,
    r#""tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},"#,
    r#"{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}"#,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_a_pod_of_the_usual_size() {
        let text = manifest(17);
        assert!((2150..2300).contains(&text.len()), "{} bytes", text.len());
        let pod: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(pod["metadata"]["name"], "bench-pod-00017");
        assert_eq!(pod["spec"]["containers"][0]["name"], "server");
        assert_eq!(text.matches(NAME_PREFIX).count(), 1, "lists are counted by it");
    }
}
