#!/usr/bin/env python3
"""Drives an API server with the Python client `kubernetes`, as a program of somebody else would.

  python_client.py KUBECONFIG

Prints one line for each step. Exit status: 0 if every step came out as the client expects it.
"""
import sys
import threading

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "default"


def step(what, holds):
    print("%s %s" % ("ok  " if holds else "FAIL", what))
    if not holds:
        sys.exit(1)


def refused(what, status, reason, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        step(what, error.status == status and reason in error.body)
    else:
        step(what, False)


def services(core):
    body = client.V1Service(
        metadata=client.V1ObjectMeta(name="web", labels={"app": "web"}),
        spec=client.V1ServiceSpec(
            selector={"app": "web"}, ports=[client.V1ServicePort(port=80, target_port="http")]))
    # The client reads the version at which the Service was created, so that the watch begins behind it.
    created = core.create_namespaced_service(NAMESPACE, body, field_manager="python")
    step("a Service gets an address", bool(created.spec.cluster_ip))
    step("its creator is recorded", created.metadata.managed_fields[0].manager == "python")
    refused("a name is taken once", 409, "AlreadyExists", core.create_namespaced_service, NAMESPACE, body)
    listed = core.list_namespaced_service(NAMESPACE, label_selector="app=web")
    step("a list by label", [s.metadata.name for s in listed.items] == ["web"])
    events = watched(core.list_namespaced_service, created.metadata.resource_version, [
        lambda: core.patch_namespaced_service("web", NAMESPACE, {"metadata": {"labels": {"tier": "front"}}}),
        lambda: core.delete_namespaced_service("web", NAMESPACE),
    ])
    step("a watch tells of both", events == ["MODIFIED", "DELETED"])
    refused("what is gone is not found", 404, "NotFound", core.read_namespaced_service, "web", NAMESPACE)


def watched(listing, version, changes):
    """The types of the events that the changes bring about."""
    doing = threading.Thread(target=lambda: [change() for change in changes])
    doing.start()
    stream = watch.Watch()
    types = []
    for event in stream.stream(listing, NAMESPACE, resource_version=version, timeout_seconds=20,
                               field_selector="metadata.name=web"):
        types.append(event["type"])
        if len(types) == len(changes):
            stream.stop()
    doing.join()
    return types


def patches(core):
    body = {"metadata": {"name": "p"}, "spec": {"ports": [{"name": "a", "port": 80}]}}
    core.create_namespaced_service(NAMESPACE, body)
    strategic = core.patch_namespaced_service("p", NAMESPACE, {"spec": {"ports": [{"name": "b", "port": 81}]}})
    step("a strategic merge patch adds a port", len(strategic.spec.ports) == 2)
    json_patch = core.patch_namespaced_service(
        "p", NAMESPACE, [{"op": "remove", "path": "/spec/ports/1"}])
    step("a JSON patch takes it away", len(json_patch.spec.ports) == 1)
    merged = core.patch_namespaced_service(
        "p", NAMESPACE, {"metadata": {"annotations": {"x": "y"}}},
        _content_type="application/merge-patch+json")
    step("a merge patch adds an annotation", merged.metadata.annotations == {"x": "y"})
    json_patch.metadata.labels = {"stale": "yes"}
    refused("a stale replace is a conflict", 409, "Conflict",
            core.replace_namespaced_service, "p", NAMESPACE, json_patch)
    dry = core.delete_namespaced_service("p", NAMESPACE, dry_run="All")
    step("a dry run deletes nothing", core.read_namespaced_service("p", NAMESPACE).metadata.uid == dry.metadata.uid)
    core.delete_namespaced_service("p", NAMESPACE)


def endpoints(core, discovery):
    address = client.V1EndpointAddress(ip="192.0.2.1")
    subset = client.V1EndpointSubset(addresses=[address], ports=[client.CoreV1EndpointPort(port=8080)])
    body = client.V1Endpoints(metadata=client.V1ObjectMeta(name="e"), subsets=[subset])
    created = core.create_namespaced_endpoints(NAMESPACE, body)
    step("Endpoints get a protocol", created.subsets[0].ports[0].protocol == "TCP")
    created.subsets[0].addresses[0].ip = "192.0.2.2"
    replaced = core.replace_namespaced_endpoints("e", NAMESPACE, created)
    step("Endpoints are replaced", replaced.subsets[0].addresses[0].ip == "192.0.2.2")
    core.delete_namespaced_endpoints("e", NAMESPACE)
    piece = client.V1EndpointSlice(
        metadata=client.V1ObjectMeta(generate_name="web-", labels={"kubernetes.io/service-name": "web"}),
        address_type="IPv4", endpoints=[client.V1Endpoint(addresses=["192.0.2.1"])],
        ports=[client.DiscoveryV1EndpointPort(port=8080)])
    created = discovery.create_namespaced_endpoint_slice(NAMESPACE, piece)
    step("a slice gets a name and a generation",
         created.metadata.name.startswith("web-") and created.metadata.generation == 1)
    created.endpoints[0].conditions = client.V1EndpointConditions(ready=False)
    replaced = discovery.replace_namespaced_endpoint_slice(created.metadata.name, NAMESPACE, created)
    step("a change of a slice counts", replaced.metadata.generation == 2)
    discovery.delete_collection_namespaced_endpoint_slice(
        NAMESPACE, label_selector="kubernetes.io/service-name=web")
    left = discovery.list_namespaced_endpoint_slice(NAMESPACE, label_selector="kubernetes.io/service-name=web")
    step("a collection is deleted by label", left.items == [])


def pages(core):
    for number in range(5):
        core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "m%d" % number, "labels": {"page": "1"}}})
    names, token = [], None
    while token != "":
        more = {"_continue": token} if token else {}
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="page=1", limit=2, **more)
        names += [item.metadata.name for item in page.items]
        # Its name has changed with the versions of the client.
        token = getattr(page.metadata, "var_continue", None) or getattr(page.metadata, "_continue", None) or ""
    step("a list comes in pages", names == ["m0", "m1", "m2", "m3", "m4"])


def main():
    config.load_kube_config(sys.argv[1])
    core, discovery = client.CoreV1Api(), client.DiscoveryV1Api()
    step("the version is one of Kubernetes", client.VersionApi().get_code().major == "1")
    groups = [group.name for group in client.ApisApi().get_api_versions().groups]
    step("discovery has the group of slices", "discovery.k8s.io" in groups)
    services(core)
    patches(core)
    endpoints(core, discovery)
    pages(core)


if __name__ == "__main__":
    main()
