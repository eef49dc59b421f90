//! ServiceAccount: every pod runs as a service account that exists, with its token, the cluster's CA and its
//! namespace mounted where clients look for them, and with the account's image pull secrets.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Status, Value, meta, value};

use super::{Admit, CREATE, Plugin, UPDATE, Validate, Verdict};
use crate::admission::{Attributes, Operation, lookup, pod};
use crate::object::Object;
use crate::random;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "ServiceAccount",
    operations: CREATE | UPDATE,
    admit: Admit::Later(admit),
    validate: Validate::Now(validate),
};

const DEFAULT: &str = "default";
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour and seven seconds: the odd value marks tokens that the plugin requested, for clients that may not renew them.
const TOKEN_SECONDS: i64 = 3607;
/// The time that a request waits for the namespace's default account, which a controller creates.
const DEFAULT_WAIT: Duration = Duration::from_millis(1500);

fn admit<'a>(attributes: &'a Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
    if !attributes.is_object("", "pods") || !attributes.creates() {
        return Box::pin(std::future::ready(Ok(())));
    }
    Box::pin(complete(attributes, object))
}

async fn complete(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
    // A kubelet compares a mirror pod with its static pod: nothing may be added to it.
    if !pod::is_mirror(pod) {
        if account_name(pod).is_empty() {
            pod.set(&["spec", "serviceAccountName"], DEFAULT);
            pod.set(&["spec", "serviceAccount"], DEFAULT);
        }
        wait_for_default(attributes, account_name(pod)).await;
        let account = find(attributes, pod)?;
        let account = account.parsed();
        if automounts(account, pod) {
            mount_token(pod, &random::name_suffix());
        }
        add_pull_secrets(account, pod);
    }
    validate(attributes, Some(pod))
}

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(pod) = object.filter(|_| attributes.resource() == ("", "pods")) else { return Ok(()) };
    let attaches = match (attributes.operation, attributes.subresource) {
        (Operation::Create, "") => false,
        (Operation::Update, "ephemeralcontainers") => true,
        _ => return Ok(()),
    };
    let refuse = |why: String| attributes.forbidden(Some(pod), why);
    if !attaches && pod::is_mirror(pod) {
        return check_mirror(pod).map_err(|why| refuse(why.to_owned()));
    }
    if account_name(pod).is_empty() {
        let name = meta::name(pod);
        return Err(refuse(format!(
            "no service account specified for pod {}/{name}",
            attributes.namespace()
        )));
    }
    let account = find(attributes, pod)?;
    let account = account.parsed();
    if !enforces_secrets(account) {
        return Ok(());
    }
    if attaches {
        return limit_environment(account, pod, "ephemeralContainers", "ephemeral container")
            .map_err(Status::unexplained);
    }
    limit_secrets(account, pod).map_err(refuse)
}

fn account_name(pod: &Value) -> &str {
    pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default()
}

fn find(attributes: &Attributes<'_>, pod: &Value) -> Result<Arc<Object>, Status> {
    let (namespace, name) = (attributes.namespace(), account_name(pod));
    lookup::get(attributes.backend(), ("", "serviceaccounts"), namespace, name).ok_or_else(|| {
        let missing = Status::not_found("", "serviceaccount", name);
        let why = format!("error looking up service account {namespace}/{name}: {}", missing.message);
        attributes.forbidden(Some(pod), why)
    })
}

/// Waits for the default account, which may not exist yet in a new namespace.
async fn wait_for_default(attributes: &Attributes<'_>, name: &str) {
    let backend = attributes.backend();
    let Some(cache) = backend.catalog.cache("", "serviceaccounts").filter(|_| name == DEFAULT) else {
        return;
    };
    let exists = || cache.get(attributes.namespace(), name).is_some();
    if exists() {
        return;
    }
    let mut progress = cache.progress();
    let appears = async { while !exists() && progress.changed().await.is_ok() {} };
    // After a timeout the lookup finds no account.
    let _ = backend.clock.timeout(DEFAULT_WAIT, appears).await;
}

/// True if the token is mounted: the pod's setting takes precedence over the account's.
fn automounts(account: &Value, pod: &Value) -> bool {
    let own = pod.bool_at(&["spec", "automountServiceAccountToken"]);
    own.or_else(|| account.bool_at(&["automountServiceAccountToken"])).unwrap_or(true)
}

/// Mounts a token in every container that has no mount at its path.
pub(super) fn mount_token(pod: &mut Value, suffix: &str) {
    let volumes = pod.items_at(&["spec", "volumes"]);
    let existing = volumes.iter().map(pod::name).find(|name| name.starts_with(VOLUME_PREFIX));
    let (name, exists) = match existing {
        Some(name) => (name.to_owned(), true),
        None => (format!("{VOLUME_PREFIX}{suffix}"), false),
    };
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = pod.get_mut("spec").and_then(|s| s.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container.make_object().entry("volumeMounts").make_array();
            if mounts.iter().any(|m| m.str_at(&["mountPath"]) == Some(MOUNT_PATH)) {
                continue;
            }
            mounts.push(value!({"name": (name.as_str()), "readOnly": true, "mountPath": MOUNT_PATH}));
            mounted = true;
        }
    }
    if mounted && !exists {
        let spec = pod.make_object().entry("spec").make_object();
        spec.entry("volumes").make_array().push(token_volume(&name));
    }
}

/// A token, the cluster's CA and the namespace, in one volume.
fn token_volume(name: &str) -> Value {
    value!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}})
}

/// Adds the account's image pull secrets to a pod without any.
pub(super) fn add_pull_secrets(account: &Value, pod: &mut Value) {
    let secrets = account.items_at(&["imagePullSecrets"]);
    if secrets.is_empty() || !pod.items_at(&["spec", "imagePullSecrets"]).is_empty() {
        return;
    }
    let references: Vec<Value> = secrets.iter().map(|s| value!({"name": (pod::name(s))})).collect();
    pod.set(&["spec", "imagePullSecrets"], references);
}

/// Refuses references of mirror pods: a mirror pod must not give its node access to objects.
pub(super) fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if corten_registry::references_secrets(pod) {
        return Err("a mirror pod may not reference secrets");
    }
    let volumes = pod.items_at(&["spec", "volumes"]);
    if volumes.iter().flat_map(pod::projections).any(|s| s.get("serviceAccountToken").is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn enforces_secrets(account: &Value) -> bool {
    matches!(pod::annotation(account, ENFORCE_SECRETS), Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// The secrets that an account lists.
fn listed<'a>(account: &'a Value, list: &str) -> HashSet<&'a str> {
    account.items_at(&[list]).iter().map(pod::name).collect()
}

/// Refuses secrets that an account with limited secrets does not list.
pub(super) fn limit_secrets(account: &Value, pod: &Value) -> Result<(), String> {
    let (owner, secrets) = (meta::name(account), listed(account, "secrets"));
    for volume in pod.items_at(&["spec", "volumes"]) {
        let Some(secret) = volume.get("secret") else { continue };
        let secret = secret.str_at(&["secretName"]).unwrap_or_default();
        if !secrets.contains(secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret"
            ));
        }
    }
    limit_environment(account, pod, "initContainers", "init container")?;
    limit_environment(account, pod, "containers", "container")?;
    let pull_secrets = listed(account, "imagePullSecrets");
    for (i, secret) in pod.items_at(&["spec", "imagePullSecrets"]).iter().map(pod::name).enumerate() {
        if !pull_secrets.contains(secret) {
            return Err(format!(
                "imagePullSecrets[{i}].name=\"{secret}\" is not allowed because service account {owner} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// `limit_secrets` for the environment of some containers.
fn limit_environment(account: &Value, pod: &Value, list: &str, called: &str) -> Result<(), String> {
    let (owner, secrets) = (meta::name(account), listed(account, "secrets"));
    for container in pod.items_at(&["spec", list]) {
        let name = pod::name(container);
        for variable in container.items_at(&["env"]) {
            let Some(key) = variable.at(&["valueFrom", "secretKeyRef"]) else { continue };
            let secret = pod::name(key);
            if !secrets.contains(secret) {
                return Err(format!(
                    "{called} {name} with envVar {} referencing secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret",
                    pod::name(variable)
                ));
            }
        }
        for source in container.items_at(&["envFrom"]) {
            let Some(secret) = source.get("secretRef").map(pod::name) else { continue };
            if !secrets.contains(secret) {
                return Err(format!(
                    "{called} {name} with envFrom referencing secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
