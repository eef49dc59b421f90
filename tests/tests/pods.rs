//! Real containers: the lifecycle of pods on a node of this machine, with the native runtime and with
//! containerd. Nothing may be left of them in the end.

use corten_e2e::pods::{Node, PODS, Runtime, condition, container, events, items, pod};
use corten_e2e::{eventually, on_every_runtime};
use corten_testkit::Tool;
use serde_json::{Value, json};

fn a_pod_runs_and_leaves_nothing(runtime: Runtime) {
    let node = Node::start("runs", runtime);
    let mut asked = pod(
        "job",
        "Never",
        &[container("main", "echo $WHO; cat /shared/x /cm/a; echo bye > /dev/termination-log")],
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "from cm"}});
    node.client().post("/api/v1/namespaces/default/configmaps", &config).expect_status(201);
    asked["spec"]["initContainers"] = json!([container("first", "echo made > /shared/x")]);
    asked["spec"]["volumes"] =
        json!([{"name": "w", "emptyDir": {}}, {"name": "c", "configMap": {"name": "cm"}}]);
    let mounts = json!([{"name": "w", "mountPath": "/shared"}, {"name": "c", "mountPath": "/cm"}]);
    asked["spec"]["initContainers"][0]["volumeMounts"] = mounts.clone();
    asked["spec"]["containers"][0]["volumeMounts"] = mounts;
    asked["spec"]["containers"][0]["env"] =
        json!([{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    node.create(&asked);
    eventually("the pod terminates", || node.pod("job")["status"]["phase"] == "Succeeded");
    assert_eq!(node.log("job", "main"), "job\nmade\nfrom cm\n");
    let state = &node.pod("job")["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&state["reason"], &state["message"]), (&json!("Completed"), &json!("bye\n")), "{state}");
    node.end();
}

fn what_goes_wrong_is_told(runtime: Runtime) {
    let node = Node::start("wrong", runtime);
    node.create(&pod("crash", "Always", &[container("main", "exit 3")]));
    let mut hungry = pod("hungry", "Never", &[container("main", "tail /dev/zero")]);
    hungry["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "16Mi"}});
    node.create(&hungry);
    let mut lacking = pod("lacking", "Always", &[container("main", "sleep 1000")]);
    lacking["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]);
    node.create(&lacking);
    let mut absent = pod("absent", "Always", &[container("main", "true")]);
    absent["spec"]["containers"][0]["image"] = json!("absent:1");
    absent["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    node.create(&absent);
    let state = |name: &str| node.pod(name)["status"]["containerStatuses"][0]["state"].clone();
    eventually("the crash", || state("crash")["waiting"]["reason"] == "CrashLoopBackOff");
    eventually("the OOM kill", || {
        let terminated = &state("hungry")["terminated"];
        // containerd may learn of the OOM after the exit, and then reports only the exit code.
        terminated["reason"] == "OOMKilled"
            || (runtime == Runtime::Containerd && terminated["exitCode"] == 137)
    });
    eventually("the secret that is missing", || {
        state("lacking")["waiting"]
            == json!({"reason": "CreateContainerConfigError", "message": "secret \"none\" not found"})
    });
    eventually("the image that is missing", || state("absent")["waiting"]["reason"] == "ErrImageNeverPull");
    node.end();
}

fn probes_decide_who_is_ready_and_who_lives(runtime: Runtime) {
    let node = Node::start("probes", runtime);
    let mut asked = pod("web", "Always", &[container("main", "touch /tmp/ok; sleep 1000")]);
    let probe =
        json!({"exec": {"command": ["test", "-e", "/tmp/ok"]}, "periodSeconds": 1, "failureThreshold": 1});
    asked["spec"]["containers"][0]["readinessProbe"] = probe.clone();
    asked["spec"]["containers"][0]["livenessProbe"] = json!({
        "exec": {"command": ["sh", "-c", "test -e /tmp/ok && rm /tmp/ok"]},
        "periodSeconds": 1, "initialDelaySeconds": 2, "failureThreshold": 1,
    });
    node.create(&asked);
    eventually("readiness", || condition(&node.pod("web"), "Ready") == "True");
    eventually("a restart", || {
        node.pod("web")["status"]["containerStatuses"][0]["restartCount"].as_i64() > Some(0)
    });
    node.end();
}

/// A terminating pod reports its readiness until it has terminated.
fn a_terminating_pod_reports_its_readiness(runtime: Runtime) {
    let node = Node::start("ending", runtime);
    let script = "trap 'touch /ending; sleep 100000' TERM; while true; do sleep 0.1; done";
    let mut main = container("main", script);
    main["readinessProbe"] = json!({"exec": {"command": ["test", "!", "-e", "/ending"]}, "periodSeconds": 1, "failureThreshold": 1});
    let mut asked = pod("slow", "Always", &[main]);
    asked["spec"]["terminationGracePeriodSeconds"] = json!(3600);
    node.create(&asked);
    eventually("the pod is ready", || condition(&node.pod("slow"), "Ready") == "True");
    node.client().delete(format!("{PODS}/slow")).expect_status(200);
    eventually("it is not any more", || condition(&node.pod("slow"), "Ready") == "False");
    let ending = node.pod("slow");
    assert_eq!(ending["status"]["phase"], "Running");
    assert!(ending["status"]["containerStatuses"][0]["state"]["running"].is_object(), "it still runs");
    node.client().delete(format!("{PODS}/slow?gracePeriodSeconds=1")).expect_status(200);
    node.end();
}

fn containers_outlive_the_process_that_started_them(runtime: Runtime) {
    let mut node = Node::start("outlive", runtime);
    let many = if runtime == Runtime::Native { 50 } else { 5 };
    for index in 0..many {
        node.create(&pod(&format!("p{index}"), "Always", &[container("main", "sleep 100000")]));
    }
    let ready = |node: &Node| items(node.client()).iter().filter(|p| condition(p, "Ready") == "True").count();
    eventually("all run", || ready(&node) == many);
    let ids = |node: &Node| -> Vec<Value> {
        let mut ids: Vec<_> = items(node.client())
            .iter()
            .map(|p| {
                let status = &p["status"]["containerStatuses"][0];
                json!([p["metadata"]["name"], status["containerID"], status["restartCount"]])
            })
            .collect();
        ids.sort_by_key(Value::to_string);
        ids
    };
    let before = ids(&node);
    node.replace();
    eventually("all run again", || ready(&node) == many);
    assert_eq!(ids(&node), before, "none was restarted");
    node.end();
}

fn manifests_run_without_being_asked_for(runtime: Runtime) {
    let node = Node::start("static", runtime);
    let directory = node.directory.path().join("manifests");
    std::fs::create_dir(&directory).expect("a folder is made");
    let write = |script: &str| {
        let manifest = pod("web", "Always", &[container("main", script)]).to_string();
        std::fs::write(directory.join("web.json"), manifest).expect("a manifest is written");
    };
    let name = format!("web-{}", node.name);
    let path = format!("{PODS}/{name}");
    let shown = || Some(node.client().get(&path)).filter(|shown| shown.status == 200).map(|s| s.expect(200));
    let hash = |pod: &Value| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].clone();
    let runs = || shown().filter(|pod| condition(pod, "Ready") == "True");

    write("echo first; sleep 100000");
    eventually("the mirror is ready", || runs().is_some());
    let first = runs().expect("it is ready");
    assert_eq!(first["metadata"]["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Node");
    let id = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();

    node.client().delete(&path);
    let again = || runs().filter(|pod| pod["metadata"]["uid"] != first["metadata"]["uid"]);
    eventually("the mirror is back", || again().is_some());
    assert_eq!(id(&again().expect("it is back")), id(&first), "the pod itself goes on");

    write("echo second; sleep 100000");
    eventually("another pod takes its place", || runs().is_some_and(|pod| hash(&pod) != hash(&first)));
    std::fs::remove_file(directory.join("web.json")).expect("the manifest is removed");
    eventually("the mirror is gone", || shown().is_none());
    node.end();
}

fn sessions_reach_into_containers(runtime: Runtime) {
    let node = Node::start("sessions", runtime);
    node.create(&pod("web", "Always", &[container("main", "echo hello; sleep 100000")]));
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    let kubectl = Tool::new("kubectl", &node.server);
    assert_eq!(kubectl.run(&["logs", "web"]).ok(), "hello\n");
    let asked = ["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"];
    for protocol in ["true", "false"] {
        let kubectl = Tool::new("kubectl", &node.server).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", protocol);
        let failed = kubectl.run(&asked);
        assert_eq!((failed.status.code(), failed.stdout.as_str()), (Some(7), "out\n"), "{failed:?}");
        // Some kubectls begin to read before they have created their streams, and report the empty
        // message that opens the first: an extra line, before or among the container's.
        assert!(failed.stderr.lines().any(|line| line == "err"), "{failed:?}");
        let typed = kubectl.run_with_input(&["exec", "-i", "web", "--", "cat"], "typed\n");
        assert_eq!(typed.ok(), "typed\n");
    }
    node.end();
}

fn classes_choose_handlers(runtime: Runtime) {
    let node = Node::start("classes", runtime);
    let native = if runtime == Runtime::Native { "corten" } else { "runc" };
    for (name, handler) in [("known", native), ("runc", "runc"), ("unknown", "unconfigured")] {
        let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler});
        node.client().post("/apis/node.k8s.io/v1/runtimeclasses", &class).expect_status(201);
        let mut asked = pod(name, "Always", &[container("main", "sleep 100000")]);
        asked["spec"]["runtimeClassName"] = json!(name);
        // Admission may not have observed the class yet.
        eventually("the class is known", || {
            let made = node.client().post(PODS, &asked);
            made.status == 201
        });
    }
    for name in ["known", "runc"] {
        eventually("the pod of a handler runs", || condition(&node.pod(name), "Ready") == "True");
    }
    let kubectl = Tool::new("kubectl", &node.server);
    assert_eq!(kubectl.run(&["exec", "runc", "--", "hostname"]).ok(), "runc\n");
    let told = "no runtime for \"unconfigured\" is configured";
    eventually("the unconfigured handler is reported", || events(node.client(), "unknown").contains(told));
    node.end();
}

fn a_replaced_pod_leaves_nothing(runtime: Runtime) {
    let node = Node::start("replaced", runtime);
    let asked = pod("same", "Always", &[container("main", "sleep 100000")]);
    let running = || condition(&node.pod("same"), "Ready") == "True";
    node.create(&asked);
    eventually("the first pod runs", running);
    node.client().delete(format!("{PODS}/same?gracePeriodSeconds=0")).expect_status(200);
    node.create(&asked);
    eventually("the second pod runs", running);
    let uid = node.pod("same")["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
    eventually("nothing is left of the first pod", || node.pods_on_disk() == [uid.as_str()]);
    node.end();
}

fn containers_restart_while_statuses_are_rejected(runtime: Runtime) {
    let node = Node::start("rejected", runtime);
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let broken = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "broken"},
        "webhooks": [{
            "name": "broken.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/status"], "operations": ["UPDATE"]}],
            // Nothing listens on this port.
            "clientConfig": {"url": "https://127.0.0.1:1/"},
        }],
    });
    node.create(&pod("crash", "Always", &[container("main", "sleep 2")]));
    eventually("the container has run", || node.attempts("crash", "main") > 0);
    node.client().post(hooks, &broken).expect_status(201);
    let before = node.attempts("crash", "main");
    eventually("the container is restarted", || node.attempts("crash", "main") > before);
    node.client().delete(format!("{hooks}/broken")).expect_status(200);
    eventually("the restarts are reported", || {
        let count = node.pod("crash")["status"]["containerStatuses"][0]["restartCount"].as_u64();
        count.is_some_and(|count| count >= before)
    });
    node.end();
}

on_every_runtime! {
    a_pod_runs_and_leaves_nothing
    a_replaced_pod_leaves_nothing
    containers_restart_while_statuses_are_rejected
    what_goes_wrong_is_told
    probes_decide_who_is_ready_and_who_lives
    a_terminating_pod_reports_its_readiness
    containers_outlive_the_process_that_started_them
    manifests_run_without_being_asked_for
    sessions_reach_into_containers
    classes_choose_handlers
}
