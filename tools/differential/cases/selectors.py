"""Field selectors of each kind, in lists, tables and collections of deletions; conflicts and preconditions of each kind."""
from .fields import TABLE
from .form import *
from .objects import OBJECTS

FIELDS = ("metadata.name={name}", "metadata.name!={name}", "metadata.namespace={ns}", "metadata.namespace!={ns}", "metadata.namespace=", "spec.nodeName=n", "spec.nodeName!=n", "spec.nodeName=", "spec.restartPolicy=Always", "spec.schedulerName=default-scheduler", "spec.serviceAccountName=default", "spec.serviceAccountName=", "spec.hostNetwork=false", "status.phase=Pending", "status.phase=Active", "status.phase=", "status.podIP=", "status.podIPs=", "status.nominatedNodeName=",
          "spec.unschedulable=true", "spec.unschedulable=false", "status.replicas=0", "status.replicas!=0", "status.successful=0", "status.successful=", "type=x/y", "type!=x/y", "spec.type=LoadBalancer", "spec.clusterIP=None", "spec.signerName=x", "involvedObject.kind=Pod", "involvedObject.namespace={ns}", "involvedObject.name=p", "involvedObject.uid=u", "involvedObject.apiVersion=v1", "involvedObject.resourceVersion=", "involvedObject.fieldPath=f", "reason=R", "reportingComponent=x.example/y", "source=c", "type=Normal",
          "regarding.name=p", "reportingController=x.example/y", "spec.parentRef.name=m", "addressType=IPv4", "spec.ingressClassName=c", "name={name}", "metadata.name={name},metadata.namespace={ns}", "metadata.labels.a=b")


def cases():
    for name, (path, body) in OBJECTS.items():
        if name in ("config-map", "service-account"):
            continue  # Portolan creates objects of these kinds with a Namespace.
        inside = "namespaces/{ns}/" in path
        target = path + "/" + body["metadata"]["name"]
        everywhere = path.replace("/namespaces/{ns}", "") if inside else path
        for field in FIELDS:
            query = "?fieldSelector=" + field.replace("{name}", body["metadata"]["name"])
            if inside:
                yield case("selectors/%s-%s" % (name, field), post(path, body), get(path + query), get(path + query, headers=TABLE), get(everywhere + query + ",metadata.namespace={ns}"), delete(path + query), get(path + "?limit=1"))
            else:
                mine = "" if query.endswith("=" + body["metadata"]["name"]) else ",metadata.name=" + body["metadata"]["name"]
                yield case("selectors/%s-%s" % (name, field), post(path, body), get(path + query + mine), get(path + query + mine, headers=TABLE), delete(path + query + mine), get(target), cleanup=[target])
        yield case("selectors/conflicts-" + name, post(path, body), post(path, body), post(path + "?dryRun=All", body), step("PUT", target, base=0, merge={"metadata": {"uid": "x"}}), step("PUT", target, base=0, merge={"metadata": {"resourceVersion": "1"}}), step("PUT", target, base=0, merge={"metadata": {"resourceVersion": ""}}), step("PUT", target + "-other", base=0), step("PUT", target, base=0, merge={"kind": "Nope"}), put(target + "-other", {**body, "metadata": {"name": body["metadata"]["name"] + "-other"}}), delete(target, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}}), delete(target, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}}), delete(target + "?propagationPolicy=Foreground"), delete(target + "?propagationPolicy=Orphan"), get(target), patch(target, {"metadata": {"finalizers": ["x.example/y"]}}), patch(target, {"metadata": {"finalizers": None}}), get(target), delete(target + "-other"), cleanup=[] if inside else [target, target + "-other"])
