#!/usr/bin/env python3
"""Create the same objects before kube-controller-manager and before Portolan's controllers, and print how the results differ.

  compare_controllers.py --reference URL --portolan URL --token T [--only SUBSTRING] [--serial] [--answers FILE] [--at-once COUNT]

Each API server has the endpoints, endpointslice and endpointslice mirroring controllers of its own side. controller_cases.py generates the
cases. Results are normalised as conformance/run_api.py does it for SETTLE steps. --serial adds cases that run alone. --answers keeps
the results of the reference in a file and asks only for cases that the file lacks. Exit status: 0 if no result differs.
"""
import argparse, copy, json, os, sys, time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "conformance")]
import controller_cases
import run_api


def run(server, token, case, ns):
    """Sends a case and returns the normalised results of its steps."""
    client = run_api.Client(argparse.Namespace(server=server, token=token, client_cert=None, client_key=None))
    case = copy.deepcopy(case)
    try:
        run_api.run_case(client, case, ns, True)
    except Exception as error:
        case["steps"][0]["expect"] = {"error": repr(error)}
    return json.loads(json.dumps([step.get("expect") for step in case["steps"]]))


def prepare(server, token):
    """Creates the Node of the Pods."""
    client = run_api.Client(argparse.Namespace(server=server, token=token, client_cert=None, client_key=None))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": controller_cases.SHARED_NODE}}
    client.call("POST", "/api/v1/nodes", node)


def differences(case, want, got):
    """The lines that say how two results differ."""
    for number, step in enumerate(case["steps"]):
        if step["do"] in ("SETTLE", "SLEEP") and want[number] != got[number]:
            yield "  %d %s %s" % (number, step["do"], step["path"])
            yield from ("      " + line for line in list(run_api.differences(want[number], got[number]))[:8])
        elif (want[number] or {}).get("status") != (got[number] or {}).get("status"):
            yield "  %d %s %s: want %s, got %s" % (number, step["do"], step["path"], want[number], got[number])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference")
    parser.add_argument("--portolan")
    parser.add_argument("--token", required=True)
    parser.add_argument("--only")
    parser.add_argument("--serial", action="store_true")
    parser.add_argument("--answers")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--prefix", default="k%x" % (int(time.time()) & 0xfffff))
    args = parser.parse_args()
    known = {}
    if args.answers and os.path.exists(args.answers):
        known = json.load(open(args.answers))
    for server in filter(None, (args.reference, args.portolan)):
        prepare(server, args.token)
    groups = [(args.at_once, list(controller_cases.cases()))] + ([(1, list(controller_cases.serial()))] if args.serial else [])
    count = differing = 0
    for at_once, cases in groups:
        cases = [c for c in cases if not args.only or args.only in c["id"]]
        key = lambda c: json.dumps(c, sort_keys=True)
        named = [(c, "%s%04d" % (args.prefix, count + i)) for i, c in enumerate(cases)]
        with ThreadPoolExecutor(at_once) as pool:
            missing = [n for n in named if key(n[0]) not in known and args.reference]
            for (case, _), answer in zip(missing, pool.map(lambda n: run(args.reference, args.token, *n), missing)):
                known[key(case)] = answer
            asked = [n for n in named if key(n[0]) in known and args.portolan]
            for (case, _), got in zip(asked, pool.map(lambda n: run(args.portolan, args.token, *n), asked)):
                lines = list(differences(case, known[key(case)], got))
                differing += bool(lines)
                if lines:
                    print("DIFFERS " + case["id"], *lines, sep="\n")
        count += len(cases)
    if args.answers:
        json.dump(known, open(args.answers, "w"))
    print("%d cases, %d differ" % (count, differing))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
