#!/usr/bin/env python3
"""Send the same requests to kube-apiserver and to Portolan, and print how the responses differ.

  compare.py --reference URL --portolan URL --token T [--only SUBSTRING] [--texts] [--answers FILE] [AREA…]

An area is a module of cases/. Responses are normalised as conformance/run_api.py does it. --texts compares messages, the order
of causes and the texts of warnings, too. --answers keeps the responses of kube-apiserver in a file and asks only for cases
that the file lacks. Exit status: 0 if no response differs.
"""
import argparse, importlib, json, os, pkgutil, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "conformance")]
import cases
import run_api


class Client(run_api.Client):
    """Keeps the texts of the warnings of the last response."""

    def __init__(self, server, token):
        super().__init__(argparse.Namespace(server=server, token=token, client_cert=None, client_key=None))
        self.warnings = []

    def connect(self):
        connection = super().connect()
        respond = connection.getresponse

        def remember():
            response = respond()
            self.warnings = [v for k, v in response.getheaders() if k.lower() == "warning"]
            self.content_type = response.getheader("Content-Type")
            return response
        connection.getresponse = remember
        return connection


def texts(client, raw, symbols, ns):
    """The texts of a response, with symbols for values that the server chose."""
    def plain(text):
        for (kind, value), name in symbols.names.items():
            if kind in ("uid", "name", "ip4", "ip6", "port") and str(value):
                text = text.replace(str(value), name)
        return text.replace(ns, "{ns}")
    out = {"content-type": client.content_type}
    if client.warnings:
        out["warnings"] = [plain(w) for w in client.warnings]
    try:
        body = json.loads(raw)
    except ValueError:
        out["text"] = raw.decode(errors="replace")[:300].replace(ns, "{ns}")
        return out
    if isinstance(body, dict) and body.get("kind") == "Status" and "code" in body:
        details = body.get("details") or {}
        out["message"] = plain(body.get("message") or "")
        out["causes"] = [[c.get("reason"), c.get("field"), plain(c.get("message") or "")] for c in details.get("causes") or []]
        out["rest"] = {k: details.get(k) for k in ("group", "retryAfterSeconds") if details.get(k)}
        out["metadata"] = body.get("metadata")
    return out


def run(client, case, ns):
    """Sends a case and returns the normalised responses of its steps, with their texts."""
    answers = []
    shape = run_api.shape

    def with_texts(step, status, raw, warnings, symbols, literals, namespace):
        out = shape(step, status, raw, warnings, symbols, literals, namespace)
        answers.append([out, texts(client, raw, symbols, namespace)])
        return out
    run_api.shape = with_texts
    try:
        run_api.run_case(client, json.loads(json.dumps(case)), ns, True)
    except Exception as error:
        answers.append([{"error": type(error).__name__}, {}])
        client.conn = None
    finally:
        run_api.shape = shape
    return answers


def areas():
    return [m.name for m in pkgutil.iter_modules(cases.__path__) if m.name not in ("form", "objects")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference")
    parser.add_argument("--portolan")
    parser.add_argument("--token", required=True)
    parser.add_argument("--only")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--answers")
    parser.add_argument("--prefix", default="v%x" % (int(time.time()) & 0xfffff))
    parser.add_argument("areas", nargs="*", metavar="AREA")
    args = parser.parse_args()
    known = {}
    if args.answers and os.path.exists(args.answers):
        known = json.load(open(args.answers))
    reference = args.reference and Client(args.reference, args.token)
    portolan = args.portolan and Client(args.portolan, args.token)
    count = differing = textual = number = 0
    for area in args.areas or areas():
        for case in importlib.import_module("cases." + area).cases():
            number += 1
            if args.only and args.only not in case["id"]:
                continue
            count += 1
            key = json.dumps(case, sort_keys=True)
            ns = "%s%04d" % (args.prefix, number)
            if key not in known:
                if reference is None:
                    continue
                known[key] = run(reference, case, ns)
            if portolan is None:
                continue
            got = json.loads(json.dumps(run(portolan, case, ns)))
            want = known[key]
            lines, soft = [], []
            for i, step in enumerate(s for s in case["steps"] if s["do"] != "SLEEP"):
                w, g = (x[i] if i < len(x) else [{"error": "none"}, {}] for x in (want, got))
                if w[0] != g[0] and not run_api.better(w[0], g[0]):
                    lines += ["  %d %s %s" % (i, step["do"], step["path"])] + ["      " + d for d in list(run_api.differences(w[0], g[0]))[:8]]
                    if w[1].get("message") != g[1].get("message"):
                        lines += ["      want: %s" % w[1].get("message"), "      got:  %s" % g[1].get("message")]
                elif w[1] != g[1]:
                    soft += ["  %d %s %s" % (i, step["do"], step["path"])] + ["      " + d for d in list(run_api.differences(w[1], g[1]))[:8]]
            differing += bool(lines)
            textual += bool(soft)
            if lines:
                print("DIFFERS " + case["id"], *lines, sep="\n")
            elif soft and args.texts:
                print("TEXT    " + case["id"], *soft, sep="\n")
    if args.answers:
        json.dump(known, open(args.answers, "w"))
    print("%d cases, %d differ, %d more differ in texts" % (count, differing, textual))
    return 1 if differing or args.texts and textual else 0


if __name__ == "__main__":
    sys.exit(main())
