"""Lists and watches: selectors, versions, pages, options."""
from .form import *


def cases():
    some = [post(SECRETS, secret(name=n, labels=l)) for n, l in (("a", {"env": "prod", "tier": "1"}), ("b", {"env": "dev"}), ("c", {}))]
    for selector in ("env=prod", "env==prod", "env!=prod", "env in (prod,dev)", "env notin (prod)", "env", "!env", "env,tier", "env=prod,tier=2", "env in ()", "env in (", "env=", "env in (,)", "tier>0", "tier<2", "tier>x", "tier>1.5", "=", "!", ",", "env,", ",env", "env prod", "env==", "env=prod=x", "env in prod", "env in (prod dev)", "env=a b", "Env=prod", "env=prod%20", "%20env=prod", "x.example/env",
                     "a/b/c", "env notin ()", "env!=", "! env", "!env=prod", "env in (prod),tier", "in in (in)", "notin=x", "env exists", "-a=b", "a=-b", "env=" + "a" * 64, "a" * 64, "env%3Dprod", "env%3C5", "env=prod,", "env=é", "()", "env()", "env in (prod,", "tier>=1", "env=in"):
        yield case("lists/labels-" + selector, *some, get(SECRETS + "?labelSelector=" + selector))
    fields = ("metadata.name=a", "metadata.name==a", "metadata.name!=a", "metadata.name", "metadata.name=", "=a", "x=y", "metadata.namespace={ns}", "metadata.namespace=none", "metadata.labels=x", "metadata.name=a,metadata.namespace={ns}", "metadata.name=a,", ",", "metadata.name>a", "metadata.name in (a)", "metadata.name=a\\,b", "metadata.name=a\\", "spec.type=NodePort", "spec.clusterIP=None",
              "metadata.uid=x", "metadata.name=a%20", "metadata.name!=a,metadata.name!=b", "metadata.name=a=b", "metadata.name=a\\x", "status.phase=Running", "spec.nodeName=x", "status.podIP=1.2.3.4", "spec.restartPolicy=Always", "spec.serviceAccountName=default", "involvedObject.name=x", "reason=x", "type=Opaque", "involvedObject.kind=Pod", "source=x", "reportingComponent=x", "spec.unschedulable=true", "metadata.creationTimestamp=x", "spec.hostNetwork=false", "status.nominatedNodeName=x", "status.podIPs=x", "spec.schedulerName=x")
    for path in (SECRETS, SERVICES, PODS, EVENTS, SLICES, ENDPOINTS, LEASES, "/api/v1/namespaces/{ns}/secrets", "/api/v1/namespaces/{ns}/serviceaccounts", "/apis/events.k8s.io/v1/namespaces/{ns}/events"):
        kind = path.replace("/namespaces/{ns}", "")
        for field in fields:
            if path == SECRETS:
                yield case("lists/fields-%s-%s" % (kind, field), *some, get(path + "?fieldSelector=" + field))
            else:
                yield case("lists/fields-%s-%s" % (kind, field), get(path + "?fieldSelector=" + field))
    for field in fields[:8] + ("spec.unschedulable=false", "status.phase=Active", "name=x"):
        for path in ("/api/v1/nodes", "/apis/networking.k8s.io/v1/ipaddresses", "/apis/networking.k8s.io/v1/servicecidrs", "/apis/apps/v1/namespaces/{ns}/deployments", "/apis/apps/v1/namespaces/{ns}/replicasets", "/apis/certificates.k8s.io/v1/certificatesigningrequests"):
            yield case("lists/fields-%s-%s" % (path, field), get(path + "?fieldSelector=" + field + ("&limit=1" if "ipaddr" in path else ""), keep=["kind"]))
    yield case("lists/namespaces-phase", get("/api/v1/namespaces?fieldSelector=status.phase=Active,metadata.name={ns}"), get("/api/v1/namespaces?fieldSelector=status.phase=Terminating,metadata.name={ns}"), get("/api/v1/namespaces?fieldSelector=name={ns}"))
    versions = ("", "resourceVersion=0", "resourceVersion=1", "resourceVersion=${2.metadata.resourceVersion}", "resourceVersion=${0.metadata.resourceVersion}", "resourceVersion=x", "resourceVersion=-1", "resourceVersion=999999999", "resourceVersion=00", "resourceVersion=1.5", "resourceVersion=")
    for version in versions:
        for match in ("", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Nope", "resourceVersionMatch="):
            for limit in ("", "limit=2", "limit=0"):
                if version in ("resourceVersion=1", "resourceVersion=999999999") or "0.metadata" in version and limit:
                    if match == "" or "Older" in match:
                        if version != "resourceVersion=1":
                            continue
                query = "&".join(x for x in (version, match, limit) if x)
                yield case("lists/version-" + query, *some, get(SECRETS + ("?" + query if query else "")))
    for query in ("limit=1", "limit=-1", "limit=x", "limit=1.5", "limit=99999999999999999999", "limit=", "limit=0", "limit=500", "limit=1&limit=2"):
        yield case("lists/limit-" + query, *some, get(SECRETS + "?" + query))
    yield case("lists/pages", *some, get(SECRETS + "?limit=1"), get(SECRETS + "?limit=1&continue=${3.metadata.continue}"), get(SECRETS + "?limit=1&continue=${4.metadata.continue}"), get(SECRETS + "?continue=${3.metadata.continue}"), get(SECRETS + "?continue=${3.metadata.continue}&resourceVersion=0"), get(SECRETS + "?continue=${3.metadata.continue}&resourceVersion=5"),
               get(SECRETS + "?continue=${3.metadata.continue}&resourceVersionMatch=Exact"), get(SECRETS + "?continue=${3.metadata.continue}&labelSelector=env"), get(SERVICES + "?continue=${3.metadata.continue}"), get(SECRETS + "?limit=1&labelSelector=env"), get(SECRETS + "?limit=1&fieldSelector=metadata.name=b"), get(SECRETS + "?limit=1&resourceVersion=0"), get(SECRETS + "?limit=3"), get(SECRETS + "?limit=2&resourceVersionMatch=Exact&resourceVersion=${2.metadata.resourceVersion}"))
    yield case("lists/page-sees-old", *some, get(SECRETS + "?limit=1"), delete(SECRETS + "/b"), post(SECRETS, secret(name="bb")), get(SECRETS + "?continue=${3.metadata.continue}"), get(SECRETS))
    # {"v":"meta.k8s.io/v1","rv":…,"start":…}
    for label, token in (("text", "x"), ("base64", "eyJ4IjoxfQ"), ("empty-object", "e30"), ("version-other", "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6ImEifQ"), ("old", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0"), ("no-start", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0"), ("dots", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi94In0"), ("zero", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhXHUwMDAwIn0"), ("negative", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9"), ("padded", "e30="), ("future", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTk5LCJzdGFydCI6ImFcdTAwMDAifQ")):
        yield case("lists/token-" + label, *some, get(SECRETS + "?continue=" + token), get(SECRETS + "?limit=1&continue=" + token))
    for query in ("watch=true", "watch=1", "watch=0", "watch=false", "watch=x", "watch", "watch=", "watch=true&timeoutSeconds=1", "watch=True", "watch=t"):
        yield case("lists/watch-word-" + query, *some, watch(SECRETS + "?timeoutSeconds=1&resourceVersion=0&" + query) if query not in ("watch=0", "watch=false") else get(SECRETS + "?timeoutSeconds=1&" + query))
    for version in ("", "resourceVersion=0", "resourceVersion=${0.metadata.resourceVersion}", "resourceVersion=x", "resourceVersion=-1", "resourceVersion=1"):
        for initial in ("", "sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=x"):
            for match in ("", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Exact", "resourceVersionMatch=x"):
                for bookmarks in ("", "allowWatchBookmarks=true"):
                    if version == "resourceVersion=1" and "NotOlder" not in match:
                        continue
                    query = "&".join(x for x in ("watch=1&timeoutSeconds=1", version, initial, match, bookmarks) if x)
                    yield case("lists/watch-" + query, *some, watch(SECRETS + "?" + query, bookmarks=True))
    for query in ("sendInitialEvents=true", "sendInitialEvents=false", "allowWatchBookmarks=true", "allowWatchBookmarks=x", "timeoutSeconds=x", "timeoutSeconds=-1", "timeoutSeconds=0", "unknown=1", "pretty=1", "limit=1&continue="):
        yield case("lists/option-" + query, *some, get(SECRETS + "?" + query))
    for query in ("fieldSelector=x=y", "fieldSelector=metadata.name", "labelSelector=(", "limit=1", "limit=x", "continue=abc", "timeoutSeconds=x", "timeoutSeconds=-1", "fieldSelector=metadata.name=a", "labelSelector=env"):
        yield case("lists/watch-option-" + query, *some, watch(SECRETS + "?watch=1&timeoutSeconds=1&resourceVersion=0&" + query))
    yield case("lists/watch-one", *some, watch(SECRETS + "/a?watch=1&timeoutSeconds=1&resourceVersion=0"), watch("/api/v1/watch/namespaces/{ns}/secrets?timeoutSeconds=1&resourceVersion=0"), watch("/api/v1/watch/namespaces/{ns}/secrets/a?timeoutSeconds=1&resourceVersion=0"), watch("/api/v1/watch/namespaces/{ns}?timeoutSeconds=1&resourceVersion=0"), get("/api/v1/watch"), post("/api/v1/watch/namespaces/{ns}/secrets", secret(name="z")))
    for accept in ("application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/yaml", "text/plain", "*/*", "application/json;stream=watch", "application/json;stream=x"):
        yield case("lists/watch-accept-" + accept, *some, watch(SECRETS + "?watch=1&timeoutSeconds=1&resourceVersion=0", headers={"Accept": accept}))
    for options in ("resourceVersion=0", "resourceVersion=1", "resourceVersion=x", "resourceVersion=999999", "resourceVersionMatch=Exact", "pretty=true", "watch=0", "fieldSelector=metadata.name=b", "labelSelector=x", "export=true", "exact=true", "limit=1"):
        if options != "resourceVersion=999999":
            yield case("lists/get-" + options, *some, get(SECRETS + "/a?" + options))
    for path in ("/api/v1/services?limit=1&labelSelector=none", "/api/v1/namespaces/none/services", "/api/v1/namespaces/Bad_/services", "/api/v1/namespaces//services", "/api/v1/namespaces/{ns}/services/", "/api/v1//namespaces", "/api/v1/namespaces/{ns}/", "/api/v1/", "/api/", "/apis/", "/apis/apps/", "/apis/discovery.k8s.io", "/apis/discovery.k8s.io/", "/apis/discovery.k8s.io/v1/", "/apis/discovery.k8s.io/v1beta1", "/apis/none.example", "/apis/none.example/v1", "/api/v2", "/none", "/", "/version", "/version/", "/healthz/", "/livez/ping", "/readyz/none", "/api/v1/none", "/api/v1/namespaces/{ns}/none", "/api/v1/namespaces/{ns}/services/none/none", "/api/v1/services/none", "/api/v1/pods/none",
                 "/api/v1/namespaces/{ns}/nodes", "/api/v1/namespaces/{ns}/nodes/none", "/api/v1/nodes/none/none", "/api/v1/namespaces/{ns}/services/none/proxy", "/apis/networking.k8s.io/v1/namespaces/{ns}/servicecidrs", "/api/v1/namespaces/{ns}/finalize", "/api/v1/namespaces/{ns}/status", "/api/v1/namespaces/none/status", "/api/v1/componentstatuses", "/api/v1/bindings", "/apis/discovery.k8s.io/v1/endpointslices/none"):
        if path not in ("/apis/", "/", "/api/v1/", "/version", "/version/", "/apis/apps/", "/api/", "/api/v1/componentstatuses", "/api/v1/bindings"):
            yield case("lists/path-" + path, get(path))
