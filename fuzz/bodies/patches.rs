//! JSON, merge and strategic merge patches on a pod: any patch gives an object or an error.

use corten_api::{json, patch, schema};

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},
    "spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}],"volumes":[{"name":"v"}]}}"#;

pub(crate) fn check(data: &[u8]) {
    let Ok(change) = json::parse(data) else { return };
    let pod = json::parse(POD.as_bytes()).expect("the pod is JSON");
    let schema = schema::lookup("core/v1", "Pod").expect("the table has pods");
    // A refusal is as good an outcome as a patched object; only a panic is not.
    let _ = patch::json::check(&change);
    let _ = patch::json::apply(&mut pod.clone(), &change);
    let _ = patch::merge(&mut pod.clone(), &change);
    let _ = patch::strategic::apply(&mut pod.clone(), &change, &schema);
}
