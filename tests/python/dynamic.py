"""The dynamic Python client: everything it knows comes from discovery."""

from kubernetes import config, dynamic
from kubernetes.client import api_client
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

config.load_kube_config()
cluster = dynamic.DynamicClient(api_client.ApiClient())

maps = cluster.resources.get(api_version="v1", kind="ConfigMap")
assert maps.namespaced and "watch" in maps.verbs
manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"k": "1"}}
created = maps.create(body=manifest, namespace="default")
try:
    maps.create(body=manifest, namespace="default")
    raise AssertionError("created twice")
except ConflictError:
    pass
assert maps.get(name="m", namespace="default").data.k == "1"
assert [item.metadata.name for item in maps.get(namespace="default", label_selector="a=b").items] == ["m"]

patch = {"data": {"k": "2"}}
patched = maps.patch(name="m", namespace="default", body=patch, content_type="application/merge-patch+json")
assert patched.data.k == "2"
applied = maps.server_side_apply(
    name="m", namespace="default", field_manager="python",
    body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"mine": "3"}})
assert applied.data.to_dict() == {"k": "2", "mine": "3"}

created = maps.get(name="m", namespace="default").to_dict()
created["data"]["k"] = "4"
assert maps.replace(body=created, namespace="default").data.k == "4"

for event in maps.watch(namespace="default", name="m", timeout=50):
    assert event["type"] == "ADDED" and event["object"].data.k == "4", event
    break

maps.delete(name="m", namespace="default")
try:
    maps.get(name="m", namespace="default")
    raise AssertionError("still there")
except NotFoundError:
    pass

# one of every group that discovery lists
for group, version, kind in [("apps", "v1", "Deployment"), ("batch", "v1", "Job"), ("autoscaling", "v2", "HorizontalPodAutoscaler"),
                             ("networking.k8s.io", "v1", "Ingress"), ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
                             ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")]:
    resource = cluster.resources.get(api_version=f"{group}/{version}", kind=kind)
    assert resource.get().kind == f"{kind}List"
print("all good")
