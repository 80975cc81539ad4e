"""The status subresource of each kind: fields of the status, and changes of the other parts of the object through it."""
from .fields import TABLE, changed, leaves, operation, variants
from .form import *
from .objects import OBJECTS

TIME = "2024-01-01T00:00:00Z"
CONDITION = {"type": "X", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": TIME}
META = {**CONDITION, "observedGeneration": 1}
STATE = {"name": "c", "image": "i", "imageID": "j", "ready": True, "restartCount": 1, "started": True, "containerID": "a://b", "state": {"running": {"startedAt": TIME}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": TIME, "finishedAt": TIME, "containerID": "a://c"}}}
BALANCER = {"ingress": [{"ip": "192.0.2.9", "ipMode": "VIP", "ports": [{"port": 80, "protocol": "TCP", "error": "x.example/E"}]}, {"hostname": "h.example"}]}
STATUSES = {
    "service": {"loadBalancer": BALANCER, "conditions": [META]},
    "ingress": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ports": [{"port": 80, "protocol": "TCP", "error": "x.example/E"}]}, {"hostname": "h.example"}]}},
    "cidr": {"conditions": [META]},
    "namespace": {"phase": "Active", "conditions": [CONDITION]},
    "node": {"capacity": {"cpu": "2", "memory": "1Gi"}, "allocatable": {"cpu": "1"}, "phase": "Running", "conditions": [{**CONDITION, "lastHeartbeatTime": TIME}], "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}, "nodeInfo": {"kubeletVersion": "v1.36.2", "osImage": "o", "kernelVersion": "k", "containerRuntimeVersion": "c://1", "operatingSystem": "linux", "architecture": "amd64"}, "images": [{"names": ["a"], "sizeBytes": 1}], "volumesInUse": ["v"], "volumesAttached": [{"name": "a", "devicePath": "b"}], "features": {"supplementalGroupsPolicy": True}, "runtimeHandlers": [{"name": "r", "features": {"userNamespaces": True}}]},
    "pod-bound": {"phase": "Running", "conditions": [{**CONDITION, "type": "Ready", "lastProbeTime": TIME}], "message": "m", "reason": "R", "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}, {"ip": "fd00::1"}], "startTime": TIME, "qosClass": "BestEffort", "observedGeneration": 1, "containerStatuses": [STATE], "initContainerStatuses": [], "resize": ""},
    "deployment": {"observedGeneration": 1, "replicas": 4, "updatedReplicas": 3, "readyReplicas": 2, "availableReplicas": 1, "unavailableReplicas": 1, "terminatingReplicas": 1, "collisionCount": 1, "conditions": [{**CONDITION, "lastUpdateTime": TIME}]},
    "replica-set": {"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 1, "observedGeneration": 1, "conditions": [CONDITION]},
    "stateful-set": {"observedGeneration": 1, "replicas": 4, "readyReplicas": 2, "currentReplicas": 3, "updatedReplicas": 1, "availableReplicas": 1, "currentRevision": "a", "updateRevision": "b", "collisionCount": 1, "conditions": [CONDITION]},
    "daemon-set": {"currentNumberScheduled": 1, "numberMisscheduled": 2, "desiredNumberScheduled": 3, "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 1, "numberUnavailable": 1, "collisionCount": 1, "conditions": [CONDITION]},
    "replication-controller": {"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1, "observedGeneration": 1, "conditions": [CONDITION]},
}


def cases():
    for name, status in STATUSES.items():
        path, body = OBJECTS[name]
        target = path + "/" + body["metadata"]["name"]
        outside = [] if "namespaces/{ns}/" in path else [target]
        at = target + "/status"
        other = {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["x.example/y"]}, "spec": {"nope": 1, "replicas": 9, "type": "NodePort", "nodeName": "z", "unschedulable": False, "cidrs": ["10.9.0.0/24"], "ingressClassName": "z"}}
        whole = {**body, "status": status}
        start = [post(path, whole), patch(at, {"status": status})]
        yield case("statuses/%s-put" % name, post(path, whole), step("PUT", at, base=0, merge={"status": status, **other}), get(target), get(at), get(target, headers=TABLE), step("PUT", target, base=1, merge={"status": None}), patch(at, {"status": None}), patch(at, {"metadata": {"finalizers": None}}), delete(at), post(at, body), delete(target), cleanup=outside)
        for form, label in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            yield case("statuses/%s-%s" % (name, label), *start, patch(at, {**other, "status": {}}, form), patch(at, {"status": {"conditions": [{**CONDITION, "type": "Y"}]}}, form), patch(at, {"status": {"conditions": []}}, form), patch(target, {"status": {"conditions": [CONDITION]}}, form), patch(at, {"status": {"nope": 1}}, form), patch(at + "?fieldValidation=Strict", {"status": {"nope": 1}}, form), patch(at, {"metadata": {"resourceVersion": "1"}}, form), patch(at, {"metadata": {"uid": "x"}}, form), patch(at, {"metadata": {"name": "other"}}, form), patch(at, {"metadata": {"finalizers": None}}), delete(target), cleanup=outside)
        apply = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {"name": body["metadata"]["name"]}, "status": status}
        yield case("statuses/%s-apply" % name, post(path, body), patch(at + "?fieldManager=a", apply, APPLY), patch(at + "?fieldManager=b", apply, APPLY), patch(at + "?fieldManager=a&force=true", {**apply, "status": {}}, APPLY), patch(target + "?fieldManager=a&force=true", {**apply, "metadata": {**apply["metadata"], "labels": {"q": "r"}}}, APPLY), get(target, keep=["metadata.managedFields", "status"]), delete(target), patch(at + "?fieldManager=a", apply, APPLY), cleanup=outside)
        for where, value in leaves({"status": status}):
            bodies = [changed({"status": status}, where, v) for v in variants(value)]
            yield case("statuses/%s-%s" % (name, ".".join(map(str, where))), *start, *[patch(at + "?dryRun=All", [operation(where, v)], JSON_PATCH) for v in variants(value)], *[patch(at + "?dryRun=All", b) for b in bodies[1:4]], delete(target), cleanup=outside)
