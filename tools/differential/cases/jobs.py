"""Jobs: changes of the status. JSON patches whose values have duplicate fields."""
import itertools
import random

from .form import *

JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
JOB, STATUS = JOBS + "/j", JOBS + "/j/status"
TIMES = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")


def job(**spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def conditions(*kinds, state="True"):
    return [{"type": kind, "status": state, "lastProbeTime": TIMES[0], "lastTransitionTime": TIMES[0]} for kind in kinds]


SPECS = {"plain": {}, "suspended": {"suspend": True}, "indexed": {"completionMode": "Indexed", "completions": 5, "parallelism": 2}, "elastic": {"completionMode": "Indexed", "completions": 5, "parallelism": 5},
         "policy": {"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": [{"succeededCount": 1}]}}}
KINDS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")


def status(r):
    out = {}
    if r.random() < 0.8:
        out["startTime"] = r.choice(TIMES)
    if r.random() < 0.4:
        out["completionTime"] = r.choice(TIMES)
    for field, share in (("active", 0.3), ("ready", 0.2), ("succeeded", 0.4), ("failed", 0.3), ("terminating", 0.2)):
        if r.random() < share:
            out[field] = r.choice((0, 1, 2, -1) if r.random() < 0.2 else (0, 1, 2))
    if r.random() < 0.25:
        out["completedIndexes"] = r.choice(("0", "0,2-4", "5", "1,0", "x", "3-1", "1-2-3", ""))
    if r.random() < 0.1:
        out["failedIndexes"] = r.choice(("0", "3", ""))
    if r.random() < 0.2:
        out["uncountedTerminatedPods"] = r.choice(({}, {"succeeded": ["a"]}, {"failed": ["a", ""]}, {"succeeded": ["a"], "failed": ["a"]}))
    out["conditions"] = conditions(*r.sample(KINDS, r.choice((0, 1, 1, 2, 2, 3))), state=r.choice(("True", "True", "False")))
    return out


def cases():
    for (label, spec), kinds in itertools.product(SPECS.items(), itertools.chain(*(itertools.combinations(KINDS[:4], n) for n in range(4)))):
        done = {"startTime": TIMES[0], "conditions": conditions(*kinds)}
        for fields in ({}, {"completionTime": TIMES[1]}):
            for first in ({}, {"active": 1, "startTime": TIMES[0]}):
                yield case("jobs/%s-%s-%d-%d" % (label, "-".join(kinds), len(fields), len(first)), post(JOBS, job(**spec)), patch(STATUS, {"status": first}), patch(STATUS, {"status": {**done, "active": None, **fields}}), patch(STATUS, {"status": {"conditions": None, "completionTime": None}}))
    for number in range(400):
        r = random.Random("job-%d" % number)
        label = r.choice(list(SPECS))
        yield case("jobs/status-%d" % number, post(JOBS, job(**SPECS[label])), *[patch(STATUS, {"status": status(r)}) for _ in range(r.choice((2, 3, 4)))])
    template = lambda **more: {"spec": {"template": {"spec": more}}}
    container = {"name": "c", "image": "i"}
    for label, change in {
        "image": template(containers=[{**container, "image": "j"}]), "resources": template(containers=[{**container, "resources": {"requests": {"cpu": "1"}}}]), "selector": template(nodeSelector={"a": "b"}), "tolerations": template(tolerations=[{"operator": "Exists"}]), "gates": template(schedulingGates=[{"name": "a"}]),
        "affinity": template(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}}), "pod-affinity": template(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "labelSelector": {}}]}}), "affinity-empty": template(affinity={}), "labels": {"spec": {"template": {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}}}},
        "deadline": template(activeDeadlineSeconds=5), "init": template(initContainers=[{"name": "d", "image": "i"}]), "both": template(nodeSelector={"a": "b"}, priorityClassName="x"), "replacement": {"spec": {"podReplacementPolicy": "Failed"}}, "manual": {"spec": {"manualSelector": True}}, "backoff": {"spec": {"backoffLimit": 1, "activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 5, "parallelism": 3}}, "completions": {"spec": {"completions": 3}}, "mode": {"spec": {"completionMode": "Indexed"}},
    }.items():
        for state, first in {"new": {}, "started": {"startTime": TIMES[0]}, "stopped": {"startTime": TIMES[0], "conditions": conditions("Suspended")}, "active": {"active": 1}}.items():
            for suspend in (True, False):
                yield case("jobs/change-%s-%s-%s" % (label, state, suspend), post(JOBS, job(suspend=suspend)), patch(STATUS, {"status": first}), patch(JOB, change, STRATEGIC))
    for label, operations in {
        "labels": '{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}}', "spec": '{"op":"replace","path":"/spec/ports/0","value":{"port":80,"port":81}}', "last": '{"op":"add","path":"/spec/ports/-","value":{"name":"b","port":80,"port":81}}', "list": '{"op":"add","path":"/spec/ports","value":[{"port":80,"port":81}]}',
        "then-inside": '{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}},{"op":"add","path":"/metadata/labels/b","value":"3"}', "then-removed": '{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}},{"op":"remove","path":"/metadata/labels"}', "then-test": '{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}},{"op":"test","path":"/metadata/labels","value":{"a":"2"}}',
        "then-other": '{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}},{"op":"add","path":"/metadata/annotations","value":{}}', "then-copy": '{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}},{"op":"copy","from":"/metadata/labels","path":"/metadata/annotations"}', "then-move": '{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}},{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}',
        "unknown": '{"op":"add","path":"/spec/nope","value":{"a":1,"a":2}}', "test": '{"op":"test","path":"/spec/nope","value":{"a":1,"a":2}}', "deep": '{"op":"replace","path":"/metadata","value":{"name":"s","labels":{"a":"1","a":"2"}}}', "deep-inside": '{"op":"add","path":"/spec","value":{"ports":[{"port":80,"name":"a","name":"b"}],"selector":{"a":"b"}}},{"op":"add","path":"/spec/selector/c","value":"d"}', "operation": '{"op":"add","op":"add","path":"/metadata/labels","value":{}}',
    }.items():
        for mode in ("", "?fieldValidation=Strict", "?fieldValidation=Ignore"):
            yield case("jobs/duplicates-%s-%s" % (label, mode[17:]), post(SERVICES, service()), patch(SERVICES + "/s" + mode, "[%s]" % operations, JSON_PATCH))
