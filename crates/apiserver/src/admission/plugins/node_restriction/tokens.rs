//! The tokens that a node may request for its pods: for audiences of the tokens that they mount.

use corten_api::{Status, Value, meta};
use corten_auth::Attributes as Question;

use super::{Outcome, Refusal};
use crate::admission::{Attributes, lookup, pod};
use crate::authorization;
use crate::call::Backend;

pub(super) fn token(attributes: &Attributes<'_>, node: &str, request: &Value) -> Outcome {
    let bound = request.at(&["spec", "boundObjectRef"]);
    let field = |name: &str| bound.and_then(|b| b.str_at(&[name])).unwrap_or_default();
    if field("apiVersion") != "v1" || field("kind") != "Pod" || field("name").is_empty() {
        return Err("node requested token not bound to a pod".into());
    }
    let uid = field("uid");
    if uid.is_empty() {
        return Err("node requested token with a pod binding without a uid".into());
    }
    let (namespace, name) = (attributes.namespace(), field("name"));
    let Some(found) = lookup::get(attributes.backend(), ("", "pods"), namespace, name) else {
        return Err(Refusal::Other(Status::not_found("", "pods", name)));
    };
    let pod = found.tree();
    if uid != meta::uid(&pod) {
        return Err(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        )
        .into());
    }
    if pod::node_name(&pod) != node {
        return Err("node requested token bound to a pod scheduled on a different node".into());
    }
    let audience = match request.items_at(&["spec", "audiences"]) {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Err("node may only request 0 or 1 audiences".into()),
    };
    let mounts = mounts_audience(attributes.backend(), namespace, &pod, audience)
        .map_err(|why| format!("error validating audience {audience:?}: {why}"))?;
    let verb = "request-serviceaccounts-token-audience";
    if mounts || is_authorized(attributes, verb, audience, attributes.name(None)) {
        return Ok(());
    }
    let user = &attributes.call.user.name;
    Err(format!("{user} is not authorized to request tokens for audience {audience:?}").into())
}

/// True if a pod mounts tokens for an audience: in a volume of its own, or through a CSI driver.
fn mounts_audience(backend: &Backend, namespace: &str, pod: &Value, audience: &str) -> Result<bool, String> {
    let mut errors = Vec::new();
    for volume in pod.items_at(&["spec", "volumes"]) {
        let token = |source: &Value| {
            source.get("serviceAccountToken").map(|t| t.str_at(&["audience"]).unwrap_or_default().to_owned())
        };
        if pod::projections(volume).filter_map(token).any(|mounted| mounted == audience) {
            return Ok(true);
        }
        match driver(backend, namespace, pod, volume).and_then(|name| requests(backend, name, audience)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => errors.push(why),
        }
    }
    match errors.len() {
        0 => Ok(false),
        1 => Err(errors.remove(0)),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}

/// True if a CSI driver requests tokens for an audience.
fn requests(backend: &Backend, driver: Option<String>, audience: &str) -> Result<bool, String> {
    let Some(name) = driver else { return Ok(false) };
    let Some(driver) = lookup::get(backend, ("storage.k8s.io", "csidrivers"), "", &name) else {
        return Err(Status::not_found("storage.k8s.io", "csidrivers", &name).message);
    };
    let wanted = driver.parsed().items_at(&["spec", "tokenRequests"]);
    Ok(wanted.iter().any(|request| request.str_at(&["audience"]).unwrap_or_default() == audience))
}

/// Migrated volume types, and their CSI drivers.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

fn migrated(source: &Value) -> Option<String> {
    let driver = MIGRATED.into_iter().find(|(kind, _)| source.get(kind).is_some());
    driver.map(|(_, driver)| driver.to_owned())
}

/// The CSI driver of a pod's volume, if it has one.
fn driver(backend: &Backend, namespace: &str, pod: &Value, volume: &Value) -> Result<Option<String>, String> {
    let claim = match volume.at(&["ephemeral", "volumeClaimTemplate"]) {
        Some(_) => Some(format!("{}-{}", meta::name(pod), pod::name(volume))),
        None => volume.str_at(&["persistentVolumeClaim", "claimName"]).map(str::to_owned),
    };
    let Some(claim) = claim else {
        let own = volume.str_at(&["csi", "driver"]).map(str::to_owned);
        return Ok(own.or_else(|| migrated(volume)));
    };
    let Some(found) = lookup::get(backend, ("", "persistentvolumeclaims"), namespace, &claim) else {
        return Err(Status::not_found("", "persistentvolumeclaims", &claim).message);
    };
    let found = found.tree();
    let name = found.str_at(&["spec", "volumeName"]).unwrap_or_default();
    let Some(bound) = lookup::get(backend, ("", "persistentvolumes"), "", name) else {
        return Err(Status::not_found("", "persistentvolumes", name).message);
    };
    let bound = bound.tree();
    let spec = bound.get("spec").unwrap_or(&Value::Null);
    Ok(spec.str_at(&["csi", "driver"]).map(str::to_owned).or_else(|| migrated(spec)))
}

/// True if the node has an explicit permission for credentials that its pods do not mount.
pub(super) fn is_authorized(attributes: &Attributes<'_>, verb: &str, resource: &str, name: &str) -> bool {
    let question = Question {
        namespace: attributes.namespace(),
        version: &attributes.call.served.resource.version,
        name,
        ..Question::resource(&attributes.call.user, verb, attributes.resource().0, resource)
    };
    authorization::authorize(attributes.backend(), &question).is_allowed()
}
