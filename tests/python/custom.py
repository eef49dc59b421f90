"""Custom resources with the Python client: a definition by the typed API, its objects by the dynamic and the custom objects API."""

import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.dynamic.exceptions import NotFoundError, UnprocessibleEntityError

config.load_kube_config()

schema = client.V1JSONSchemaProps(
    type="object",
    properties={
        "spec": client.V1JSONSchemaProps(
            type="object",
            required=["size"],
            properties={
                "size": client.V1JSONSchemaProps(type="integer", minimum=1),
                "color": client.V1JSONSchemaProps(type="string", default="red"),
            },
        ),
        "status": client.V1JSONSchemaProps(type="object", x_kubernetes_preserve_unknown_fields=True),
    },
)
version = client.V1CustomResourceDefinitionVersion(
    name="v1", served=True, storage=True,
    schema=client.V1CustomResourceValidation(open_apiv3_schema=schema),
    subresources=client.V1CustomResourceSubresources(
        status={}, scale=client.V1CustomResourceSubresourceScale(
            spec_replicas_path=".spec.size", status_replicas_path=".status.size")),
)
definition = client.V1CustomResourceDefinition(
    metadata=client.V1ObjectMeta(name="widgets.example.com"),
    spec=client.V1CustomResourceDefinitionSpec(
        group="example.com", scope="Namespaced", versions=[version],
        names=client.V1CustomResourceDefinitionNames(plural="widgets", singular="widget", kind="Widget", short_names=["wd"])),
)
extensions = client.ApiextensionsV1Api()
extensions.create_custom_resource_definition(definition)
for event in watch.Watch().stream(extensions.list_custom_resource_definition, timeout_seconds=50):
    conditions = event["object"].status.conditions or []
    if any(c.type == "Established" and c.status == "True" for c in conditions):
        break
else:
    raise AssertionError("the definition was not established")

# the dynamic client finds the kind by discovery
cluster = dynamic.DynamicClient(client.ApiClient())
widgets = cluster.resources.get(api_version="example.com/v1", kind="Widget")
assert widgets.namespaced and widgets.short_names == ["wd"] and {"status", "scale"} <= set(widgets.subresources)
manifest = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}}, "spec": {"size": 2}}
created = widgets.create(body=manifest, namespace="default")
assert created.spec.color == "red" and created.metadata.generation == 1
try:
    widgets.create(body={**manifest, "metadata": {"name": "x"}, "spec": {"size": 0}}, namespace="default")
    raise AssertionError("an invalid object was created")
except UnprocessibleEntityError as error:
    assert "spec.size: Invalid value: 0" in str(error.body), error.body
assert [item.metadata.name for item in widgets.get(namespace="default", label_selector="a=b").items] == ["w"]
patched = widgets.patch(name="w", namespace="default", body={"spec": {"size": 3}}, content_type="application/merge-patch+json")
assert patched.spec.size == 3
applied = widgets.server_side_apply(
    name="w", namespace="default", field_manager="python",
    body={"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "blue"}}, force_conflicts=True)
assert applied.spec.to_dict() == {"size": 3, "color": "blue"}
status = widgets.status.patch(name="w", namespace="default", body={"status": {"size": 3}}, content_type="application/merge-patch+json")
assert status.status.size == 3
for event in widgets.watch(namespace="default", name="w", timeout=50):
    assert event["type"] == "ADDED" and event["object"].spec.color == "blue", event
    break

# the generated API of custom objects, which every operator in Python uses
custom = client.CustomObjectsApi()
where = {"group": "example.com", "version": "v1", "namespace": "default", "plural": "widgets"}
assert custom.get_namespaced_custom_object(name="w", **where)["spec"]["size"] == 3
assert custom.get_namespaced_custom_object_scale(name="w", **where)["spec"]["replicas"] == 3
custom.patch_namespaced_custom_object_scale(name="w", body={"spec": {"replicas": 5}}, **where)
assert len(custom.list_cluster_custom_object("example.com", "v1", "widgets")["items"]) == 1
body = custom.get_namespaced_custom_object(name="w", **where)
assert body["spec"]["size"] == 5
body["spec"]["size"] = 6
assert custom.replace_namespaced_custom_object(name="w", body=body, **where)["spec"]["size"] == 6
custom.delete_namespaced_custom_object(name="w", **where)
try:
    custom.get_namespaced_custom_object(name="w", **where)
    raise AssertionError("still there")
except ApiException as error:
    assert error.status == 404

extensions.delete_custom_resource_definition("widgets.example.com")
deadline = time.monotonic() + 50
while time.monotonic() < deadline:
    try:
        widgets.get(namespace="default")
    except NotFoundError:
        break
else:
    raise AssertionError("the resource is still served")
print("all good")
