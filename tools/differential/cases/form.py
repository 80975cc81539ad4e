"""The form of a case: an id and steps, as in conformance/api/*.json."""

SERVICES = "/api/v1/namespaces/{ns}/services"
ENDPOINTS = "/api/v1/namespaces/{ns}/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
SECRETS = "/api/v1/namespaces/{ns}/secrets"
PODS = "/api/v1/namespaces/{ns}/pods"
EVENTS = "/api/v1/namespaces/{ns}/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def case(name, *steps, cleanup=()):
    """A case. `cleanup` lists paths outside of the namespace."""
    return {"id": name, "steps": list(steps), "cleanup": list(cleanup)}


def step(do, path, body=None, headers=None, **more):
    out = {"do": do, "path": path}
    if body is not None:
        out["body"] = body
    if headers:
        out["headers"] = headers
    out.update(more)
    return out


def get(path, **more):
    return step("GET", path, **more)


def post(path, body, **more):
    return step("POST", path, body, **more)


def put(path, body, **more):
    return step("PUT", path, body, **more)


def delete(path, body=None, **more):
    return step("DELETE", path, body, **more)


def patch(path, body, form=MERGE, **more):
    return step("PATCH", path, body, {"Content-Type": form}, **more)


def watch(path, **more):
    return step("WATCH", path, **more)


def service(spec=None, **metadata):
    spec = {"ports": [{"port": 80}]} if spec is None else spec
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", **metadata}, "spec": spec}


def endpoints(subsets, **metadata):
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s", **metadata}, "subsets": subsets}


def endpoint_slice(name="s-1", address_type="IPv4", endpoints=None, ports=None, **more):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": address_type,
        "endpoints": [{"addresses": ["10.1.2.3"]}] if endpoints is None else endpoints,
        "ports": [{"name": "", "port": 9376, "protocol": "TCP"}] if ports is None else ports,
        **more,
    }


def config_map(data=None, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}, "data": data or {"a": "b"}}


def pod(name="p", **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "p"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def secret(**metadata):
    """An object of a kind that no controller adds to namespaces."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c", **metadata}, "data": {"a": "Yg=="}}
