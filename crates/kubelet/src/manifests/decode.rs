//! Manifests into pods: read, completed and judged as the API server would, and then made this node's own. Pure.

use corten_api::conform::{Extent, conform};
use corten_api::status::ErrorList;
use corten_api::{Status, Value, json, meta, value, yaml};
use corten_registry::Request;
use jiff::Timestamp;

use super::references;
use crate::pod::{Pod, Source};

const HASH: &str = "kubernetes.io/config.hash";
const SOURCE: &str = "kubernetes.io/config.source";
const SEEN: &str = "kubernetes.io/config.seen";

/// Where a manifest was found.
pub(super) struct Origin<'a> {
    pub(super) source: Source,
    /// A path or a URL.
    pub(super) place: &'a str,
    pub(super) node: &'a str,
}

/// The pod of a manifest.
pub(super) fn pod(text: &[u8], origin: &Origin<'_>) -> Result<Pod, String> {
    match manifest(text)? {
        Manifest::One(tree) => completed(tree, origin),
        Manifest::Many(_) => {
            Err("couldn't parse as pod(a list of pods), please check config file".to_owned())
        }
    }
}

/// The pods of a manifest or of a list of them.
pub(super) fn pods(text: &[u8], origin: &Origin<'_>) -> Result<Vec<Pod>, String> {
    match manifest(text)? {
        Manifest::One(tree) => Ok(vec![completed(tree, origin)?]),
        Manifest::Many(trees) => trees.into_iter().map(|tree| completed(tree, origin)).collect(),
    }
}

enum Manifest {
    One(Value),
    Many(Vec<Value>),
}

fn manifest(text: &[u8]) -> Result<Manifest, String> {
    let tree = yaml::to_value(text, &mut Vec::new()).map_err(|error| error.to_string())?;
    match (meta::api_version(&tree), meta::kind(&tree)) {
        ("v1", "Pod") => Ok(Manifest::One(tree)),
        ("v1", "PodList" | "List") => Ok(Manifest::Many(tree.items_at(&["items"]).to_vec())),
        ("", _) | (_, "") => {
            Err("couldn't parse as pod(Object 'Kind' is missing), please check config file".to_owned())
        }
        (version, kind) => {
            Err(format!("couldn't parse as pod({kind} of {version} is no pod), please check config file"))
        }
    }
}

fn completed(mut tree: Value, origin: &Origin<'_>) -> Result<Pod, String> {
    let rules = corten_registry::rules("", "pods").ok_or("pods are not known")?;
    tree.set(&["apiVersion"], "v1");
    tree.set(&["kind"], "Pod");
    let schema = rules.schema().ok_or("pods are not known")?;
    conform(&mut tree, schema, Extent::Whole, &mut Vec::new()).map_err(|error| error.to_string())?;
    if meta::name(&tree).is_empty() {
        return Err("invalid pod: name is needed for the pod".to_owned());
    }
    // It becomes the name of folders and cgroups.
    if !meta::uid(&tree).bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(format!(
            "invalid pod: uid {:?} must consist of letters, digits and '-'",
            meta::uid(&tree)
        ));
    }
    (rules.default)(&mut tree);
    own(&mut tree, origin);
    (rules.prepare_create)(&mut tree, &Request { now: Timestamp::UNIX_EPOCH, user: None });
    let mut errors = ErrorList::new();
    rules.validate_for_create(true, &tree, &mut errors);
    if !errors.is_empty() {
        let status = Status::invalid("", "Pod", meta::name(&tree), &errors);
        return Err(format!("invalid pod: {}", status.message));
    }
    if let Some(what) = references::first(&tree)? {
        return Err(format!("static pods may not reference {what}"));
    }
    Ok(Pod::new(tree, origin.source))
}

/// Makes a pod this node's own.
fn own(tree: &mut Value, origin: &Origin<'_>) {
    if meta::uid(tree).is_empty() {
        let uid = uid(tree, origin);
        tree.set(&["metadata", "uid"], uid);
    }
    let (uid, name) =
        (meta::uid(tree).to_owned(), format!("{}-{}", meta::name(tree), origin.node.to_lowercase()));
    tree.set(&["metadata", "name"], name);
    if meta::namespace(tree).is_empty() {
        tree.set(&["metadata", "namespace"], "default");
    }
    tree.set(&["spec", "nodeName"], origin.node);
    tree.set(&["metadata", "annotations", HASH], uid);
    tree.set(&["metadata", "annotations", SOURCE], origin.source.name());
    if origin.source == Source::File {
        tolerate_everything(tree);
    }
}

/// When a pod was first seen by this process.
pub(super) fn seen(pod: &Pod, at: Timestamp) -> Pod {
    let mut tree = pod.tree().clone();
    tree.set(&["metadata", "annotations", SEEN], at.to_string());
    Pod::new(tree, pod.source())
}

/// What is wrong with the node does not end what was put there by hand.
fn tolerate_everything(tree: &mut Value) {
    let everything = value!({"operator": "Exists", "effect": "NoExecute"});
    let mut list = tree.items_at(&["spec", "tolerations"]).to_vec();
    if !list.contains(&everything) {
        list.push(everything);
        tree.set(&["spec", "tolerations"], list);
    }
}

/// The same for the same manifest in the same place, and for no other.
fn uid(tree: &Value, origin: &Origin<'_>) -> String {
    let place = match origin.source {
        Source::File => format!("host:{}file:{}", origin.node, origin.place),
        _ => format!("url:{}", origin.place),
    };
    let text = format!("{}{place}", json::write_to_string(tree));
    let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: web}]}\n";

    fn origin(source: Source) -> Origin<'static> {
        Origin { source, place: "/m/web.yaml", node: "node1" }
    }

    fn read(text: &str) -> Result<Pod, String> {
        pod(text.as_bytes(), &origin(Source::File))
    }

    #[test]
    fn a_manifest_becomes_this_nodes_own() {
        let pod = read(WEB).unwrap();
        assert_eq!((pod.namespace(), pod.name(), pod.is_static()), ("default", "web-node1", true));
        let text = |path: &[&str]| pod.tree().str_at(path).unwrap_or_default().to_owned();
        assert_eq!(text(&["spec", "nodeName"]), "node1");
        assert_eq!(text(&["metadata", "annotations", HASH]), pod.uid());
        assert_eq!(text(&["metadata", "annotations", SOURCE]), "file");
        assert_eq!(text(&["spec", "restartPolicy"]), "Always");
        assert_eq!(
            (text(&["status", "phase"]), text(&["status", "qosClass"])),
            ("Pending".into(), "BestEffort".into())
        );
        let tolerations = pod.tree().items_at(&["spec", "tolerations"]);
        assert_eq!(tolerations, [value!({"operator": "Exists", "effect": "NoExecute"})]);
        assert_eq!(pod.uid().len(), 32);
    }

    #[test]
    fn uids_follow_from_manifest_and_place() {
        let uid = |text: &str, place: &str, source| {
            let origin = Origin { place, ..origin(source) };
            pods(text.as_bytes(), &origin).unwrap()[0].uid().to_owned()
        };
        let first = uid(WEB, "/a", Source::File);
        assert_eq!(first, uid(WEB, "/a", Source::File));
        assert_ne!(first, uid(WEB, "/b", Source::File));
        assert_ne!(first, uid(WEB, "/a", Source::Http));
        assert_ne!(first, uid(&WEB.replace("image: web", "image: other"), "/a", Source::File));
        let given = WEB.replace("name: web", "name: web, uid: mine");
        assert_eq!(uid(&given, "/a", Source::File), "mine");
    }

    #[test]
    fn mistakes_are_said() {
        let error = |text: &str| read(text).unwrap_err();
        assert_eq!(error(&WEB.replace("name: web", "labels: {}")), "invalid pod: name is needed for the pod");
        assert!(
            error(&WEB.replace("image: web", "image: ''"))
                .contains("spec.containers[0].image: Required value")
        );
        let uid = error(&WEB.replace("name: web", "name: web, uid: ../../etc"));
        assert!(uid.contains("uid \"../../etc\" must consist of"), "{uid}");
        assert!(error("kind: Deployment\napiVersion: apps/v1").contains("Deployment of apps/v1 is no pod"));
        assert!(error("a: [").contains("yaml"), "{}", error("a: ["));
        assert_eq!(
            error(&WEB.replace("spec: {", "spec: {serviceAccountName: a, ")),
            "static pods may not reference serviceaccounts"
        );
    }

    #[test]
    fn a_url_may_name_several() {
        let list = "apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}]";
        let found = pods(list.as_bytes(), &origin(Source::Http)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name(), found[0].source()), ("a-node1", Source::Http));
        assert!(found[0].tree().items_at(&["spec", "tolerations"]).is_empty());
    }
}
