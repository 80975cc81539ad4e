#!/usr/bin/env python3
"""Send the same connections through kube-proxy and through Portolan's proxy, and print how the observations differ.

  compare_dataplane.py --portolan PROGRAM --kube-proxy PROGRAM [--mode nftables] [--only SUBSTRING] [--list] [--at-once 4]
                       [--answers FILE] [--recorded] [--once] [--prefix dpc-]

Both sides run in networks of namespaces as conformance/run_dataplane.py builds them, with Portolan's API server. dataplane_cases.py
and dataplane_transitions.py generate the cases; --recorded takes those of conformance/dataplane.json instead. The reference runs first. Its observations are what
Portolan's proxy has to match. Cases that differ run a second time on both sides, alone, and are printed if they differ again.
--at-once is the number of networks. --answers keeps the observations of the reference in a file, and observes only missing cases.

Needs root, iproute2, nft (or iptables) and Linux. Exit status: 0 if no observation differs.
"""
import argparse, copy, json, multiprocessing, os, shutil, signal, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
CONFORMANCE = os.path.abspath(os.path.join(HERE, "..", "..", "conformance"))
sys.path[:0] = [HERE, CONFORMANCE]
sys.dont_write_bytecode = True
import dataplane_cases
import dataplane_transitions
import run_api
import run_dataplane

API = "'{portolan}' apiserver --listen={addr}:{port} --data-dir={dir}/data --service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112 --write-kubeconfig={dir}/admin.conf"
PORTOLAN = "'{portolan}' proxy --kubeconfig={kubeconfig} --hostname-override={node} --proxy-mode={mode} --cluster-cidr=10.244.0.0/16,fd00:244::/32"
REFERENCE = ("'{reference}' --hostname-override={node} --kubeconfig={kubeconfig} --proxy-mode={mode} --bind-address=0.0.0.0 "
             "--cluster-cidr=10.244.0.0/16,fd00:244::/32 --conntrack-max-per-core=0 --conntrack-min=0")


class Api(run_dataplane.Api):
    """Skips objects that the server rejects before the proxies start, and keeps the reasons."""
    def __init__(self, *args):
        super().__init__(*args)
        self.rejected, self.is_ready = {}, False

    def create(self, obj, patience=0):
        if not patience:
            return super().create(obj)
        try:
            super().create(obj, 1 if self.is_ready else patience)
            self.is_ready = True
        except RuntimeError as error:
            self.rejected[obj["metadata"]["name"]] = str(error)


class Runner(run_dataplane.Runner):
    """Observes each probe once if nothing has changed before it."""
    def stable(self, step, changed):
        return super().stable(step, changed) if changed else self.observe(step)

    def run(self, case):
        """Runs a case. Returns its expectations, and the lines that say how the observations differ."""
        rejected = [self.api.rejected[o["metadata"]["name"]] for o in case["objects"] if o["metadata"]["name"] in self.api.rejected]
        if rejected:
            return {"rejected": len(rejected)}, []
        try:
            fails = self.run_case(case)
            is_static = not any("change" in step for step in case["steps"])
            if fails and is_static:
                again = {i for i, _, _ in self.run_case(case)}
                fails = [fail for fail in fails if fail[0] in again]
        except Exception as error:
            if self.args.record:
                return {"error": str(error)}, []
            return None, ["  " + str(error)]
        lines = []
        for i, step, got in fails:
            lines.append("  %d %s" % (i, self.describe(step)))
            lines += ["      " + line for line in list(run_api.differences(step["expect"], got))[:8]]
        return [step.get("expect") for step in case["steps"]], lines


def network(options, prefix, is_reference, cases, results):
    """Runs cases in a network of their own and puts (id, expectations, lines) into `results`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_dataplane.Api = Api
    command = REFERENCE if is_reference else PORTOLAN
    programs = lambda text: text.replace("{portolan}", options.portolan).replace("{reference}", options.kube_proxy)
    args = argparse.Namespace(api_cmd=programs(API), proxy_cmd=programs(command), api_port=6443, kubeconfig_out="{dir}/admin.conf", token=None, client_cert=None, client_key=None,
                              mode=options.mode, record=is_reference, reference=False, either=False, ignore_peers=False, verbose=False, prefix=prefix)
    net = run_dataplane.Network(options.document["topology"], prefix)
    work = tempfile.mkdtemp(prefix="compare_dataplane.")
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    net.tear_down()
    runner = Runner(args, options.document, net, work)
    try:
        runner.start(cases)
        for case in cases:
            results.put((case["id"], *runner.run(case)))
            runner.check_proxies()
    except RuntimeError as error:
        print("%s: %s" % (prefix, error), file=sys.stderr)
    finally:
        runner.stop()
        run_dataplane.enter("/proc/self/fd/%d" % home)
        net.tear_down()
        shutil.rmtree(work, ignore_errors=True)


def run_all(options, is_reference, cases, at_once):
    """Runs cases in up to `at_once` networks. Returns {id: (expectations, lines)}."""
    count = min(at_once, len(cases))
    fork, found = multiprocessing.get_context("fork"), {}
    results = fork.SimpleQueue()
    side = "r" if is_reference else "p"
    workers = [fork.Process(target=network, args=(options, "%s%s%d-" % (options.prefix, side, i), is_reference, cases[i::count], results)) for i in range(count)]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers) or not results.empty():
            while not results.empty():
                name, expectations, lines = results.get()
                found[name] = expectations, lines
            time.sleep(0.2)
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
            worker.join()
    return found


def compare(options, cases, known, at_once):
    """Returns {id: lines} of the cases that differ. `known` has the observations of the reference by case."""
    key = lambda case: json.dumps([options.mode, case["objects"], case["steps"]], sort_keys=True)
    missing = [case for case in cases if key(case) not in known]
    if missing:
        keys = {case["id"]: key(case) for case in missing}
        for name, (expectations, _) in run_all(options, True, copy.deepcopy(missing), at_once).items():
            known[keys[name]] = expectations
    expected = []
    for case in cases:
        answer = known.get(key(case))
        if not isinstance(answer, list):
            print("SKIPPED %s: %s" % (case["id"], answer))
            continue
        steps = [{**step, **({"expect": want} if want else {})} for step, want in zip(case["steps"], answer)]
        expected.append({**copy.deepcopy(case), "steps": steps})
    found = run_all(options, False, expected, at_once)
    for case in expected:
        if case["id"] not in found:
            print("MISSING %s: the network of the case stopped" % case["id"])
    return {name: lines for name, (_, lines) in found.items() if lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--portolan")
    parser.add_argument("--kube-proxy", default="kube-proxy")
    parser.add_argument("--mode", default="nftables", choices=("nftables", "iptables"))
    parser.add_argument("--only", action="append")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--once", action="store_true", help="print differences of the first run")
    parser.add_argument("--answers")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--prefix", default="dpc-")
    options = parser.parse_args()
    options.document = json.load(open(os.path.join(CONFORMANCE, "dataplane.json")))
    cases = list(dataplane_cases.cases()) + list(dataplane_transitions.cases())
    if options.recorded:
        cases = [{**case, "objects": case.get("objects", []), "steps": [{k: v for k, v in s.items() if k not in ("expect", "kube_proxy", "by_hand")} for s in case["steps"]]} for case in options.document["cases"]]
    cases = [case for case in cases if not options.only or any(text in case["id"] for text in options.only)]
    if options.list:
        for case in cases:
            print("%-48s %d steps" % (case["id"], len(case["steps"])))
        return 0
    if not options.portolan:
        parser.error("--portolan is required")
    options.document["topology"]["routed"] += dataplane_cases.ROUTED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    known = json.load(open(options.answers)) if options.answers and os.path.exists(options.answers) else {}
    try:
        differing = compare(options, cases, known, options.at_once)
        if not options.once and differing:
            print("%d cases differ at first: %s" % (len(differing), ", ".join(sorted(differing))), flush=True)
            differing = compare(options, [case for case in cases if case["id"] in differing], {}, 1)
    finally:
        if options.answers:
            json.dump(known, open(options.answers, "w"))
    for name, lines in sorted(differing.items()):
        print("DIFFERS " + name, *lines, sep="\n")
    print("%d cases, %d differ" % (len(cases), len(differing)))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
