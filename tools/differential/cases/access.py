"""Reviews, tokens, certificate requests, roles and bindings."""
from .form import *

AUTHORIZATION = "/apis/authorization.k8s.io/v1/"
REVIEWS = {"self": ("SelfSubjectAccessReview", AUTHORIZATION + "selfsubjectaccessreviews"), "subject": ("SubjectAccessReview", AUTHORIZATION + "subjectaccessreviews"), "local": ("LocalSubjectAccessReview", AUTHORIZATION + "namespaces/{ns}/localsubjectaccessreviews")}
RBAC = "/apis/rbac.authorization.k8s.io/v1/"
ROLES, BINDINGS = RBAC + "namespaces/{ns}/roles", RBAC + "namespaces/{ns}/rolebindings"
CLUSTER_ROLES = RBAC + "clusterroles"
ACCOUNTS = "/api/v1/namespaces/{ns}/serviceaccounts"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RESOURCE = {"namespace": "{ns}", "verb": "get", "group": "", "version": "v1", "resource": "pods", "name": "p"}


def review(kind, **spec):
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def cases():
    yield from reviews()
    yield from tokens()
    yield from roles()


def reviews():
    specs = {
        "resource": {"resourceAttributes": RESOURCE}, "path": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}, "both": {"resourceAttributes": RESOURCE, "nonResourceAttributes": {"path": "/x", "verb": "get"}}, "none": {}, "empty-resource": {"resourceAttributes": {}}, "empty-path": {"nonResourceAttributes": {}},
        "other-namespace": {"resourceAttributes": {**RESOURCE, "namespace": "other"}}, "no-namespace": {"resourceAttributes": {k: v for k, v in RESOURCE.items() if k != "namespace"}}, "subresource": {"resourceAttributes": {**RESOURCE, "subresource": "status"}}, "unknown": {"resourceAttributes": {**RESOURCE, "nope": 1}}, "null": {"resourceAttributes": None},
        "fields": {"resourceAttributes": {**RESOURCE, "fieldSelector": {"rawSelector": "spec.nodeName=n"}}}, "fields-bad": {"resourceAttributes": {**RESOURCE, "fieldSelector": {"rawSelector": "=("}}}, "fields-both": {"resourceAttributes": {**RESOURCE, "fieldSelector": {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}}}, "fields-empty": {"resourceAttributes": {**RESOURCE, "fieldSelector": {}}},
        "fields-requirements": {"resourceAttributes": {**RESOURCE, "fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "", "operator": "X", "values": []}, {"key": "c", "operator": "Exists", "values": ["d"]}, {"key": "e", "operator": "NotIn"}]}}}, "labels": {"resourceAttributes": {**RESOURCE, "labelSelector": {"rawSelector": "a in (b)"}}}, "labels-bad": {"resourceAttributes": {**RESOURCE, "labelSelector": {"rawSelector": "a b"}}}, "labels-requirements": {"resourceAttributes": {**RESOURCE, "labelSelector": {"requirements": [{"key": "a b", "operator": "In"}, {"key": "a", "operator": "Nope"}]}}},
    }
    for label, spec in specs.items():
        for name, (kind, path) in REVIEWS.items():
            who = {} if name == "self" else {"user": "u", "groups": ["g"], "uid": "1", "extra": {"e": ["f"]}}
            yield case("access/%s-%s" % (name, label), post(path, review(kind, **spec, **who)))
            if name != "self":
                yield case("access/%s-nobody-%s" % (name, label), post(path, review(kind, **spec)), post(path, review(kind, **spec, groups=["g"])), post(path, review(kind, **spec, user="")))
    for name, (kind, path) in REVIEWS.items():
        good = review(kind, resourceAttributes=RESOURCE, **({} if name == "self" else {"user": "u"}))
        yield case("access/forms-" + name, post(path, {}), post(path, {**good, "kind": "Nope"}), post(path, {**good, "metadata": {"name": "x"}}), post(path, {**good, "metadata": {"namespace": "other"}}), post(path, {**good, "status": {"allowed": False}}), post(path + "?dryRun=All", good), post(path + "?fieldValidation=Strict", {**good, "nope": 1}), post(path + "?fieldManager=x", good), get(path), delete(path), put(path + "/x", good), patch(path + "/x", {}), post(path, "{"), post(path, good, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}), post(path, good, headers={"Accept": "application/yaml"}), post(path, good, headers={"Accept": "text/plain"}))
    rules = AUTHORIZATION + "selfsubjectrulesreviews"
    for label, spec in {"namespace": {"namespace": "{ns}"}, "none": {}, "empty": {"namespace": ""}, "unknown": {"namespace": "none-such", "nope": 1}}.items():
        yield case("access/rules-" + label, post(rules, review("SelfSubjectRulesReview", **spec)))
    self = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    yield case("access/self-subject", post(self, who, keep=["kind", "status.userInfo.username", "status.userInfo.groups"]), post(self, {**who, "metadata": {"name": "x"}}, keep=["kind", "metadata.name"]), post(self, {}, keep=["kind"]), post(self + "?dryRun=All", who, keep=["kind"]), get(self), post(self, {**who, "kind": "X"}))
    token = "/apis/authentication.k8s.io/v1/tokenreviews"
    check = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    yield case("access/token-review", post(token, check), post(token, {**check, "spec": {"token": ""}}), post(token, {**check, "spec": {"token": "nope"}}), post(token, {**check, "spec": {"token": "nope", "audiences": ["a"]}}), post(token, {**check, "spec": {"token": "a.b.c"}}), post(token, {**check, "metadata": {"namespace": "x"}, "spec": {"token": "nope"}}), post(token + "?dryRun=All", {**check, "spec": {"token": "nope"}}), get(token), post(token, {**check, "spec": {"nope": 1}}))


def tokens():
    path = ACCOUNTS + "/a/token"
    account = post(ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})
    kept = ["kind", "metadata.name", "metadata.namespace", "spec.audiences", "spec.expirationSeconds", "spec.boundObjectRef"]
    def request(**spec):
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    for label, spec in {"plain": {}, "audience": {"audiences": ["x"]}, "audiences-empty": {"audiences": []}, "audiences-twice": {"audiences": ["x", "x", ""]}, "short": {"expirationSeconds": 599}, "ten-minutes": {"expirationSeconds": 600}, "zero": {"expirationSeconds": 0}, "long": {"expirationSeconds": 1 << 32}, "too-long": {"expirationSeconds": (1 << 32) + 1}, "negative": {"expirationSeconds": -1}, "null": {"expirationSeconds": None}, "text": {"expirationSeconds": "x"},
                        "bound-none": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "none"}}, "bound-pod": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}, "bound-uid": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "x"}}, "bound-secret": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "c"}}, "bound-node": {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "none"}}, "bound-kind": {"boundObjectRef": {"apiVersion": "v1", "kind": "Service", "name": "s"}}, "bound-version": {"boundObjectRef": {"apiVersion": "v2", "kind": "Pod", "name": "p"}}, "bound-empty": {"boundObjectRef": {}}, "unknown": {"nope": 1}}.items():
        yield case("access/token-" + label, account, post(PODS, pod(serviceAccountName="a")), post(SECRETS, secret()), post(path, request(**spec), keep=kept), post(path, request(**spec)) if label in ("short", "zero", "too-long", "negative", "bound-none", "bound-uid", "bound-kind", "bound-version", "bound-empty", "bound-node", "text") else get(path))
    yield case("access/token-forms", account, post(ACCOUNTS + "/none/token", request()), post(path, {}, keep=kept), post(path, {"kind": "Nope", "apiVersion": "v1"}), post(path + "?dryRun=All", request(), keep=kept), post(path, {**request(), "metadata": {"name": "b"}}), post(path, {**request(), "metadata": {"namespace": "b"}}), put(path, request()), delete(path), patch(path, {}), delete(ACCOUNTS + "/a"), post(path, request()))


def roles():
    def role(*rules, **more):
        return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": list(rules), **more}
    rules = {"plain": {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, "no-verbs": {"apiGroups": [""], "resources": ["pods"]}, "no-groups": {"resources": ["pods"], "verbs": ["get"]}, "no-resources": {"apiGroups": [""], "verbs": ["get"]}, "paths": {"nonResourceURLs": ["/x"], "verbs": ["get"]}, "paths-and": {"nonResourceURLs": ["/x"], "resources": ["pods"], "apiGroups": [""], "verbs": ["get"]}, "names": {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a", ""]}, "stars": {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, "empty": {}, "texts": {"apiGroups": [5], "resources": "x", "verbs": None}}
    for label, rule in rules.items():
        yield case("access/role-" + label, post(ROLES, role(rule)), put(ROLES + "/r", role(rule, rules["plain"])), post(CLUSTER_ROLES + "?dryRun=All", {**role(rule), "kind": "ClusterRole"}), get(ROLES + "/r"))
    for name in ("a:b", "a b", "a/b", "A", "..", "a%b", "", "a" * 300, "é"):
        yield case("access/role-name-" + name[:5], post(ROLES, {**role(), "metadata": {"name": name}}), get(ROLES, keep=["kind"]))
    def binding(ref=None, *subjects, **more):
        return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": ref or {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": list(subjects), **more}
    group = "rbac.authorization.k8s.io"
    for label, ref in {"none": {"kind": "", "name": "", "apiGroup": ""}, "group-missing": {"kind": "Role", "name": "r"}, "group-other": {"apiGroup": "x", "kind": "Role", "name": "r"}, "kind-other": {"apiGroup": group, "kind": "X", "name": "r"}, "cluster": {"apiGroup": group, "kind": "ClusterRole", "name": "r"}, "name-bad": {"apiGroup": group, "kind": "Role", "name": "a/b"}, "name-none": {"apiGroup": group, "kind": "Role"}}.items():
        yield case("access/binding-role-" + label, post(BINDINGS, binding(ref)), post(BINDINGS, binding()), put(BINDINGS + "/b", binding(ref)), patch(BINDINGS + "/b", {"roleRef": ref}, STRATEGIC), patch(BINDINGS + "/b?fieldManager=x&force=true", binding(ref), APPLY), post(RBAC + "clusterrolebindings?dryRun=All", {**binding(ref), "kind": "ClusterRoleBinding"}))
    for label, subject in {"account": {"kind": "ServiceAccount", "name": "s", "namespace": "n"}, "account-no-namespace": {"kind": "ServiceAccount", "name": "s"}, "account-group": {"kind": "ServiceAccount", "name": "s", "namespace": "n", "apiGroup": group}, "account-bad": {"kind": "ServiceAccount", "name": "S_", "namespace": "n"}, "user": {"kind": "User", "name": "u"}, "user-namespace": {"kind": "User", "name": "u", "namespace": "n"}, "user-group": {"kind": "User", "name": "u", "apiGroup": "x"}, "user-empty": {"kind": "User", "name": ""}, "group": {"kind": "Group", "name": "g"}, "group-empty-group": {"kind": "Group", "name": "g", "apiGroup": ""}, "kind": {"kind": "X", "name": "x"}, "empty": {}, "unknown": {"kind": "User", "name": "u", "nope": 1}}.items():
        yield case("access/subject-" + label, post(BINDINGS, binding(None, subject)), patch(BINDINGS + "/b", {"subjects": [subject]}), patch(BINDINGS + "/b", {"subjects": None}), put(BINDINGS + "/b", binding(None, subject, subject)), post(RBAC + "clusterrolebindings?dryRun=All", {**binding(None, subject), "kind": "ClusterRoleBinding"}), get(BINDINGS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}))
    yield case("access/certificate-request", post(REQUESTS, {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "{ns}"}, "spec": {"request": "", "signerName": "", "usages": []}}), post(REQUESTS, {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "{ns}"}, "spec": {"request": "bm9wZQ==", "signerName": "a b", "usages": ["nope", "nope"], "expirationSeconds": 5}}), post(REQUESTS, {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "{ns}"}}), get(REQUESTS + "/{ns}"), cleanup=[REQUESTS + "/{ns}"])
