//! The graph of the objects that each node may read.
//!
//! A node may read its pods, the objects that they reference, the volumes bound to their claims, and the secrets of those
//! volumes. Edges are stored so that every query is a few lookups, whatever the number of pods that reference an object.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use corten_api::{Str, Value};

use super::references;

/// The kinds of objects in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VertexKind {
    ConfigMap,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCertificateRequest,
    ResourceClaim,
    ResourceSlice,
    Secret,
    ServiceAccount,
    VolumeAttachment,
}

/// One object, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Vertex {
    pub kind: VertexKind,
    /// Empty for cluster-scoped objects.
    pub namespace: Str,
    pub name: Str,
}

impl Vertex {
    pub fn new(kind: VertexKind, namespace: &str, name: &str) -> Vertex {
        Vertex { kind, namespace: namespace.into(), name: name.into() }
    }
}

#[derive(Debug, Default)]
pub struct Graph {
    /// The node of an object that belongs to exactly one, with the object's references.
    placed: HashMap<Vertex, Placed>,
    /// The number of a node's pods that reference an object.
    named: HashMap<Vertex, HashMap<Str, usize>>,
    /// The bound volumes.
    volumes: HashMap<Str, Volume>,
    /// The volumes that reference a secret.
    volumes_of_secret: HashMap<Vertex, Vec<Str>>,
}

#[derive(Debug)]
struct Placed {
    node: Str,
    names: Vec<Vertex>,
}

#[derive(Debug)]
struct Volume {
    claim: Vertex,
    secrets: Vec<Vertex>,
}

impl Graph {
    /// True if a node may read an object.
    pub fn reaches(&self, node: &str, wanted: &Vertex) -> bool {
        if self.placed.get(wanted).is_some_and(|placed| placed.node == node) {
            return true;
        }
        if self.named.get(wanted).is_some_and(|nodes| nodes.contains_key(node)) {
            return true;
        }
        match wanted.kind {
            VertexKind::PersistentVolume => self.volume_reaches(node, &wanted.name),
            VertexKind::Secret => self
                .volumes_of_secret
                .get(wanted)
                .is_some_and(|volumes| volumes.iter().any(|volume| self.volume_reaches(node, volume))),
            _ => false,
        }
    }

    fn volume_reaches(&self, node: &str, volume: &str) -> bool {
        let nodes = self.volumes.get(volume).and_then(|volume| self.named.get(&volume.claim));
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    /// Sets a pod's newest state; `None` after its deletion.
    pub fn set_pod(&mut self, namespace: &str, name: &str, pod: Option<&Value>) {
        let names = pod.map(|pod| references::of_pod(pod, namespace, name)).unwrap_or_default();
        let node = pod.and_then(|pod| pod.str_at(&["spec", "nodeName"])).unwrap_or_default();
        self.place(Vertex::new(VertexKind::Pod, namespace, name), node, names);
    }

    /// Sets the newest state of an object that references only its node; `None` after its deletion.
    pub fn set_placed(&mut self, kind: VertexKind, namespace: &str, name: &str, object: Option<&Value>) {
        let node = object.and_then(|object| object.str_at(&["spec", "nodeName"])).unwrap_or_default();
        self.place(Vertex::new(kind, namespace, name), node, Vec::new());
    }

    fn place(&mut self, vertex: Vertex, node: &str, mut names: Vec<Vertex>) {
        if let Some(old) = self.placed.remove(&vertex) {
            for name in old.names {
                self.remove_reference(name, &old.node);
            }
        }
        if node.is_empty() {
            return;
        }
        names.sort_unstable_by(|a, b| (a.kind as u8, &a.name).cmp(&(b.kind as u8, &b.name)));
        names.dedup();
        for name in &names {
            *self.named.entry(name.clone()).or_default().entry(node.into()).or_default() += 1;
        }
        self.placed.insert(vertex, Placed { node: node.into(), names });
    }

    fn remove_reference(&mut self, vertex: Vertex, node: &str) {
        let Entry::Occupied(mut nodes) = self.named.entry(vertex) else { return };
        if let Some(count) = nodes.get_mut().get_mut(node) {
            *count -= 1;
            if *count == 0 {
                nodes.get_mut().remove(node);
            }
        }
        if nodes.get().is_empty() {
            nodes.remove();
        }
    }

    /// Sets a persistent volume's newest state; `None` after its deletion.
    pub fn set_volume(&mut self, name: &str, volume: Option<&Value>) {
        if let Some(old) = self.volumes.remove(name) {
            for secret in old.secrets {
                let Entry::Occupied(mut volumes) = self.volumes_of_secret.entry(secret) else { continue };
                volumes.get_mut().retain(|volume| volume != name);
                if volumes.get().is_empty() {
                    volumes.remove();
                }
            }
        }
        let Some((volume, claim)) = volume.and_then(|v| Some((v, v.at(&["spec", "claimRef"])?))) else {
            return;
        };
        let text = |key| claim.str_at(&[key]).unwrap_or_default();
        let claim = Vertex::new(VertexKind::PersistentVolumeClaim, text("namespace"), text("name"));
        let secrets = references::secrets_of_volume(volume, &claim.namespace);
        for secret in &secrets {
            self.volumes_of_secret.entry(secret.clone()).or_default().push(name.into());
        }
        self.volumes.insert(name.into(), Volume { claim, secrets });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    fn pod(node: &str, secret: &str, claim: &str) -> Value {
        value!({"spec": {
            "nodeName": node,
            "serviceAccountName": "sa",
            "volumes": [
                {"name": "s", "secret": {"secretName": secret}},
                {"name": "c", "persistentVolumeClaim": {"claimName": claim}},
            ],
        }})
    }

    fn volume(claim: &str, secret: &str) -> Value {
        value!({"spec": {
            "claimRef": {"namespace": "ns", "name": claim},
            "csi": {"nodeStageSecretRef": {"namespace": "vault", "name": secret}},
        }})
    }

    #[track_caller]
    fn check(graph: &Graph, node: &str, kind: VertexKind, name: &str, reached: bool) {
        let namespace = match kind {
            VertexKind::PersistentVolume | VertexKind::VolumeAttachment => "",
            VertexKind::Secret if name.starts_with("volume-") => "vault",
            _ => "ns",
        };
        let wanted = Vertex::new(kind, namespace, name);
        assert_eq!(graph.reaches(node, &wanted), reached, "{node} {wanted:?}");
    }

    #[test]
    fn nodes_read_the_references_of_their_pods() {
        use VertexKind::*;
        let mut graph = Graph::default();
        graph.set_pod("ns", "a", Some(&pod("n1", "s1", "c1")));
        graph.set_pod("ns", "b", Some(&pod("n1", "s1", "c2")));
        graph.set_pod("ns", "c", Some(&pod("n2", "s2", "c2")));
        graph.set_pod("ns", "unbound", Some(&pod("", "s3", "c3")));
        graph.set_volume("v1", Some(&volume("c1", "volume-key")));
        for (node, kind, name, reached) in [
            ("n1", Pod, "a", true),
            ("n2", Pod, "a", false),
            ("n1", Secret, "s1", true),
            ("n2", Secret, "s1", false),
            ("n2", Secret, "s2", true),
            ("n1", PersistentVolumeClaim, "c2", true),
            ("n2", PersistentVolumeClaim, "c2", true),
            ("n1", ServiceAccount, "sa", true),
            ("n3", ServiceAccount, "sa", false),
            ("n1", PersistentVolume, "v1", true),
            ("n2", PersistentVolume, "v1", false),
            ("n1", Secret, "volume-key", true),
            ("n2", Secret, "volume-key", false),
            ("", Pod, "unbound", false),
            ("", Secret, "s3", false),
            ("n1", ConfigMap, "s1", false),
        ] {
            check(&graph, node, kind, name, reached);
        }
        graph.set_pod("ns", "a", None);
        check(&graph, "n1", Secret, "s1", true);
        check(&graph, "n1", PersistentVolume, "v1", false);
        graph.set_pod("ns", "b", None);
        check(&graph, "n1", Secret, "s1", false);
        graph.set_pod("ns", "c", None);
        graph.set_volume("v1", None);
        assert!(graph.placed.is_empty() && graph.named.is_empty(), "nothing is left behind");
        assert!(graph.volumes.is_empty() && graph.volumes_of_secret.is_empty(), "nothing is left behind");
    }

    #[test]
    fn nodes_read_objects_that_reference_them() {
        let mut graph = Graph::default();
        let attached = value!({"spec": {"nodeName": "n1"}});
        graph.set_placed(VertexKind::VolumeAttachment, "", "va", Some(&attached));
        check(&graph, "n1", VertexKind::VolumeAttachment, "va", true);
        check(&graph, "n2", VertexKind::VolumeAttachment, "va", false);
        graph.set_placed(VertexKind::VolumeAttachment, "", "va", Some(&value!({"spec": {}})));
        check(&graph, "n1", VertexKind::VolumeAttachment, "va", false);
    }

    #[test]
    fn a_mirror_pod_gives_access_to_itself_only() {
        let mut mirror = pod("n1", "s1", "c1");
        mirror.set(&["metadata", "annotations", "kubernetes.io/config.mirror"], "x");
        let mut graph = Graph::default();
        graph.set_pod("ns", "m", Some(&mirror));
        check(&graph, "n1", VertexKind::Pod, "m", true);
        check(&graph, "n1", VertexKind::Secret, "s1", false);
        check(&graph, "n1", VertexKind::ServiceAccount, "sa", false);
    }
}
