//! Random requests with the recorded responses of upstream's own field manager.
//!
//! Each line of the recording is one object's life: requests, and after each the object or the error.
//! Times there are the number of the request in seconds.

use super::*;

const RECORDING: &str = include_str!("../../../testdata/managed_fields.jsonl");

#[test]
fn the_outcome_is_upstreams() {
    let mut requests = 0;
    for (line, text) in RECORDING.lines().enumerate() {
        let case = json::parse(text.as_bytes()).unwrap();
        let text = |key| case.str_at(&[key]).unwrap();
        let package = if text("apiVersion") == "v1" { "core/v1" } else { text("apiVersion") };
        let mut world = World::new(&format!("{package}.{}", text("kind")));
        for (step, result) in case.items_at(&["steps"]).iter().zip(case.items_at(&["results"])) {
            requests += 1;
            let text = |key| step.str_at(&[key]).unwrap();
            let object = json::write_to_string(step.get("object").unwrap());
            let request = match text("op") {
                "apply" => Apply(text("manager"), &object),
                "force" => Force(text("manager"), &object),
                "status" => UpdateStatus(text("manager"), &object),
                _ => Update(text("manager"), &object),
            };
            match world.run_keeping_new_times(request) {
                Ok(()) => {
                    let mut expected = result.clone();
                    world.conform(&mut expected, Extent::Whole);
                    assert_eq!(world.live.as_ref(), Some(&expected), "line {}: {object}", line + 1);
                }
                Err(status) => {
                    assert_eq!(Some(status.message.as_str()), result.str_at(&["error"]), "line {}", line + 1);
                }
            }
        }
    }
    assert!(requests > 100, "{requests}");
}
