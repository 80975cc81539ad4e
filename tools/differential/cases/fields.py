"""Each field of the objects in objects.py with other values, in dry runs of create and update, and with each Table."""
import copy

from .form import *
from .objects import OBJECTS

TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
TEXTS = ("", "A_ b", "a" * 64, "10.0.0.1", "1", 5, None, {})
NUMBERS = (0, -1, 1, 65536, 4294967296, 1.5, "1", None)
SKIPPED = {"apiVersion", "kind", "metadata.name"}


def leaves(value, path=()):
    """The paths of all values, those of maps and lists included."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, path + (key,))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], path + (0,))


def changed(body, path, value):
    """A copy of the object with another value at the path; without it if the value is Ellipsis."""
    out = copy.deepcopy(body)
    at = out
    for part in path[:-1]:
        at = at[part]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return out


def operation(path, value):
    pointer = "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return {"op": "remove", "path": pointer} if value is ... else {"op": "replace", "path": pointer, "value": value}


def variants(value):
    if isinstance(value, bool):
        return (..., not value, None, "true")
    if isinstance(value, int):
        return (...,) + tuple(v for v in NUMBERS if v != value)
    if isinstance(value, str):
        return (...,) + tuple(v for v in TEXTS if v != value)
    if isinstance(value, dict):
        return (..., {}, None, {"nope": 1}, [])
    return (..., [], None, {}, [None], value + value if len(value) == 1 else value[:1])


def cases():
    for name, (path, body) in OBJECTS.items():
        target = path + "/" + body["metadata"]["name"]
        outside = [] if "namespaces/{ns}/" in path else [target]
        yield case("fields/table-" + name, step("POST", path + "?dryRun=All", body, TABLE), post(path, body), get(target, headers=TABLE), get(target), put(target, body), patch(target, {"metadata": {"labels": {"x": "y"}}}, STRATEGIC), patch(target + "?fieldManager=x&force=true", body, APPLY), delete(target), cleanup=outside)
        for where, value in leaves(body):
            dotted = ".".join(map(str, where))
            if dotted in SKIPPED:
                continue
            bodies = [changed(body, where, v) for v in variants(value)]
            steps = [post(path + "?dryRun=All", b) for b in bodies] + [post(path, body)]
            steps += [patch(target + "?dryRun=All", [operation(where, v)], JSON_PATCH) for v in variants(value)]
            yield case("fields/%s-%s" % (name, dotted), *steps, delete(target), cleanup=outside)
