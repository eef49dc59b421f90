//! Server-side apply.

use super::*;

const CONFIG_MAP: &str = "core/v1.ConfigMap";
const DEPLOYMENT: &str = "apps/v1.Deployment";
const POD: &str = "core/v1.Pod";
const SERVICE: &str = "core/v1.Service";

#[test]
fn applying_to_nothing_creates_and_owns_what_was_applied() {
    let world = check(
        POD,
        &[Apply(
            "a",
            r#"{"metadata":{"name":"p","labels":{"x":"y"}},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]}]}}"#,
        )],
        &["a Apply@1: .metadata.labels.x .spec.containers[name=\"c\"] .spec.containers[name=\"c\"].name \
           .spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"] \
           .spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"].containerPort"],
    );
    assert_eq!(
        world.object(),
        r#"{"metadata":{"labels":{"x":"y"},"name":"p"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{}}]},"status":{}}"#
    );
}

#[test]
fn an_applier_that_leaves_out_what_it_alone_owned_removes_it() {
    let first = Apply("a", r#"{"data":{"x":"1","y":"1"}}"#);
    let world = check(CONFIG_MAP, &[first, Apply("a", r#"{"data":{"x":"1"}}"#)], &["a Apply@2: .data.x"]);
    assert_eq!(world.object(), r#"{"data":{"x":"1"},"metadata":{}}"#);
    // Nothing is applied any more: nothing owned, nothing left.
    let world = check(CONFIG_MAP, &[first, Apply("a", "{}")], &[]);
    assert_eq!(world.object(), r#"{"metadata":{}}"#);
    // Shared with another applier: it stays.
    let shared = Apply("b", r#"{"data":{"y":"1"}}"#);
    let world = check(
        CONFIG_MAP,
        &[first, shared, Apply("a", r#"{"data":{"x":"1"}}"#)],
        &["b Apply@never: .data.y", "a Apply@1: .data.x"],
    );
    assert_eq!(world.object(), r#"{"data":{"x":"1","y":"1"},"metadata":{}}"#);
    // Taken by an update: it stays, with that value.
    let world = check(
        CONFIG_MAP,
        &[first, Update("u", r#"{"data":{"x":"1","y":"2"}}"#), Apply("a", r#"{"data":{"x":"1"}}"#)],
        &["a Apply@1: .data.x", "u Update@2: .data.y"],
    );
    assert_eq!(world.object(), r#"{"data":{"x":"1","y":"2"},"metadata":{}}"#);
}

#[test]
fn conflicts_name_every_field_and_owner() {
    let created = Create(
        "kubectl-client-side-apply",
        r#"{"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},"template":{"spec":{"containers":null}}}}"#,
    );
    let status = refused(
        DEPLOYMENT,
        &[created, Apply("m", r#"{"spec":{"replicas":2}}"#)],
        409,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas",
    );
    assert_eq!(status.reason, "Conflict");
    let cause = &status.details.causes[0];
    assert_eq!(
        (cause.reason.as_str(), cause.message.as_str(), cause.field.as_str()),
        (
            "FieldManagerConflict",
            "conflict with \"kubectl-client-side-apply\" using apps/v1",
            ".spec.replicas"
        )
    );
    refused(
        CONFIG_MAP,
        &[
            Apply("b", r#"{"data":{"x":"1","y":"1"}}"#),
            Update("a", r#"{"data":{"x":"1","y":"1","z":"1"}}"#),
            Apply("c", r#"{"data":{"x":"2","y":"2","z":"2"}}"#),
        ],
        409,
        "Apply failed with 3 conflicts: conflicts with \"a\" using v1:\n- .data.z\nconflicts with \"b\":\n- .data.x\n- .data.y",
    );
    refused(
        POD,
        &[
            Create("c", r#"{"spec":{"containers":[{"name":"x","image":"1"}]}}"#),
            UpdateStatus(
                "k",
                r#"{"metadata":{"labels":{"l":"1"}},"spec":{"containers":[{"name":"x","image":"1"}]}}"#,
            ),
            Apply(
                "m",
                r#"{"metadata":{"labels":{"l":"2"}},"spec":{"containers":[{"name":"x","image":"1"}]}}"#,
            ),
        ],
        409,
        "Apply failed with 1 conflict: conflict with \"k\" with subresource \"status\" using v1: .metadata.labels.l",
    );
}

#[test]
fn equal_values_are_shared_and_force_takes_over() {
    let created = Create("u", r#"{"data":{"x":"1"}}"#);
    check(
        CONFIG_MAP,
        &[created, Apply("a", r#"{"data":{"x":"1"}}"#)],
        &["a Apply@never: .data.x", "u Update@1: .data .data.x"],
    );
    let world = check(
        CONFIG_MAP,
        &[created, Force("a", r#"{"data":{"x":"2"}}"#)],
        &["a Apply@2: .data.x", "u Update@1: .data"],
    );
    assert_eq!(world.object(), r#"{"data":{"x":"2"},"metadata":{}}"#);
    check(
        CONFIG_MAP,
        &[Apply("b", r#"{"data":{"x":"1"}}"#), Force("a", r#"{"data":{"x":"2"}}"#)],
        &["a Apply@2: .data.x"],
    );
    // The other manager may give in, too.
    check(
        CONFIG_MAP,
        &[created, Force("a", r#"{"data":{"x":"2"}}"#), Apply("a", r#"{"data":{"x":"2"}}"#)],
        &["a Apply@2: .data.x", "u Update@1: .data"],
    );
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let text = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}"#;
    let mut world = World::new(POD);
    world.run(Apply("a", text)).unwrap();
    let before = world.live.clone();
    world.run(Apply("a", text)).unwrap();
    world.run(Update("u", &json::write_to_string(before.as_ref().unwrap()))).unwrap();
    world.run(Force("a", text)).unwrap();
    assert_eq!(world.live, before);
}

#[test]
fn objects_without_owners_get_one_at_the_first_apply() {
    let mut world = World::new(CONFIG_MAP);
    world.live = Some(world.parse(r#"{"metadata":{"uid":"u"},"data":{"x":"1","y":"1"}}"#, Extent::Whole));
    let status = world.run(Apply("a", r#"{"data":{"x":"2"}}"#)).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
    world.run(Apply("a", r#"{"data":{"x":"1"}}"#)).unwrap();
    assert_eq!(
        world.owners(),
        ["a Apply@never: .data.x", "before-first-apply Update@2: .data .data.x .data.y"]
    );
}

#[test]
fn lists_merge_by_key() {
    let first = Apply("a", r#"{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]}}"#);
    // Another applier adds an item; the first changes and drops its own.
    let world = check(
        POD,
        &[
            first,
            Apply("b", r#"{"spec":{"containers":[{"name":"c","image":"1"}]}}"#),
            Apply("a", r#"{"spec":{"containers":[{"name":"b","image":"2"}]}}"#),
        ],
        &[
            "b Apply@2: .spec.containers[name=\"c\"] .spec.containers[name=\"c\"].image .spec.containers[name=\"c\"].name",
            "a Apply@3: .spec.containers[name=\"b\"] .spec.containers[name=\"b\"].image .spec.containers[name=\"b\"].name",
        ],
    );
    assert!(world.object().contains(
        r#""containers":[{"image":"2","name":"b","resources":{}},{"image":"1","name":"c","resources":{}}]"#
    ));
    // An item with fields of another manager stays, without those that only the first owned.
    let with_command =
        r#"{"spec":{"containers":[{"name":"a","image":"1","command":["x"]},{"name":"b","image":"1"}]}}"#;
    let world = check(
        POD,
        &[
            first,
            Update("u", with_command),
            Apply("a", r#"{"spec":{"containers":[{"name":"b","image":"1"}]}}"#),
        ],
        &[
            "a Apply@3: .spec.containers[name=\"b\"] .spec.containers[name=\"b\"].image .spec.containers[name=\"b\"].name",
        ],
    );
    assert!(!world.object().contains("command"), "{}", world.object());
}

#[test]
fn sets_and_atomic_lists() {
    let finalizers = |list: &str| format!(r#"{{"metadata":{{"finalizers":[{list}]}}}}"#);
    let world = check(
        CONFIG_MAP,
        &[
            Apply("a", &finalizers(r#""x","y""#)),
            Apply("b", &finalizers(r#""z","y""#)),
            Apply("a", &finalizers(r#""x""#)),
        ],
        &[
            "a Apply@1: .metadata.finalizers[=\"x\"]",
            "b Apply@2: .metadata.finalizers[=\"y\"] .metadata.finalizers[=\"z\"]",
        ],
    );
    assert_eq!(world.object(), r#"{"metadata":{"finalizers":["x","z","y"]}}"#);
    let tolerations = |key: &str| {
        format!(r#"{{"spec":{{"containers":[{{"name":"c"}}],"tolerations":[{{"key":"{key}"}}]}}}}"#)
    };
    refused(
        POD,
        &[Apply("a", &tolerations("x")), Apply("b", &tolerations("y"))],
        409,
        "Apply failed with 1 conflict: conflict with \"a\": .spec.tolerations",
    );
}

#[test]
fn a_key_that_is_left_out_has_its_default() {
    let ports = |list: &str| format!(r#"{{"spec":{{"ports":[{list}]}}}}"#);
    let mut world = World::new(SERVICE);
    world
        .run(Apply("a", &ports(r#"{"port":80,"name":"x"},{"port":80,"protocol":"UDP","name":"y"}"#)))
        .unwrap();
    world.run(Apply("b", &ports(r#"{"port":80,"protocol":"TCP","appProtocol":"h"}"#))).unwrap();
    let object = world.object();
    assert!(object.contains(r#"{"appProtocol":"h","name":"x","port":80,"protocol":"TCP","#), "{object}");
    assert_eq!(world.live.unwrap().items_at(&["spec", "ports"]).len(), 2);
}

#[test]
fn lists_keep_the_applied_order() {
    let containers = |names: &str| {
        let items: Vec<String> = names.chars().map(|c| format!(r#"{{"name":"{c}"}}"#)).collect();
        format!(r#"{{"spec":{{"containers":[{}]}}}}"#, items.join(","))
    };
    for (live, applied, expected) in [
        ("abc", "cba", "cba"),
        ("abc", "b", "abc"),
        ("abc", "dbe", "adbce"),
        ("abcd", "ca", "bcda"),
        ("abc", "xyz", "abcxyz"),
        ("abc", "cx", "abcx"),
    ] {
        let mut world = World::new(POD);
        world.run(Create("u", &containers(live))).unwrap();
        world.run(Apply("a", &containers(applied))).unwrap();
        let live = world.live.unwrap();
        let names: String =
            live.items_at(&["spec", "containers"]).iter().filter_map(|c| c.str_at(&["name"])).collect();
        assert_eq!(names, expected, "{applied} over the live object");
    }
}

#[test]
fn status_is_not_owned_through_the_main_endpoint() {
    check(
        POD,
        &[Apply(
            "a",
            r#"{"metadata":{"labels":{"x":"y"}},"spec":{"containers":[]},"status":{"phase":"Running"}}"#,
        )],
        &["a Apply@1: .metadata.labels.x"],
    );
}

#[test]
fn values_of_another_type_are_refused() {
    let refused = |text: &str, why: &str| {
        let why = format!("failed to create typed patch object (/p; /v1, Kind=Pod): {why}");
        refused(POD, &[Apply("a", text)], 500, &why);
    };
    refused(r#"{"metadata":{"name":"p"},"spec":{"bogus":1}}"#, ".spec.bogus: field not declared in schema");
    refused(
        r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"},{"name":"a"}]}}"#,
        ".spec.containers: duplicate entries for key [name=\"a\"]",
    );
    refused(
        r#"{"metadata":{"name":"p"},"spec":{"containers":[{"image":"a"},{"image":"b"}]}}"#,
        ".spec.containers: duplicate entries for key [name=\"\"]",
    );
    refused(
        r#"{"metadata":{"name":"p"},"spec":{"topologySpreadConstraints":[{"maxSkew":1}, {"maxSkew":2}]}}"#,
        ".spec.topologySpreadConstraints: duplicate entries for key [topologyKey=\"\",whenUnsatisfiable=\"\"]",
    );
    refused(
        r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":{"a":"b","c":[1,"d"]}}]}}"#,
        ".spec.containers[name=a=\"b\"c=[1,\"d\"]].name: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"a\":\"b\", \"c\":[]interface {}{1, \"d\"}}}",
    );
    refused(
        r#"{"metadata":{"name":"p"},"spec":{"containers":{"a":1},"hostNetwork":"x","priority":"1","tolerations":[{"key":1}]}}"#,
        "errors:\n  .spec.containers: expected list, got &{map[a:1]}\n  .spec.hostNetwork: expected boolean, got &{x}\n  .spec.priority: expected numeric (int or float), got string\n  .spec.tolerations[0].key: expected string, got &value.valueUnstructured{Value:1}",
    );
}

#[test]
fn owners_and_other_versions_may_not_be_applied() {
    refused(
        POD,
        &[Apply("a", r#"{"metadata":{"managedFields":[]}}"#)],
        400,
        "metadata.managedFields must be nil",
    );
    let world = World::new(DEPLOYMENT);
    let ctx = Context {
        schema: &world.schema,
        api_version: "apps/v2",
        manager: "m",
        subresource: "",
        now: "",
        filter: None,
        versions: None,
    };
    let status = apply(&ctx, None, &world.parse("{}", Extent::Partial), false).unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "invalid object type: apps/v1, Kind=Deployment")
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_client_side() {
    let annotated = |replicas: u32, last: u32| {
        let last = format!(
            r#"{{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"spec\":{{\"replicas\":{last}}}}}"#
        );
        format!(
            r#"{{"metadata":{{"annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{last}"}}}},"spec":{{"replicas":{replicas},"selector":{{}},"template":{{"spec":{{"containers":null}}}}}}}}"#
        )
    };
    let applied = r#"{"spec":{"replicas":5}}"#;
    let mut world = World::new(DEPLOYMENT);
    world.run(Create("kubectl-client-side-apply", &annotated(3, 3))).unwrap();
    world.run(Apply("kubectl", applied)).unwrap();
    assert_eq!(world.owners()[0], "kubectl Apply@2: .spec.replicas");
    assert_eq!(
        world.live.unwrap().str_at(&[
            "metadata",
            "annotations",
            "kubectl.kubernetes.io/last-applied-configuration"
        ]),
        Some("{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"spec\":{\"replicas\":5}}\n")
    );
    let conflict = "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas";
    let created = annotated(3, 3);
    refused(
        DEPLOYMENT,
        &[Create("kubectl-client-side-apply", &created), Apply("other", applied)],
        409,
        conflict,
    );
    // The live value is not the applied one: another client has changed it.
    let changed = annotated(3, 4);
    refused(
        DEPLOYMENT,
        &[Create("kubectl-client-side-apply", &changed), Apply("kubectl", applied)],
        409,
        conflict,
    );
}

#[test]
fn free_form_objects_have_members_and_embedded_ones_do_not() {
    let revision = |data: &str| format!(r#"{{"revision":1,"data":{data}}}"#);
    check(
        "apps/v1.ControllerRevision",
        &[Apply("a", &revision(r#"{"x":{"y":1}}"#))],
        &["a Apply@1: .data .revision"],
    );
    let free = |old: &str, new: &str| {
        let kind = schema::Kind::Any(schema::AnyForm::Free);
        let field = schema::Field {
            name: "spec".into(),
            kind,
            numbers: Vec::new(),
            required: false,
            default: None,
            pointer: false,
            keep: false,
            patch: schema::PatchStrategy::default(),
            enum_values: Vec::new(),
            openapi: schema::OpenApiFacts::default(),
        };
        let schema = Struct::new("x/v1".into(), "X".into(), vec![field]);
        let parse = |text: &str| json::parse(format!(r#"{{"spec":{text}}}"#).as_bytes()).unwrap();
        let found = compare::compare(&parse(old), &parse(new), &schema).unwrap();
        let merged = merge::merge(&parse(old), &parse(new), &schema).unwrap();
        (
            found.changed.paths(usize::MAX).join(" "),
            found.removed.paths(usize::MAX).join(" "),
            json::write_to_string(&merged),
        )
    };
    for (old, new, changed, removed, merged) in [
        (
            r#"{"a":1,"b":[1]}"#,
            r#"{"a":2,"b":[2],"c":{}}"#,
            ".spec.a .spec.b .spec.c",
            "",
            r#"{"spec":{"a":2,"b":[2],"c":{}}}"#,
        ),
        (r#"{"a":1}"#, "5", ".spec", ".spec.a", r#"{"spec":5}"#),
        ("5", r#"{"a":1}"#, ".spec .spec.a", "", r#"{"spec":{"a":1}}"#),
        (r#"{"a":1}"#, r#"{"b":1}"#, ".spec.b", ".spec.a", r#"{"spec":{"a":1,"b":1}}"#),
        (r#"{"a":1}"#, "null", "", ".spec.a", r#"{"spec":{"a":1}}"#),
    ] {
        assert_eq!(
            free(old, new),
            (changed.to_owned(), removed.to_owned(), merged.to_owned()),
            "{old} to {new}"
        );
    }
}
