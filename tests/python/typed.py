"""The typed Python client: create, read, change, select, page, watch, delete."""

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core = client.CoreV1Api()
apps = client.AppsV1Api()
NAMESPACE = "python"


def refused(status, reason, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == status and reason in error.body, (error.status, error.body)
        return
    raise AssertionError(f"{call.__name__} went well; expected {status} {reason}")


def pod(name, **labels):
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="registry.example/image:1")]),
    )


assert client.VersionApi().get_code().minor == "37"
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))

# create, read
created = core.create_namespaced_pod(NAMESPACE, pod("one", colour="red"))
assert created.metadata.uid and created.metadata.creation_timestamp and created.status.phase == "Pending"
refused(409, "AlreadyExists", core.create_namespaced_pod, NAMESPACE, pod("one"))
refused(404, "NotFound", core.read_namespaced_pod, "nowhere", NAMESPACE)
core.create_namespaced_pod(NAMESPACE, pod("two", colour="blue"))
core.create_namespaced_pod(NAMESPACE, pod("three", colour="red"))

# select, page
names = lambda found: [item.metadata.name for item in found.items]
assert names(core.list_namespaced_pod(NAMESPACE, label_selector="colour=red")) == ["one", "three"]
assert names(core.list_namespaced_pod(NAMESPACE, field_selector="metadata.name=two")) == ["two"]
assert names(core.list_pod_for_all_namespaces(label_selector="colour in (blue)")) == ["two"]
first = core.list_namespaced_pod(NAMESPACE, limit=2)
assert len(first.items) == 2 and first.metadata.remaining_item_count == 1
rest = core.list_namespaced_pod(NAMESPACE, limit=2, _continue=first.metadata._continue)
assert names(first) + names(rest) == ["one", "three", "two"]

# change
patched = core.patch_namespaced_pod("one", NAMESPACE, {"metadata": {"annotations": {"note": "here"}}})
assert patched.metadata.annotations["note"] == "here"
refused(409, "Conflict", core.replace_namespaced_pod, "one", NAMESPACE, created)
patched.metadata.labels["colour"] = "green"
assert core.replace_namespaced_pod("one", NAMESPACE, patched).metadata.labels["colour"] == "green"
status = core.patch_namespaced_pod_status("one", NAMESPACE, {"status": {"phase": "Running"}})
assert status.status.phase == "Running"
jump = [{"op": "test", "path": "/metadata/labels/colour", "value": "green"},
        {"op": "remove", "path": "/metadata/labels/colour"}]
assert not core.patch_namespaced_pod("one", NAMESPACE, jump).metadata.labels

# deployments and their scale
labels = {"app": "web"}
deployment = client.V1Deployment(
    metadata=client.V1ObjectMeta(name="web"),
    spec=client.V1DeploymentSpec(
        replicas=2,
        selector=client.V1LabelSelector(match_labels=labels),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels=labels),
            spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="registry.example/image:1")]),
        ),
    ),
)
assert apps.create_namespaced_deployment(NAMESPACE, deployment).metadata.generation == 1
apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 7}})
assert apps.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 7

# watch: from where the list ended, through changes, to the end
version = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
core.create_namespaced_pod(NAMESPACE, pod("four"))
core.patch_namespaced_pod("four", NAMESPACE, {"metadata": {"labels": {"a": "b"}}})
core.delete_namespaced_pod("four", NAMESPACE)
seen = []
watcher = watch.Watch()
for event in watcher.stream(core.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=50):
    seen.append((event["type"], event["object"].metadata.name))
    if event["type"] == "DELETED":
        watcher.stop()
# Pods are marked as deleted before they are.
assert seen == [("ADDED", "four"), ("MODIFIED", "four"), ("MODIFIED", "four"), ("DELETED", "four")], seen

# secrets, events, leases
core.create_namespaced_secret(
    NAMESPACE, client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"word": "open"}))
secret = core.read_namespaced_secret("s", NAMESPACE)
assert secret.type == "Opaque" and secret.data == {"word": "b3Blbg=="} and not secret.string_data
leases = client.CoordinationV1Api()
leases.create_namespaced_lease(NAMESPACE, client.V1Lease(
    metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(holder_identity="me")))
assert leases.read_namespaced_lease("l", NAMESPACE).spec.holder_identity == "me"

# delete
core.delete_collection_namespaced_pod(NAMESPACE)
assert names(core.list_namespaced_pod(NAMESPACE)) == []
print("all good")
