//! Starts one container: its image, its configuration, itself, its hook.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Map, Str, Value};
use corten_client::{Error, Key, Kind, kinds};
use corten_container::{AuthConfig, Mount, PodSandboxConfig};
use corten_reconcile::EventKind;

use crate::config::{ContainerParts, container_config};
use crate::downward::Place;
use crate::environment::{Sources, environment};
use crate::hooks;
use crate::kill::{self, Ending};
use crate::machine::Machine;
use crate::node;
use crate::observed::Observed;
use crate::pod::{Container, HostNamespace, Pod, Role};
use crate::runtime_class;
use crate::status::Waiting;
use crate::volumes::Mounted;
use crate::watched::Which;
use crate::worker::Orders;

/// What a container is started into.
pub(crate) struct Surroundings<'a> {
    pub(crate) sandbox_id: &'a str,
    pub(crate) sandbox: &'a PodSandboxConfig,
    pub(crate) pod_ips: &'a [String],
    pub(crate) observed: &'a Observed,
    pub(crate) mounted: &'a Mounted,
    pub(crate) credentials: &'a [AuthConfig],
    pub(crate) orders: &'a Orders,
}

/// Starts a container, or says what it waits for.
pub(crate) async fn start(
    machine: &Machine,
    pod: &Pod,
    container: &Container,
    around: &Surroundings<'_>,
) -> Result<(), Waiting> {
    let teller = machine.teller(pod);
    let tell = |kind, reason, message: String| teller.of_container(container, kind, reason, message);
    let failed = |reason: &str, message: String| {
        tell(EventKind::Warning, "Failed", format!("Error: {message}"));
        Waiting { reason: reason.to_owned(), message }
    };
    let present =
        match machine.images.ensure(pod, container, around.sandbox, around.credentials, &teller).await {
            Ok(present) => present,
            Err(waiting) => {
                tell(EventKind::Warning, "Failed", format!("Error: {}", waiting.reason));
                return Err(waiting);
            }
        };
    let attempt = around.observed.latest(&container.name).map_or(0, |status| status.metadata.attempt + 1);
    let place = place(machine, pod, around);
    let config_error = |why: String| failed("CreateContainerConfigError", why);
    let sources = sources(machine, pod, container).await.map_err(|e| config_error(e.to_string()))?;
    let environment = environment(pod, container, &sources, &place).map_err(config_error)?;
    let recursive_read_only = has_recursive_read_only(machine, pod, container).await.map_err(config_error)?;
    let parts = ContainerParts {
        attempt,
        image: &present.image,
        image_ref: &present.reference,
        environment,
        volume: around.mounted,
        mounts: machine.volumes.own_mounts(pod, container, around.pod_ips).map_err(config_error)?,
        target: target(container, around.observed).map_err(config_error)?,
        recursive_read_only,
    };
    let config = container_config(pod, container, parts, &machine.config).map_err(config_error)?;
    let runtime: &Arc<_> = &machine.runtime;
    let id = runtime
        .create_container(around.sandbox_id, &config, around.sandbox)
        .await
        .map_err(|e| failed("CreateContainerError", e.to_string()))?;
    tell(EventKind::Normal, "Created", "Container created".to_owned());
    // Names stay the same when ids do not, so that equal events are counted.
    let started = runtime.start_container(&id).await;
    started.map_err(|e| failed("RunContainerError", e.to_string().replace(&id, &container.name)))?;
    tell(EventKind::Normal, "Started", "Container started".to_owned());
    post_start(machine, pod, container, &id, around).await
}

/// Whether the pod's handler makes mounts read-only with all below them; asked only if a mount wants to know.
async fn has_recursive_read_only(
    machine: &Machine,
    pod: &Pod,
    container: &Container,
) -> Result<bool, String> {
    let mut mounts = container.tree.items_at(&["volumeMounts"]).iter();
    let wants = |mode: &str| !matches!(mode, "" | "Disabled");
    if !mounts.any(|mount| mount.str_at(&["recursiveReadOnly"]).is_some_and(wants)) {
        return Ok(false);
    }
    let handler = runtime_class::handler(machine, pod).await?;
    let status = machine.runtime.status().await.map_err(|error| error.to_string())?;
    let found = status.handlers.iter().find(|known| known.name == handler);
    Ok(found.is_some_and(|handler| handler.recursive_read_only_mounts))
}

/// A container whose hook fails is ended again.
async fn post_start(
    machine: &Machine,
    pod: &Pod,
    container: &Container,
    id: &str,
    around: &Surroundings<'_>,
) -> Result<(), Waiting> {
    let Some(hook) = container.tree.at(&["lifecycle", "postStart"]) else { return Ok(()) };
    let pod_ip = around.pod_ips.first().map_or("", String::as_str);
    let hook = hooks::run(machine, pod, container, id, hook, pod_ip);
    // Nobody waits for the hook of a pod that is to end.
    let Some(Err(message)) = around.orders.unless_ending(hook).await else { return Ok(()) };
    let teller = machine.teller(pod);
    teller.of_container(container, EventKind::Warning, "FailedPostStartHook", "PostStartHook failed");
    if let Ok(status) = machine.runtime.container_status(id).await {
        let ending = Ending { message: "FailedPostStartHook", reason: None, grace: None };
        if let Err(error) = kill::container(machine, pod, &status, pod_ip, ending).await {
            tracing::warn!(pod = %pod.key(), %error, "container whose hook failed could not be stopped");
        }
    }
    Err(Waiting { reason: "PostStartHookError".to_owned(), message })
}

/// What a container may learn of where it is.
fn place(machine: &Machine, pod: &Pod, around: &Surroundings<'_>) -> Place {
    let on_host = pod.uses_host(HostNamespace::Network);
    let pod_ips = if on_host { machine.host_ips.clone() } else { around.pod_ips.to_vec() };
    Place { host_ips: machine.host_ips.clone(), pod_ips, allocatable: node::allocatable(machine) }
}

/// The container an ephemeral one looks into; it has to run.
fn target(container: &Container, observed: &Observed) -> Result<Option<String>, String> {
    let named = container.tree.str_at(&["targetContainerName"]).filter(|name| !name.is_empty());
    let Some(name) = named.filter(|_| container.role == Role::Ephemeral) else { return Ok(None) };
    match observed.latest(name) {
        Some(status) => Ok(Some(status.id.clone())),
        None => Err(format!("unable to find target container {name}")),
    }
}

/// Fetches what a container's variables name.
async fn sources(machine: &Machine, pod: &Pod, container: &Container) -> Result<Sources, Error> {
    let mut sources = Sources { services: services(machine, pod), ..Sources::default() };
    let of = |references: [&str; 2]| -> Vec<Str> {
        let from =
            container.tree.items_at(&["envFrom"]).iter().filter_map(|f| f.str_at(&[references[0], "name"]));
        let keys = container.tree.items_at(&["env"]).iter();
        let keys = keys.filter_map(|v| v.str_at(&["valueFrom", references[1], "name"]));
        from.chain(keys).map(Str::new).collect()
    };
    for name in of(["configMapRef", "configMapKeyRef"]) {
        let found = named(machine, Which::ConfigMap, pod, &name).await?;
        sources.config_maps.insert(name, found.map(|object| texts(&object, "data", str::to_owned)));
    }
    for name in of(["secretRef", "secretKeyRef"]) {
        let found = named(machine, Which::Secret, pod, &name).await?;
        sources.secrets.insert(name, found.map(|object| texts(&object, "data", decoded)));
    }
    Ok(sources)
}

/// A config map or secret of the pod's namespace; none if there is none.
pub(crate) async fn named(
    machine: &Machine,
    which: Which,
    pod: &Pod,
    name: &str,
) -> Result<Option<Value>, Error> {
    machine.watched.get(machine, which, &Key::new(pod.namespace(), name)).await
}

/// An object of the pod's namespace; none if there is none.
pub(crate) async fn fetch(
    machine: &Machine,
    kind: &Kind,
    pod: &Pod,
    name: &str,
) -> Result<Option<Value>, Error> {
    match machine.client.get(kind, &Key::new(pod.namespace(), name)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn texts(object: &Value, member: &str, read: fn(&str) -> String) -> BTreeMap<Str, String> {
    let entries = object.get(member).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    entries.filter_map(|(key, value)| Some((key.clone(), read(value.as_str()?)))).collect()
}

fn decoded(text: &str) -> String {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The services of the pod's namespace if it wants them, and the API server's in any case.
fn services(machine: &Machine, pod: &Pod) -> Vec<Value> {
    let cache = machine.caches.of(&kinds::SERVICES);
    let mut found = Vec::new();
    if pod.tree().bool_at(&["spec", "enableServiceLinks"]).unwrap_or(true) {
        found.extend(cache.list(pod.namespace()).iter().map(|service| service.tree()));
    }
    if pod.namespace() != "default" || found.is_empty() {
        found.extend(cache.get(&Key::new("default", "kubernetes")).map(|service| service.tree()));
    }
    found
}

/// What is mounted into every container: nothing is left of it when the container goes.
pub(crate) fn own_mount(container_path: &str, host_path: String) -> Mount {
    Mount { container_path: container_path.to_owned(), host_path, ..Mount::default() }
}
