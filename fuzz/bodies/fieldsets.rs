//! Field sets and server-side apply: a set that reads prints as itself, and applying anything to a pod gives
//! an object or a refusal.

use corten_api::managed::{self, Set};
use corten_api::{json, schema};

const LIVE: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u","managedFields":[
    {"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}}}}],
    "labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(set) = Set::parse(text) {
        let printed = set.to_text();
        let again = Set::parse(&printed).expect("what was printed is read");
        assert_eq!(again.to_text(), printed, "{text:?}");
    }
    let Ok(applied) = json::parse(data) else { return };
    let live = json::parse(LIVE.as_bytes()).expect("the pod is JSON");
    let schema = schema::lookup("core/v1", "Pod").expect("the table has pods");
    let context = managed::Context {
        schema: &schema,
        api_version: "v1",
        manager: "fuzz",
        subresource: "",
        now: "2024-01-01T00:00:00Z",
        filter: None,
        versions: None,
    };
    let _ = managed::apply(&context, Some(&live), &applied, false);
    let _ = managed::apply(&context, None, &applied, true);
}
