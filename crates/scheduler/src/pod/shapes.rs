//! The shapes of all pods, each stored once.
//!
//! Two pods have the same shape if everything that decides about their feasible nodes is equal. Shapes are compared by
//! a keyed digest, so that a pod with a known shape costs only the digest.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Weak};

use corten_api::{Str, Value, meta};
use parking_lot::Mutex;

use super::requests::Requests;
use super::terms::{MOST_TERMS, PodTerms, Spread};
use super::volumes::Volumes;
use super::{Controller, HostPort, Shape};
use crate::node_selector::{PreferredTerm, RequiredNodes};
use crate::tolerations::Toleration;

/// The least number of shapes before unused ones are removed.
const SWEEP: usize = 256;

pub(crate) struct Shapes {
    keys: (RandomState, RandomState),
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    known: HashMap<(u64, u64), Weak<Shape>>,
    /// The shapes by id.
    ids: Vec<Weak<Shape>>,
    serial: u64,
    sweep_at: usize,
}

impl Default for Shapes {
    fn default() -> Shapes {
        Shapes { keys: (RandomState::new(), RandomState::new()), table: Mutex::default() }
    }
}

/// The fields of a pod spec that are part of the shape as they are.
const SPEC: [&str; 7] = [
    "schedulerName",
    "priority",
    "preemptionPolicy",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
];

impl Shapes {
    /// The shape of a pod.
    pub(crate) fn of(&self, pod: &Value) -> Arc<Shape> {
        let requests = Requests::of(pod);
        let mut digest = Digest(self.keys.0.build_hasher(), self.keys.1.build_hasher());
        digest_outline(pod, &requests, &mut digest);
        let outline = digest.both();
        digest_rest(pod, &mut digest);
        let digest = digest.both();
        let mut table = self.table.lock();
        if let Some(shape) = table.known.get(&digest).and_then(Weak::upgrade) {
            return shape;
        }
        let (id, serial) = table.next();
        let shape = Arc::new(Shape { id, serial, outline, ..shape(pod, requests) });
        table.known.insert(digest, Arc::downgrade(&shape));
        table.ids[id as usize] = Arc::downgrade(&shape);
        shape
    }
}

impl Table {
    /// A free id, and a new serial number.
    fn next(&mut self) -> (u32, u64) {
        self.serial += 1;
        if self.known.len() >= self.sweep_at.max(SWEEP) {
            self.known.retain(|_, shape| shape.strong_count() > 0);
            self.sweep_at = self.known.len() * 2;
        }
        let free = if self.ids.len() > self.known.len() + SWEEP {
            self.ids.iter().position(|shape| shape.strong_count() == 0)
        } else {
            None
        };
        let id = free.unwrap_or_else(|| {
            self.ids.push(Weak::new());
            self.ids.len() - 1
        });
        (u32::try_from(id).unwrap_or(u32::MAX), self.serial)
    }
}

/// Two digests of the same data, so that equal digests mean equal shapes with near certainty.
struct Digest(DefaultHasher, DefaultHasher);

impl Digest {
    fn both(&self) -> (u64, u64) {
        (self.0.finish(), self.1.finish())
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// The fields by which nodes can differ for a pod, whatever other pods there are.
fn digest_outline(pod: &Value, requests: &Requests, digest: &mut Digest) {
    requests.hash(digest);
    for list in ["initContainers", "containers"] {
        let containers = pod.items_at(&["spec", list]);
        containers.len().hash(digest);
        for container in containers {
            ["image", "restartPolicy"].iter().for_each(|field| write(container.get(field), digest));
            let taken = |port: &&Value| port.get("hostPort").is_some();
            let ports = container.items_at(&["ports"]).iter().filter(taken);
            ports.for_each(|port| write(Some(port), digest));
        }
    }
    let volumes = pod.items_at(&["spec", "volumes"]).iter();
    let images = volumes.filter_map(|volume| volume.at(&["image", "reference"]));
    images.clone().count().hash(digest);
    images.for_each(|image| write(Some(image), digest));
    for field in SPEC {
        write(pod.at(&["spec", field]), digest);
    }
}

/// The fields that other pods' terms refer to, and the claims.
fn digest_rest(pod: &Value, digest: &mut Digest) {
    meta::namespace(pod).hash(digest);
    for owner in pod.items_at(&["metadata", "ownerReferences"]) {
        if owner.bool_at(&["controller"]) == Some(true) {
            ["apiVersion", "kind", "name"].iter().for_each(|field| write(owner.get(field), digest));
        }
    }
    // Not the volumes as written: the token volume has a different name in every pod.
    Volumes::of(pod, meta::namespace(pod), meta::name(pod)).hash(digest);
    write(pod.at(&["metadata", "labels"]), digest);
}

fn write(value: Option<&Value>, hasher: &mut impl Hasher) {
    match value {
        None | Some(Value::Null) => 0u8.hash(hasher),
        Some(Value::Bool(value)) => (1u8, value).hash(hasher),
        Some(Value::Int(value)) => (2u8, value).hash(hasher),
        Some(Value::Float(value)) => (3u8, value.to_bits()).hash(hasher),
        Some(Value::String(text) | Value::Raw(text)) => (4u8, text.as_str()).hash(hasher),
        Some(Value::Array(items)) => {
            (5u8, items.len()).hash(hasher);
            items.iter().for_each(|item| write(Some(item), hasher));
        }
        Some(Value::Object(map)) => {
            (6u8, map.len()).hash(hasher);
            for (key, value) in map.iter() {
                key.as_str().hash(hasher);
                write(Some(value), hasher);
            }
        }
    }
}

fn shape(pod: &Value, requests: Requests) -> Shape {
    let none = Value::Null;
    let spec = pod.get("spec").unwrap_or(&none);
    let namespace = meta::namespace(pod);
    let labels = meta::labels(pod).cloned().unwrap_or_default();
    let spread = spec.items_at(&["topologySpreadConstraints"]);
    let preferred = ["affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
    Shape {
        id: 0,
        serial: 0,
        outline: (0, 0),
        namespace: namespace.into(),
        controller: controller(pod),
        scheduler: Str::new(spec.str_at(&["schedulerName"]).unwrap_or("default-scheduler")),
        priority: spec.int_at(&["priority"]).and_then(|priority| priority.try_into().ok()).unwrap_or(0),
        preempts: spec.str_at(&["preemptionPolicy"]) != Some("Never"),
        requests,
        ports: ports(pod),
        images: images(pod),
        nodes: RequiredNodes::of(spec),
        preferred_nodes: PreferredTerm::all(spec.items_at(&preferred)),
        tolerations: spec.items_at(&["tolerations"]).iter().map(Toleration::of).collect(),
        affinity: PodTerms::of(spec.at(&["affinity", "podAffinity"]), namespace),
        anti_affinity: PodTerms::of(spec.at(&["affinity", "podAntiAffinity"]), namespace),
        spread: spread
            .iter()
            .take(MOST_TERMS + 1)
            .map(|constraint| Spread::of(constraint, &labels))
            .collect(),
        volumes: Volumes::of(pod, namespace, meta::name(pod)),
        labels,
    }
}

fn controller(pod: &Value) -> Option<Controller> {
    let owners = pod.items_at(&["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true))?;
    let text = |key: &str| Str::new(owner.str_at(&[key]).unwrap_or_default());
    Some(Controller { api_version: text("apiVersion"), kind: text("kind"), name: text("name") })
}

/// The host ports of containers and sidecars.
fn ports(pod: &Value) -> Vec<HostPort> {
    let init = pod.items_at(&["spec", "initContainers"]).iter();
    let sidecars = init.filter(|container| container.str_at(&["restartPolicy"]) == Some("Always"));
    let containers = pod.items_at(&["spec", "containers"]).iter().chain(sidecars);
    let read = |port: &Value| {
        let number = u16::try_from(port.int_at(&["hostPort"])?).ok().filter(|number| *number > 0)?;
        let or = |key: &str, unless_said: &'static str| {
            let said = port.str_at(&[key]).filter(|said| !said.is_empty());
            said.map_or(Str::new_static(unless_said), Str::new)
        };
        Some(HostPort { address: or("hostIP", "0.0.0.0"), protocol: or("protocol", "TCP"), port: number })
    };
    containers.flat_map(|container| container.items_at(&["ports"])).filter_map(read).collect()
}

/// The images of a pod, by the names that nodes report.
fn images(pod: &Value) -> Vec<Str> {
    let of = |list: &str| pod.items_at(&["spec", list]).iter().filter_map(|c| c.str_at(&["image"]));
    let volumes = pod.items_at(&["spec", "volumes"]).iter();
    let mounted = volumes.filter_map(|volume| volume.str_at(&["image", "reference"]));
    of("initContainers").chain(of("containers")).chain(mounted).map(normalized).collect()
}

/// The image name with its tag.
fn normalized(image: &str) -> Str {
    if image.rfind(':') <= image.rfind('/') { format!("{image}:latest").into() } else { image.into() }
}

/// Results by shape.
#[derive(Debug, Default)]
pub(crate) struct Memo(Vec<(u64, bool)>);

impl Memo {
    /// The result for a shape, computed once.
    pub(crate) fn get(&mut self, shape: &Shape, find: impl FnOnce(&Shape) -> bool) -> bool {
        let at = shape.id as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, (0, false));
        }
        if self.0[at].0 != shape.serial {
            self.0[at] = (shape.serial, find(shape));
        }
        self.0[at].1
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn pods_of_one_template_share_their_shape() {
        let shapes = Shapes::default();
        let pod = |name: &str, app: &str| {
            shapes.of(&value!({"metadata": {"name": (name), "namespace": "n", "labels": {"app": (app)}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}], "volumes": [
                    {"name": (format!("kube-api-access-{name}")), "projected": {"sources": []}}]}}))
        };
        let (a, b, c) = (pod("a", "web"), pod("b", "web"), pod("c", "db"));
        assert!(Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &c));
        assert_ne!((a.id, a.serial), (c.id, c.serial));
        assert_eq!(a.images, ["nginx:latest"]);
        assert_eq!(a.outline, c.outline, "labels make no difference to nodes");
    }

    #[test]
    fn fields_that_nodes_depend_on_change_the_outline() {
        let shapes = Shapes::default();
        let outline = |field: &str, value: Value| {
            let mut pod = value!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
            pod.set(&["spec", field], value);
            shapes.of(&pod).outline
        };
        let plain = outline("hostname", value!("p"));
        let claims = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        assert_eq!(outline("volumes", claims), plain);
        let container = |field: &str, value: Value| {
            let mut container = value!({"name": "c"});
            container.set(&[field], value);
            value!([(container)])
        };
        let different = [
            outline("priority", value!(1)),
            outline("preemptionPolicy", value!("Never")),
            outline("schedulerName", value!("another")),
            outline("nodeSelector", value!({"disk": "ssd"})),
            outline("tolerations", value!([{"operator": "Exists"}])),
            outline("containers", container("image", value!("nginx"))),
            outline("containers", container("ports", value!([{"hostPort": 80}]))),
            outline("containers", container("resources", value!({"requests": {"cpu": "1"}}))),
        ];
        let distinct: std::collections::HashSet<_> = different.iter().chain([&plain]).collect();
        assert_eq!(distinct.len(), different.len() + 1);
    }

    #[test]
    fn images_have_tags() {
        for (image, expected) in [
            ("a", "a:latest"),
            ("a:1", "a:1"),
            ("host:5000/a", "host:5000/a:latest"),
            ("host:5000/a@sha256:0", "host:5000/a@sha256:0"),
        ] {
            assert_eq!(normalized(image), expected);
        }
    }
}
