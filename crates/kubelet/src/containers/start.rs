//! Starts one container: image, configuration, container, postStart hook.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Map, Str, Value};
use corten_client::{Error, Key, kinds};
use corten_container::{AuthConfig, ContainerConfig, PodSandboxConfig};
use corten_reconcile::EventKind;

use crate::containers::downward_api::NodeFacts;
use crate::containers::environment::{EnvironmentError, Sources, environment};
use crate::containers::hooks;
use crate::containers::images::Present;
use crate::containers::kill::{self, KillOptions};
use crate::containers::observed::Observed;
use crate::containers::runtime_class::{self, RuntimeClassError};
use crate::containers::runtime_config::{ConfigError, ContainerParts, check_container, container_config};
use crate::kubelet::Kubelet;
use crate::node;
use crate::objects::named_objects::ObjectKind;
use crate::pod::{Container, HostNamespace, Pod, Role};
use crate::pod_workers::work::PodWork;
use crate::status::Waiting;
use crate::volumes::{Mounted, VolumeMountError};

/// A container whose configuration cannot be made. The texts are shown in its status.
#[derive(Debug, thiserror::Error)]
enum CreateConfigError {
    #[error(transparent)]
    Api(#[from] Error),
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    RuntimeClass(#[from] RuntimeClassError),
    #[error(transparent)]
    Runtime(#[from] corten_container::Error),
    #[error(transparent)]
    Files(#[from] std::io::Error),
    #[error("unable to find target container {0}")]
    NoTarget(String),
    #[error(transparent)]
    VolumeMount(#[from] VolumeMountError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The sandbox and the prepared resources that a container is started with.
pub(crate) struct StartContext<'a> {
    pub(crate) sandbox_id: &'a str,
    pub(crate) sandbox: &'a PodSandboxConfig,
    pub(crate) pod_ips: &'a [String],
    pub(crate) observed: &'a Observed,
    pub(crate) mounted: &'a Mounted,
    pub(crate) credentials: &'a [AuthConfig],
    pub(crate) work: &'a PodWork,
}

/// Pulls a container's image, creates and starts the container, and runs its postStart hook. An error is the reason
/// why the container waits.
pub(crate) async fn start_container(
    kubelet: &Kubelet,
    pod: &Pod,
    container: &Container,
    context: &StartContext<'_>,
) -> Result<(), Waiting> {
    let events = kubelet.api.pod_events(pod);
    let record = |kind, reason, message: String| events.of_container(container, kind, reason, message);
    let failed = |reason: &str, message: String| {
        tracing::warn!(pod = %pod.key(), container = %container.name, reason, err = message, "cannot start container; retrying after its backoff");
        record(EventKind::Warning, "Failed", format!("Error: {message}"));
        Waiting { reason: reason.to_owned(), message }
    };
    let present = match kubelet
        .containers
        .images
        .ensure(pod, container, context.sandbox, context.credentials, &events)
        .await
    {
        Ok(present) => present,
        Err(waiting) => {
            record(EventKind::Warning, "Failed", format!("Error: {}", waiting.reason));
            return Err(waiting);
        }
    };
    let config = create_config(kubelet, pod, container, context, &present).await;
    let config = config.map_err(|err| failed("CreateContainerConfigError", err.to_string()))?;
    let runtime: &Arc<_> = &kubelet.containers.runtime;
    let id = runtime
        .create_container(context.sandbox_id, &config, context.sandbox)
        .await
        .map_err(|e| failed("CreateContainerError", e.to_string()))?;
    record(EventKind::Normal, "Created", "Container created".to_owned());
    // Names stay the same when ids do not, so that equal events are counted.
    let started = runtime.start_container(&id).await;
    started.map_err(|e| failed("RunContainerError", e.to_string().replace(&id, &container.name)))?;
    record(EventKind::Normal, "Started", "Container started".to_owned());
    post_start(kubelet, pod, container, &id, context).await
}

/// Prepares the files and volumes of a container, and computes its runtime configuration.
async fn create_config(
    kubelet: &Kubelet,
    pod: &Pod,
    container: &Container,
    context: &StartContext<'_>,
    present: &Present,
) -> Result<ContainerConfig, CreateConfigError> {
    let attempt = context.observed.latest(&container.name).map_or(0, |status| status.metadata.attempt + 1);
    let sources = sources(kubelet, pod, container).await?;
    let environment = environment(pod, container, &sources, &node_facts(kubelet, pod, context))?;
    let recursive_read_only = has_recursive_read_only(kubelet, pod, container).await?;
    let mounts = kubelet.volumes.own_mounts(pod, container, context.pod_ips)?;
    let target = target(container, context.observed)?;
    check_container(pod, container, &present.image)?;
    let volume_mounts = context.mounted.resolve(container, &environment)?;
    let parts = ContainerParts {
        attempt,
        image_ref: &present.reference,
        environment,
        volume_mounts: &volume_mounts,
        mounts,
        target,
        recursive_read_only,
    };
    Ok(container_config(pod, container, parts, &kubelet.containers.config)?)
}

/// Returns true if the pod's runtime handler supports recursive read-only mounts. Asked only if a mount requests one.
async fn has_recursive_read_only(
    kubelet: &Kubelet,
    pod: &Pod,
    container: &Container,
) -> Result<bool, CreateConfigError> {
    let mut mounts = container.tree.items_at(&["volumeMounts"]).iter();
    let wants = |mode: &str| !matches!(mode, "" | "Disabled");
    if !mounts.any(|mount| mount.str_at(&["recursiveReadOnly"]).is_some_and(wants)) {
        return Ok(false);
    }
    let handler = runtime_class::handler(&kubelet.api, pod).await?;
    let status = kubelet.containers.runtime.status().await?;
    let found = status.handlers.iter().find(|known| known.name == handler);
    Ok(found.is_some_and(|handler| handler.recursive_read_only_mounts))
}

/// Runs the postStart hook. A container whose hook fails is stopped.
async fn post_start(
    kubelet: &Kubelet,
    pod: &Pod,
    container: &Container,
    id: &str,
    context: &StartContext<'_>,
) -> Result<(), Waiting> {
    let Some(hook) = container.tree.at(&["lifecycle", "postStart"]) else { return Ok(()) };
    let pod_ip = context.pod_ips.first().map_or("", String::as_str);
    let hook = hooks::run(kubelet, pod, container, id, hook, pod_ip);
    // The hook of a pod that is to terminate is not waited for.
    let Some(Err(err)) = context.work.unless_terminating(hook).await else { return Ok(()) };
    let events = kubelet.api.pod_events(pod);
    events.of_container(container, EventKind::Warning, "FailedPostStartHook", "PostStartHook failed");
    if let Ok(status) = kubelet.containers.runtime.container_status(id).await {
        let options = KillOptions { message: "FailedPostStartHook", reason: None, grace: None };
        if let Err(err) = kill::kill_container(kubelet, pod, &status, pod_ip, options).await {
            let container = container.name.as_str();
            tracing::warn!(pod = %pod.key(), container, %err, "cannot stop container after failed postStart hook");
        }
    }
    Err(Waiting { reason: "PostStartHookError".to_owned(), message: err.to_string() })
}

/// The facts about the node that the downward API may refer to.
fn node_facts(kubelet: &Kubelet, pod: &Pod, context: &StartContext<'_>) -> NodeFacts {
    let on_host = pod.uses_host(HostNamespace::Network);
    let pod_ips = if on_host { kubelet.node.addresses.clone() } else { context.pod_ips.to_vec() };
    NodeFacts { host_ips: kubelet.node.addresses.clone(), pod_ips, allocatable: node::allocatable(kubelet) }
}

/// The id of an ephemeral container's target, which must exist.
fn target(container: &Container, observed: &Observed) -> Result<Option<String>, CreateConfigError> {
    let named = container.tree.str_at(&["targetContainerName"]).filter(|name| !name.is_empty());
    let Some(name) = named.filter(|_| container.role == Role::Ephemeral) else { return Ok(None) };
    match observed.latest(name) {
        Some(status) => Ok(Some(status.id.clone())),
        None => Err(CreateConfigError::NoTarget(name.to_owned())),
    }
}

/// Reads the objects that a container's variables refer to.
async fn sources(kubelet: &Kubelet, pod: &Pod, container: &Container) -> Result<Sources, Error> {
    let mut sources = Sources { services: services(kubelet, pod), ..Sources::default() };
    let of = |references: [&str; 2]| -> Vec<Str> {
        let from =
            container.tree.items_at(&["envFrom"]).iter().filter_map(|f| f.str_at(&[references[0], "name"]));
        let keys = container.tree.items_at(&["env"]).iter();
        let keys = keys.filter_map(|v| v.str_at(&["valueFrom", references[1], "name"]));
        from.chain(keys).map(Str::new).collect()
    };
    for name in of(["configMapRef", "configMapKeyRef"]) {
        let found = kubelet.named_object(ObjectKind::ConfigMap, pod, &name).await?;
        sources.config_maps.insert(name, found.map(|object| texts(&object, "data", str::to_owned)));
    }
    for name in of(["secretRef", "secretKeyRef"]) {
        let found = kubelet.named_object(ObjectKind::Secret, pod, &name).await?;
        sources.secrets.insert(name, found.map(|object| texts(&object, "data", decoded)));
    }
    Ok(sources)
}

fn texts(object: &Value, member: &str, read: fn(&str) -> String) -> BTreeMap<Str, String> {
    let entries = object.get(member).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    entries.filter_map(|(key, value)| Some((key.clone(), read(value.as_str()?)))).collect()
}

fn decoded(text: &str) -> String {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The services of the pod's namespace if `enableServiceLinks` is set, and the API server's in any case.
fn services(kubelet: &Kubelet, pod: &Pod) -> Vec<Value> {
    let cache = kubelet.api.caches.of(&kinds::SERVICES);
    let mut found = Vec::new();
    if pod.tree().bool_at(&["spec", "enableServiceLinks"]).unwrap_or(true) {
        found.extend(cache.list(pod.namespace()).iter().map(|service| service.tree()));
    }
    if pod.namespace() != "default" || found.is_empty() {
        found.extend(cache.get(&Key::new("default", "kubernetes")).map(|service| service.tree()));
    }
    found
}
