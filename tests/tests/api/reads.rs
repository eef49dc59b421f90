//! Lists and watches: selectors, pages, revisions, resuming.

use corten_e2e::pod;
use corten_testkit::{Client, Server, WatchEnd};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}})
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn revision(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

fn fill(client: &Client, count: usize) {
    for index in 0..count {
        client
            .post(MAPS, &map(&format!("m{index:03}"), &json!({"parity": (index % 2).to_string()})))
            .expect(201);
    }
}

#[test]
fn label_selectors_select() {
    let server = Server::start();
    let client = server.client();
    client.post(MAPS, &map("plain", &json!({}))).expect(201);
    client.post(MAPS, &map("red", &json!({"colour": "red", "size": "1"}))).expect(201);
    client.post(MAPS, &map("blue", &json!({"colour": "blue", "size": "20"}))).expect(201);
    for (selector, expected) in [
        ("colour", vec!["blue", "red"]),
        ("!colour", vec!["plain"]),
        ("colour=red", vec!["red"]),
        ("colour==red", vec!["red"]),
        ("colour!=red", vec!["blue", "plain"]),
        ("colour in (red,blue)", vec!["blue", "red"]),
        ("colour notin (red)", vec!["blue", "plain"]),
        ("size>5", vec!["blue"]),
        ("size<5,colour", vec!["red"]),
    ] {
        let query = selector.replace('=', "%3D").replace(' ', "%20").replace('>', "%3E").replace('<', "%3C");
        let list = client.get(format!("{MAPS}?labelSelector={query}")).expect(200);
        assert_eq!(names(&list), expected, "{selector}");
    }
    for wrong in ["=", "a%20in%20b", "a%3D%3D%3Db", "a%20in%20(b", "!!a", "-a%3Db"] {
        client.get(format!("{MAPS}?labelSelector={wrong}")).expect_failure(400, "BadRequest");
    }
}

#[test]
fn field_selectors_select() {
    let server = Server::start();
    let client = server.client();
    for (name, phase) in [("here", "Running"), ("there", "Pending")] {
        let mut object = pod(name);
        object["spec"]["nodeName"] = format!("node-{name}").into();
        client.post(PODS, &object).expect(201);
        client
            .patch(format!("{PODS}/{name}/status"), "merge", &json!({"status": {"phase": phase}}))
            .expect(200);
    }
    for (selector, expected) in [
        ("metadata.name%3Dhere", vec!["here"]),
        ("metadata.name!%3Dhere", vec!["there"]),
        ("metadata.namespace%3Ddefault", vec!["here", "there"]),
        ("metadata.namespace%3Dother", vec![]),
        ("spec.nodeName%3Dnode-there", vec!["there"]),
        ("status.phase%3DRunning", vec!["here"]),
        ("status.phase!%3DRunning,spec.nodeName%3Dnode-there", vec!["there"]),
        ("spec.restartPolicy%3DAlways", vec!["here", "there"]),
    ] {
        let list = client.get(format!("{PODS}?fieldSelector={selector}")).expect(200);
        assert_eq!(names(&list), expected, "{selector}");
        let everywhere = client.get(format!("/api/v1/pods?fieldSelector={selector}")).expect(200);
        assert_eq!(names(&everywhere), expected, "{selector}");
    }
    let message =
        client.get(format!("{PODS}?fieldSelector=spec.colour%3Dred")).expect_failure(400, "BadRequest");
    assert!(message.contains("field label not supported: spec.colour"), "{message}");
}

#[test]
fn pages_are_one_snapshot() {
    let server = Server::start();
    let client = server.client();
    fill(client, 25);
    let first = client.get(format!("{MAPS}?limit=10")).expect(200);
    assert_eq!(names(&first).len(), 10);
    assert_eq!(first["metadata"]["remainingItemCount"], 15);
    // Neither is part of the list that was begun.
    client.post(MAPS, &map("m011-later", &json!({}))).expect(201);
    client.delete(format!("{MAPS}/m024")).expect(200);
    let mut all = names(&first);
    let mut page = first.clone();
    while let Some(token) = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
        page = client.get(format!("{MAPS}?limit=10&continue={}", escape(token))).expect(200);
        assert_eq!(revision(&page), revision(&first), "all pages are of one revision");
        all.extend(names(&page));
    }
    assert_eq!(all, (0..25).map(|index| format!("m{index:03}")).collect::<Vec<_>>());

    client.get(format!("{MAPS}?limit=10&continue=nonsense")).expect_failure(400, "BadRequest");
    client.get(format!("{MAPS}?limit=-1")).expect_status(200);
    client.get(format!("{MAPS}?limit=ten")).expect_failure(400, "BadRequest");
}

#[test]
fn pages_with_selectors_do_not_count_the_rest() {
    let server = Server::start();
    let client = server.client();
    fill(client, 9);
    let first = client.get(format!("{MAPS}?limit=2&labelSelector=parity%3D0")).expect(200);
    assert_eq!(names(&first), ["m000", "m002"]);
    assert!(first["metadata"]["remainingItemCount"].is_null(), "{first}");
    let token = escape(first["metadata"]["continue"].as_str().unwrap());
    let rest = client.get(format!("{MAPS}?limit=9&labelSelector=parity%3D0&continue={token}")).expect(200);
    assert_eq!(names(&rest), ["m004", "m006", "m008"]);
    assert!(rest["metadata"]["continue"].is_null(), "{rest}");
}

#[test]
fn lists_are_of_the_revision_asked_for() {
    let server = Server::start();
    let client = server.client();
    let one = client.post(MAPS, &map("one", &json!({}))).expect(201);
    let two = client.post(MAPS, &map("two", &json!({}))).expect(201);
    let (old, new) = (revision(&one), revision(&two));
    let list = |query: &str| client.get(format!("{MAPS}?{query}"));
    assert_eq!(
        names(&list(&format!("resourceVersion={old}&resourceVersionMatch=Exact")).expect(200)),
        ["one"]
    );
    assert_eq!(
        names(&list(&format!("resourceVersion={new}&resourceVersionMatch=Exact")).expect(200)),
        ["one", "two"]
    );
    let fresh = list(&format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan")).expect(200);
    assert_eq!(names(&fresh), ["one", "two"]);
    assert_eq!(names(&list("resourceVersion=0").expect(200)), ["one", "two"]);

    list("resourceVersionMatch=Exact").expect_failure(422, "Invalid");
    list("resourceVersion=0&resourceVersionMatch=Exact").expect_failure(422, "Invalid");
    list("resourceVersion=1&resourceVersionMatch=Sometimes").expect_failure(422, "Invalid");
    let response = list("resourceVersion=yesterday");
    assert!((400..500).contains(&response.status), "{}", response.text());
    let response = list("resourceVersion=999999999");
    let message = response.expect_failure(504, "Timeout");
    assert!(message.contains("Too large resource version: 999999999"), "{message}");
}

#[test]
fn watches_resume_without_gaps_or_repeats() {
    let server = Server::start();
    let client = server.client();
    let begin = client.get(MAPS).expect(200);
    fill(client, 20);
    let whole: Vec<Value> = {
        let mut watch = client.watch(format!("{MAPS}?watch=true&resourceVersion={}", revision(&begin)));
        (0..20).map(|_| watch.expect("ADDED")).collect()
    };
    for (index, seen) in whole.iter().enumerate().step_by(5) {
        let mut watch = client.watch(format!("{MAPS}?watch=true&resourceVersion={}", revision(seen)));
        for expected in &whole[index + 1..] {
            assert_eq!(watch.expect("ADDED"), *expected);
        }
    }
}

#[test]
fn watches_with_selectors_see_objects_come_and_go() {
    let server = Server::start();
    let client = server.client();
    let mut watch = client.watch(format!("{MAPS}?watch=true&labelSelector=colour%3Dred"));
    client.post(MAPS, &map("other", &json!({"colour": "blue"}))).expect(201);
    client.post(MAPS, &map("m", &json!({"colour": "blue"}))).expect(201);
    let colour = |value: &str| {
        client
            .patch(format!("{MAPS}/m"), "merge", &json!({"metadata": {"labels": {"colour": value}}}))
            .expect(200)
    };
    colour("red");
    client.patch(format!("{MAPS}/m"), "merge", &json!({"data": {"a": "b"}})).expect(200);
    colour("green");
    client.delete(format!("{MAPS}/m")).expect(200);
    colour_of(&watch.expect("ADDED"), "red");
    assert_eq!(watch.expect("MODIFIED")["data"]["a"], "b");
    // Upstream sends the object as it was when it still matched, at the revision at which it ceased to.
    colour_of(&watch.expect("DELETED"), "red");
    client.post(MAPS, &map("last", &json!({"colour": "red"}))).expect(201);
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "last");
}

#[track_caller]
fn colour_of(object: &Value, colour: &str) {
    assert_eq!(object["metadata"]["labels"]["colour"], colour, "{object}");
}

#[test]
fn streaming_lists_end_with_a_bookmark() {
    let server = Server::start();
    let client = server.client();
    fill(client, 3);
    let query =
        "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut watch = client.watch(format!("{MAPS}?{query}&resourceVersion="));
    let mut initial: Vec<String> = (0..3)
        .map(|_| watch.expect("ADDED")["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    initial.sort();
    assert_eq!(initial, ["m000", "m001", "m002"]);
    let bookmark = watch.expect("BOOKMARK");
    assert_eq!(bookmark["kind"], "ConfigMap");
    assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    client.post(MAPS, &map("later", &json!({}))).expect(201);
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "later");

    let message =
        client.get(format!("{MAPS}?watch=true&sendInitialEvents=true")).expect_failure(422, "Invalid");
    assert!(message.contains("resourceVersionMatch"), "{message}");
    client.get(format!("{MAPS}?sendInitialEvents=true")).expect_failure(422, "Invalid");
}

#[test]
fn a_watch_ends_at_its_timeout() {
    let server = Server::start();
    let mut watch = server.client().watch(format!("{MAPS}?watch=true&timeoutSeconds=1"));
    loop {
        match watch.try_next() {
            Ok(event) => assert_eq!(event["type"], "ADDED"),
            Err(WatchEnd::Closed) => break,
            Err(WatchEnd::Broken(error)) => panic!("{error}"),
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

#[test]
fn watches_speak_websocket() {
    let server = Server::start();
    let client = server.client();
    fill(client, 2);
    let mut watch = client.websocket(&format!("{MAPS}?watch=true&labelSelector=parity"), "");
    let mut event = |name: &str| {
        let message = watch.read_until(b"\n").expect("an event comes");
        assert_eq!(message[0], 0x81, "a whole message of text");
        let begin = message.iter().position(|byte| *byte == b'{').expect("an object follows");
        // Longer messages have two more bytes of length.
        assert_eq!((message[1], begin), (126, 4));
        assert_eq!(usize::from(message[2]) * 256 + usize::from(message[3]), message.len() - begin);
        let event: Value = serde_json::from_slice(&message[begin..]).expect("it is JSON");
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    };
    event("m000");
    event("m001");
    client.post(MAPS, &map("later", &json!({"parity": "0"}))).expect(201);
    event("later");
}

#[test]
fn component_statuses_are_selected_like_objects() {
    const COMPONENTS: &str = "/api/v1/componentstatuses";
    let server = Server::start();
    let client = server.client();
    let list = client.get(COMPONENTS).expect(200);
    assert_eq!(names(&list), ["etcd-0"]);
    assert_eq!(list["items"][0].get("kind"), None, "items of a list have no kind");
    assert_eq!(
        names(&client.get(format!("{COMPONENTS}?fieldSelector=metadata.name%3Detcd-0")).expect(200)),
        ["etcd-0"]
    );
    for other in ["fieldSelector=metadata.name%3Dx", "labelSelector=a%3Db"] {
        assert!(names(&client.get(format!("{COMPONENTS}?{other}")).expect(200)).is_empty(), "{other}");
    }
    client.get(format!("{COMPONENTS}?fieldSelector=spec.x%3D1")).expect_failure(400, "BadRequest");
    client.get(format!("{COMPONENTS}?limit=x")).expect_failure(400, "BadRequest");
}
