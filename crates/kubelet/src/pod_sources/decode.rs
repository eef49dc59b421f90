//! Parses manifests into pods: defaulted and validated by the API server's rules, and then bound to this node. Pure.

use corten_api::conform::{Extent, conform};
use corten_api::status::ErrorList;
use corten_api::{Status, Value, json, meta, value, yaml};
use corten_registry::{Request, UnknownVolume, api_reference};
use jiff::Timestamp;

use crate::pod::{Pod, Source};

const HASH: &str = "kubernetes.io/config.hash";
const SOURCE: &str = "kubernetes.io/config.source";
const SEEN: &str = "kubernetes.io/config.seen";

/// The origin of a manifest.
pub(super) struct Origin<'a> {
    pub(super) source: Source,
    /// A path or a URL.
    pub(super) place: &'a str,
    pub(super) node: &'a str,
}

/// A manifest that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ManifestError {
    #[error("{0}")]
    Syntax(String),
    #[error("couldn't parse as pod({0}), please check config file")]
    NotAPod(String),
    #[error("the schema of pods is missing")]
    NoSchema,
    #[error("invalid pod: {0}")]
    Invalid(String),
    #[error("static pods may not reference {0}")]
    Reference(&'static str),
    #[error(transparent)]
    Unknown(#[from] UnknownVolume),
}

/// The pod of a manifest.
pub(super) fn pod(text: &[u8], origin: &Origin<'_>) -> Result<Pod, ManifestError> {
    match manifest(text)? {
        Manifest::One(tree) => complete(tree, origin),
        Manifest::Many(_) => Err(ManifestError::NotAPod("a list of pods".to_owned())),
    }
}

/// The pods of a manifest or of a list of them.
pub(super) fn pods(text: &[u8], origin: &Origin<'_>) -> Result<Vec<Pod>, ManifestError> {
    match manifest(text)? {
        Manifest::One(tree) => Ok(vec![complete(tree, origin)?]),
        Manifest::Many(trees) => trees.into_iter().map(|tree| complete(tree, origin)).collect(),
    }
}

enum Manifest {
    One(Value),
    Many(Vec<Value>),
}

fn manifest(text: &[u8]) -> Result<Manifest, ManifestError> {
    let tree = yaml::to_value(text, &mut Vec::new()).map_err(|err| ManifestError::Syntax(err.to_string()))?;
    match (meta::api_version(&tree), meta::kind(&tree)) {
        ("v1", "Pod") => Ok(Manifest::One(tree)),
        ("v1", "PodList" | "List") => Ok(Manifest::Many(tree.items_at(&["items"]).to_vec())),
        ("", _) | (_, "") => Err(ManifestError::NotAPod("Object 'Kind' is missing".to_owned())),
        (version, kind) => Err(ManifestError::NotAPod(format!("{kind} of {version} is not a Pod"))),
    }
}

fn complete(mut tree: Value, origin: &Origin<'_>) -> Result<Pod, ManifestError> {
    let rules = corten_registry::rules("", "pods").ok_or(ManifestError::NoSchema)?;
    tree.set(&["apiVersion"], "v1");
    tree.set(&["kind"], "Pod");
    let schema = rules.schema().ok_or(ManifestError::NoSchema)?;
    conform(&mut tree, schema, Extent::Whole, &mut Vec::new())
        .map_err(|err| ManifestError::Syntax(err.to_string()))?;
    if meta::name(&tree).is_empty() {
        return Err(ManifestError::Invalid("name is needed for the pod".to_owned()));
    }
    // The uid becomes the name of directories and cgroups.
    if !meta::uid(&tree).bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let uid = meta::uid(&tree);
        let why = format!("uid {uid:?} must consist of letters, digits and '-'");
        return Err(ManifestError::Invalid(why));
    }
    (rules.default)(&mut tree);
    set_static_fields(&mut tree, origin);
    (rules.prepare_create)(&mut tree, &Request { now: Timestamp::UNIX_EPOCH, user: None });
    let mut errors = ErrorList::new();
    rules.validate_for_create(true, &tree, &mut errors);
    if !errors.is_empty() {
        let status = Status::invalid("", "Pod", meta::name(&tree), &errors);
        return Err(ManifestError::Invalid(status.message));
    }
    if let Some(what) = api_reference(&tree)? {
        return Err(ManifestError::Reference(what));
    }
    Ok(Pod::new(tree, origin.source))
}

/// Sets the fields of a static pod of this node: uid, name, node name, annotations and tolerations.
fn set_static_fields(tree: &mut Value, origin: &Origin<'_>) {
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

/// The pod with the time when this process first saw it.
pub(super) fn with_first_seen(pod: &Pod, at: Timestamp) -> Pod {
    let mut tree = pod.tree().clone();
    tree.set(&["metadata", "annotations", SEEN], at.to_string());
    Pod::new(tree, pod.source())
}

/// Adds a toleration of all NoExecute taints: taints do not end static pods.
fn tolerate_everything(tree: &mut Value) {
    let everything = value!({"operator": "Exists", "effect": "NoExecute"});
    let mut list = tree.items_at(&["spec", "tolerations"]).to_vec();
    if !list.contains(&everything) {
        list.push(everything);
        tree.set(&["spec", "tolerations"], list);
    }
}

/// A uid that depends on the manifest and its origin alone.
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

    fn read(text: &str) -> Result<Pod, ManifestError> {
        pod(text.as_bytes(), &origin(Source::File))
    }

    #[test]
    fn a_manifest_becomes_a_static_pod() {
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
    fn uids_depend_on_manifest_and_origin() {
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
    fn invalid_manifests_are_refused() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(error(&WEB.replace("name: web", "labels: {}")), "invalid pod: name is needed for the pod");
        assert!(
            error(&WEB.replace("image: web", "image: ''"))
                .contains("spec.containers[0].image: Required value")
        );
        let uid = error(&WEB.replace("name: web", "name: web, uid: ../../etc"));
        assert!(uid.contains("uid \"../../etc\" must consist of"), "{uid}");
        assert!(
            error("kind: Deployment\napiVersion: apps/v1").contains("Deployment of apps/v1 is not a Pod")
        );
        assert!(error("a: [").contains("yaml"), "{}", error("a: ["));
        assert_eq!(
            error(&WEB.replace("spec: {", "spec: {serviceAccountName: a, ")),
            "static pods may not reference serviceaccounts"
        );
    }

    #[test]
    fn a_url_may_serve_several_pods() {
        let list = "apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}]";
        let found = pods(list.as_bytes(), &origin(Source::Http)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name(), found[0].source()), ("a-node1", Source::Http));
        assert!(found[0].tree().items_at(&["spec", "tolerations"]).is_empty());
    }
}
