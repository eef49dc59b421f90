//! Creates, updates, patches and status updates.

use super::*;

const CONFIG_MAP: &str = "core/v1.ConfigMap";
const DEPLOYMENT: &str = "apps/v1.Deployment";
const POD: &str = "core/v1.Pod";

#[test]
fn creating_owns_what_was_set() {
    let text = r#"{"metadata":{"name":"p","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}"#;
    let mut world = World::new(POD);
    world.run(Create("m", text)).unwrap();
    let entry = &world.live.as_ref().unwrap().items_at(MANAGED_FIELDS)[0];
    assert_eq!(
        json::write_to_string(entry),
        r#"{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{}}}}},"manager":"m","operation":"Update","time":"2026-01-01T00:00:01Z"}"#
    );
}

#[test]
fn fields_that_always_exist_are_not_owned_by_creating() {
    check(
        DEPLOYMENT,
        &[Create(
            "m",
            r#"{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":null}}},"status":{"replicas":3}}"#,
        )],
        &["m Update@1: .spec.replicas .spec.selector .spec.strategy.rollingUpdate .spec.strategy.type \
           .spec.strategy.rollingUpdate.maxSurge .spec.template.metadata.labels \
           .spec.template.metadata.labels.a"],
    );
}

#[test]
fn a_field_may_be_granular_although_its_type_is_atomic() {
    check(
        "core/v1.PersistentVolume",
        &[Create("m", r#"{"metadata":{"name":"v"},"spec":{"claimRef":{"name":"c","namespace":"n"}}}"#)],
        &["m Update@1: .spec.claimRef .spec.claimRef.name .spec.claimRef.namespace"],
    );
}

#[test]
fn an_item_without_its_key_has_the_default_of_documents() {
    check(
        POD,
        &[Create("m", r#"{"metadata":{"name":"p"},"spec":{"containers":null,"imagePullSecrets":[{}]}}"#)],
        &["m Update@1: .spec.imagePullSecrets .spec.imagePullSecrets[name=\"\"]"],
    );
}

#[test]
fn updates_move_ownership_and_times() {
    check(
        CONFIG_MAP,
        &[Create("a", r#"{"data":{"x":"1","y":"1"}}"#), Update("b", r#"{"data":{"x":"2","y":"1","z":"1"}}"#)],
        &["a Update@1: .data .data.y", "b Update@2: .data.x .data.z"],
    );
    check(
        CONFIG_MAP,
        &[
            Create("a", r#"{"data":{"x":"1","y":"1"}}"#),
            Update("a", r#"{"data":{"x":"2","y":"1"}}"#),
            Update("b", r#"{"data":{"x":"2","y":"1"}}"#),
        ],
        &["a Update@2: .data .data.x .data.y"],
    );
    // Removing a field removes its ownership, and no manager gets it; that changes no time.
    check(
        CONFIG_MAP,
        &[
            Create("a", r#"{"data":{"x":"1","y":"1"}}"#),
            Update("b", r#"{"data":{"x":"1"}}"#),
            Update("a", r#"{"data":{"x":"1"},"immutable":true}"#),
            Update("a", r#"{"data":{"x":"1"}}"#),
        ],
        &["a Update@3: .data .data.x"],
    );
    // A manager without fields is removed.
    check(
        CONFIG_MAP,
        &[Create("a", r#"{"immutable":true}"#), Update("b", r#"{"data":{"x":"1"}}"#)],
        &["b Update@2: .data .data.x"],
    );
}

#[test]
fn identity_and_metadata_the_server_sets_is_never_owned() {
    check(
        CONFIG_MAP,
        &[Create(
            "m",
            r#"{"metadata":{"name":"n","namespace":"s","generation":3,"resourceVersion":"5","selfLink":"/x","creationTimestamp":"2020-01-01T00:00:00Z","generateName":"g","finalizers":["b","a"],"ownerReferences":[{"uid":"u1","apiVersion":"v1","kind":"K","name":"o"}]}}"#,
        )],
        &["m Update@1: .metadata.finalizers .metadata.generateName .metadata.ownerReferences \
           .metadata.finalizers[=\"a\"] .metadata.finalizers[=\"b\"] .metadata.ownerReferences[uid=\"u1\"]"],
    );
    check(CONFIG_MAP, &[Create("m", r#"{"metadata":{"name":"n"}}"#)], &[]);
}

#[test]
fn subresources_have_their_own_entries() {
    let spec = r#""spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{},"spec":{"containers":null}}}"#;
    check(
        DEPLOYMENT,
        &[
            Create("m", &format!("{{{spec}}}")),
            UpdateStatus(
                "m",
                &format!(
                    r#"{{{spec},"status":{{"replicas":1,"conditions":[{{"type":"Available","status":"True"}}]}}}}"#
                ),
            ),
            UpdateStatus(
                "m",
                &format!(
                    r#"{{{spec},"status":{{"replicas":2,"conditions":[{{"type":"Available","status":"False"}}]}}}}"#
                ),
            ),
        ],
        &[
            "m Update@1: .spec.selector",
            "m Update/status@3: .status.conditions .status.replicas .status.conditions[type=\"Available\"] \
             .status.conditions[type=\"Available\"].lastTransitionTime \
             .status.conditions[type=\"Available\"].lastUpdateTime \
             .status.conditions[type=\"Available\"].status .status.conditions[type=\"Available\"].type",
        ],
    );
}

#[test]
fn lists_are_owned_by_item_unless_atomic() {
    let pod = |rest: &str| format!(r#"{{"spec":{{"containers":[{{"name":"a","image":"1"}}],{rest}}}}}"#);
    let world = check(
        POD,
        &[
            Create(
                "m",
                &pod(
                    r#""tolerations":[{"key":"x"}],"nodeSelector":{"a":"b"},"hostAliases":[{"ip":"1.1.1.1","hostnames":["a"]}]"#,
                ),
            ),
            Update(
                "n",
                &pod(
                    r#""tolerations":[{"key":"y"}],"nodeSelector":{"a":"c"},"hostAliases":[{"ip":"1.1.1.1","hostnames":["a"]},{"ip":"2.2.2.2"}]"#,
                ),
            ),
        ],
        &[
            "m Update@1: .spec.hostAliases .spec.containers[name=\"a\"] .spec.containers[name=\"a\"].image \
             .spec.containers[name=\"a\"].name .spec.containers[name=\"a\"].resources \
             .spec.hostAliases[ip=\"1.1.1.1\"] .spec.hostAliases[ip=\"1.1.1.1\"].hostnames \
             .spec.hostAliases[ip=\"1.1.1.1\"].ip",
            "n Update@2: .spec.nodeSelector .spec.tolerations .spec.hostAliases[ip=\"2.2.2.2\"] \
             .spec.hostAliases[ip=\"2.2.2.2\"].ip",
        ],
    );
    assert!(world.object().contains("2.2.2.2"));
}

#[test]
fn items_that_stand_twice_are_one_value() {
    let env = |items: &str| format!(r#"{{"spec":{{"containers":[{{"name":"a","env":[{items}]}}]}}}}"#);
    let a = |value: &str| format!(r#"{{"name":"A","value":"{value}"}}"#);
    let at = ".spec.containers[name=\"a\"]";
    let base = format!("{at} {at}.env {at}.name {at}.resources");
    check(
        POD,
        &[Create("m", &env(&format!("{},{}", a("1"), a("2"))))],
        &[&format!("m Update@1: {base} {at}.env[name=\"A\"]")],
    );
    // One of two is removed: the other is a new item.
    check(
        POD,
        &[Create("m", &env(&format!("{},{}", a("1"), a("2")))), Update("n", &env(&a("1")))],
        &[
            &format!("m Update@1: {base}"),
            &format!("n Update@2: {at}.env[name=\"A\"] {at}.env[name=\"A\"].name {at}.env[name=\"A\"].value"),
        ],
    );
}

#[test]
fn reordering_a_keyed_list_changes_nothing() {
    let pod = |names: [&str; 2]| {
        let containers = names.map(|n| format!(r#"{{"name":"{n}"}}"#)).join(",");
        format!(r#"{{"spec":{{"containers":[{containers}]}}}}"#)
    };
    let world = check(
        POD,
        &[Create("m", &pod(["a", "b"])), Update("n", &pod(["b", "a"]))],
        &["m Update@1: .spec.containers[name=\"a\"] .spec.containers[name=\"b\"] \
           .spec.containers[name=\"a\"].name .spec.containers[name=\"a\"].resources \
           .spec.containers[name=\"b\"].name .spec.containers[name=\"b\"].resources"],
    );
    assert!(world.object().starts_with(r#"{"metadata":{},"spec":{"containers":[{"name":"b""#));
}

#[test]
fn the_oldest_updates_are_merged() {
    let mut world = World::new(CONFIG_MAP);
    for i in 0..12 {
        let data: Vec<String> = (0..=i).map(|k| format!(r#""{k:02}":"v""#)).collect();
        world.run(Update(&format!("m{i:02}"), &format!(r#"{{"data":{{{}}}}}"#, data.join(",")))).unwrap();
    }
    let owners = world.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], "ancient-changes Update@3: .data .data.00 .data.01 .data.02");
    assert_eq!(owners[1], "m03 Update@4: .data.03");
    assert_eq!(owners[9], "m11 Update@12: .data.11");
}

#[test]
fn clients_may_reset_or_send_owners_but_not_lose_them() {
    let create = Create("a", r#"{"data":{"x":"1"}}"#);
    let kept = ["a Update@1: .data .data.x"];
    for (sent, owners) in [
        (r#"{"data":{"x":"1"}}"#, &kept[..]),
        (r#"{"metadata":{"managedFields":[{}]},"data":{"x":"1"}}"#, &[]),
        (r#"{"metadata":{"managedFields":[{"manager":"z"}]},"data":{"x":"1"}}"#, &kept),
        (
            r#"{"metadata":{"managedFields":[{"manager":"z","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:x":{},".":{}}}}]},"data":{"x":"1"}}"#,
            &["z Update@never: .data .data.x"],
        ),
        (
            r#"{"metadata":{"managedFields":[{"manager":"z","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"bad":{}}}]},"data":{"x":"1"}}"#,
            &kept,
        ),
    ] {
        check(CONFIG_MAP, &[create, Update("b", sent)], owners);
    }
    // Once reset, only apply starts tracking again.
    let reset = Update("b", r#"{"metadata":{"managedFields":[{}]},"data":{"x":"1"}}"#);
    check(CONFIG_MAP, &[create, reset, Update("c", r#"{"data":{"x":"2"}}"#)], &[]);
    assert!(is_reset(&Value::Array(vec![])));
}

#[test]
fn a_status_update_cannot_send_owners() {
    check(
        POD,
        &[
            Create("a", r#"{"metadata":{"labels":{"x":"y"}},"spec":{"containers":null}}"#),
            UpdateStatus(
                "b",
                r#"{"metadata":{"labels":{"x":"y"},"managedFields":[{}]},"spec":{"containers":null},"status":{"phase":"Running"}}"#,
            ),
        ],
        &["a Update@1: .metadata.labels .metadata.labels.x", "b Update/status@2: .status.phase"],
    );
}

#[test]
fn a_field_that_became_atomic_is_owned_as_one() {
    let sent = r#"{"metadata":{"managedFields":[{"manager":"z","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:nodeSelector":{"f:a":{}}}}}]},"spec":{"containers":null,"nodeSelector":{"a":"b"}}}"#;
    let changed = r#"{"spec":{"containers":null,"nodeSelector":{"a":"c"}}}"#;
    check(POD, &[Create("m", sent), Update("n", changed)], &["n Update@2: .spec.nodeSelector"]);
}

#[test]
fn numbers_are_compared_by_worth() {
    assert!(compare::same(&Value::Int(1), &Value::Float(1.0)));
    assert!(!compare::same(&Value::Int(1), &Value::from("1")));
}

#[test]
fn managers_are_named_by_user_agents() {
    for (agent, expected) in [
        ("kubectl/v1.37.0 (linux/amd64)", "kubectl"),
        ("", ""),
        ("a\u{7}b\u{200b}c é/1", "abc é"),
        ("Mozilla", "Mozilla"),
    ] {
        assert_eq!(manager_from_user_agent(agent), expected);
    }
    assert_eq!(manager_from_user_agent(&"ü".repeat(100)), "ü".repeat(64).as_str());
}

#[test]
fn owners_are_validated() {
    let mut errors = crate::status::ErrorList::new();
    let list = json::parse(
        br#"[{"operation":"Update","fieldsType":"FieldsV1"},{"operation":"Other","fieldsType":"V2"},{}]"#,
    );
    validate_managed_fields(&list.unwrap(), "metadata.managedFields", &mut errors);
    let status = Status::invalid("", "Pod", "p", &errors);
    assert_eq!(
        status.message,
        "Pod \"p\" is invalid: [metadata.managedFields[1].operation: Unsupported value: \"Other\": supported values: \"Apply\", \"Update\", \
         metadata.managedFields[1].fieldsType: Invalid value: \"V2\": must be `FieldsV1`, \
         metadata.managedFields[2].operation: Required value: must not be empty]"
    );
    let mut errors = crate::status::ErrorList::new();
    validate_manager(&"a\u{7}".repeat(65), "fieldManager", &mut errors);
    assert_eq!(errors.0.len(), 66);
    assert_eq!(errors.0[1].detail, "invalid character U+0007 (at position 1)");
    for (list, why) in [
        (r#"[{"operation":"Update","fieldsType":"FieldsV1"}]"#, "apiVersion must not be empty"),
        (r#"[{"operation":"X"}]"#, "operation must be `Apply` or `Update`"),
        (r#"[{"operation":"Apply","apiVersion":"v1"}]"#, "missing fieldsType in managed fields entry 0"),
    ] {
        assert_eq!(check_managed_fields(&json::parse(list.as_bytes()).unwrap()).unwrap_err(), why);
    }
}
