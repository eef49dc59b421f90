//! CSI drivers. The generation counts changes only: a new driver has none.

use corten_api::{Value, value};

use crate::defaults::{fill_absent, is_zero, made};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, UNSET, age, boolean, cells, joined, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "csidrivers",
    storage_prefix: "csidrivers",
    generation: Generation { initial: 0, counts: &[&["spec"]] },
    default,
    unconditional_update: false,
    delete_returns_object: true,
    columns: &[
        NAME,
        boolean("AttachRequired", "Whether volumes are attached to a node first."),
        boolean("PodInfoOnMount", "Whether mounting needs to know the pod."),
        boolean("StorageCapacity", "Whether scheduling looks at the capacity left."),
        text("TokenRequests", "Audiences of the tokens it is given."),
        boolean("RequiresRepublish", "Whether mounts are renewed from time to time."),
        text("Modes", "Kinds of volumes it provides."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let flag = |key: &str, otherwise: bool| object.bool_at(&["spec", key]).unwrap_or(otherwise);
    let tokens = match object.at(&["spec", "tokenRequests"]).and_then(Value::as_array) {
        Some(requests) => requests.iter().map(|r| str_at(r, &["audience"])).collect::<Vec<_>>().join(","),
        None => UNSET.to_owned(),
    };
    let modes = match joined(object, &["spec", "volumeLifecycleModes"], ",") {
        none if none.is_empty() => NONE.to_owned(),
        modes => modes,
    };
    cells![
        name(object),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        tokens,
        flag("requiresRepublish", false),
        modes,
        age(object, context),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "attachRequired", true);
    fill_absent(spec, "podInfoOnMount", false);
    fill_absent(spec, "storageCapacity", false);
    fill_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill_absent(spec, "requiresRepublish", false);
    fill_absent(spec, "seLinuxMount", false);
    fill_absent(spec, "preventPodSchedulingIfMissing", false);
    if is_zero(spec, "volumeLifecycleModes") {
        spec.insert("volumeLifecycleModes", value!(["Persistent"]));
    }
}
