//! The volumes of a pod that matter for scheduling.

use corten_api::Value;
use corten_client::Key;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Volumes {
    /// Claims it names.
    pub(crate) claims: Vec<Key>,
    /// Claims of ephemeral volumes, named after the pod.
    pub(crate) ephemeral: Vec<Key>,
    pub(crate) disks: Vec<Disk>,
}

/// A disk in the pod spec that only one node can attach.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Disk {
    kind: &'static str,
    identity: String,
    read_only: bool,
}

impl Disk {
    /// True if two pods on one node cannot both use it.
    pub(crate) fn conflicts(&self, other: &Disk) -> bool {
        let shared = self.read_only && other.read_only && self.kind != "awsElasticBlockStore";
        self.kind == other.kind && self.identity == other.identity && !shared
    }
}

impl Volumes {
    pub(crate) fn of(pod: &Value, namespace: &str, name: &str) -> Volumes {
        let mut found = Volumes::default();
        for volume in pod.items_at(&["spec", "volumes"]) {
            if let Some(claim) = volume.str_at(&["persistentVolumeClaim", "claimName"]) {
                found.claims.push(Key::new(namespace, claim));
            } else if volume.get("ephemeral").is_some() {
                let volume = volume.str_at(&["name"]).unwrap_or_default();
                found.ephemeral.push(Key::new(namespace, format!("{name}-{volume}")));
            } else {
                found.disks.extend(disk(volume));
            }
        }
        found
    }

    /// Every claim, ephemeral ones included.
    pub(crate) fn all_claims(&self) -> impl Iterator<Item = &Key> {
        self.claims.iter().chain(&self.ephemeral)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self == &Volumes::default()
    }
}

fn disk(volume: &Value) -> Option<Disk> {
    let kinds = ["gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi"];
    let (kind, source) = kinds.iter().find_map(|kind| Some((*kind, volume.get(kind)?)))?;
    let text = |key: &str| source.str_at(&[key]).unwrap_or_default().to_owned();
    let identity = match kind {
        "gcePersistentDisk" => text("pdName"),
        "awsElasticBlockStore" => text("volumeID"),
        "iscsi" => text("iqn"),
        _ => {
            let mut monitors: Vec<_> =
                source.items_at(&["monitors"]).iter().filter_map(Value::as_str).collect();
            monitors.sort_unstable();
            format!("{}/{}/{}", monitors.join(","), text("pool"), text("image"))
        }
    };
    Some(Disk { kind, identity, read_only: source.bool_at(&["readOnly"]) == Some(true) })
}
