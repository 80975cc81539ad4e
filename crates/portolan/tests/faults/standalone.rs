//! Faults of a host that runs `portolan up`: reboot, full disk, invalid objects. Resource limits of Pods are
//! tested in the agent, crashes of the supervisor in the guide.

use testbed::{Cluster, Topology, in_namespace};

use crate::machine::{Machine, need_programs};

/// Starts `portolan up`, and a Pod behind a Service. `$WEB` is the cluster IP.
const SETUP: &str = "
portolan up >>/var/log/portolan.log 2>&1 &
portolan status --wait 60s >/dev/null
export KUBECONFIG=/var/lib/portolan/admin.conf
until kubectl get nodes -o name | grep -q .; do sleep 0.1; done
kubectl wait --for=condition=Ready node --all --timeout=60s >/dev/null
kubectl run web --image=portolan.dev/echo --port=8080 >/dev/null
kubectl wait --for=condition=Ready pod web --timeout=60s >/dev/null
kubectl expose pod web --port=80 --target-port=8080 >/dev/null
WEB=$(kubectl get service web -o jsonpath='{.spec.clusterIP}')";
/// Sends a request to the Service and prints the status code.
const REQUEST: &str = "curl -sS -m 10 -o /dev/null -w '%{http_code}' --retry 20 --retry-delay 1 --retry-connrefused http://$WEB/; echo";
/// Prints the address of the Pod.
const ADDRESS: &str = "kubectl get pod web -o jsonpath='{.status.podIP}'; echo";
/// Kills all processes and removes the state of the kernel. The disk is kept.
const REBOOT: &str = "
kill -9 $(cat /var/lib/portolan/up.lock)
for process in /proc/[0-9]*; do
  grep -qas '^portolan-sandbox' $process/cmdline && kill -9 ${process#/proc/}
done
nft flush ruleset
for link in $(ip -o link show type veth | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/'); do
  case $link in eth*) ;; *) ip link delete $link 2>/dev/null ;; esac
done
true";

/// Runs a test on one host.
fn with_host(test: impl FnOnce(&mut Machine)) {
    need_programs();
    let cluster = Cluster::start(Topology::with_nodes(1).expect("a topology")).expect("a cluster");
    let mut machines = Machine::all(&cluster);
    let machine = machines.first_mut().expect("a host");
    test(machine);
    machine.end();
}

#[test]
fn host_restores_pods_and_addresses_after_a_reboot() {
    in_namespace(|| {
        with_host(|machine| {
            machine.must(SETUP);
            assert_eq!(machine.must(REQUEST), "200");
            let address = machine.must(ADDRESS);
            machine.must(REBOOT);
            machine.must("portolan up >>/var/log/portolan.log 2>&1 &");
            machine.must("portolan status --wait 60s >/dev/null");
            machine.must(
                "kubectl wait --for=jsonpath='{.status.containerStatuses[0].restartCount}'=1 pod web --timeout=60s",
            );
            machine.must("kubectl wait --for=condition=Ready pod web --timeout=60s");
            assert_eq!(machine.must(ADDRESS), address);
            assert_eq!(machine.must(REQUEST), "200");
        });
    });
}

#[test]
fn host_with_a_full_disk_serves_traffic_and_accepts_writes_after_space_is_freed() {
    in_namespace(|| {
        with_host(|machine| {
            machine.must(
                "mkdir /var/lib/portolan && mount -t tmpfs -o size=24m,mode=0700 tmpfs /var/lib/portolan",
            );
            machine.must(SETUP);
            machine.must("dd if=/dev/zero of=/var/lib/portolan/ballast bs=64k 2>/dev/null; true");
            machine.must("head -c 300000 /dev/zero | tr '\\0' x >large");
            // The write-ahead log of the store has preallocated space.
            let rejected = machine.run(
                "for n in $(seq 40); do kubectl create configmap large-$n --from-file=large || break; done; test $n = 40",
            );
            assert!(!rejected.is_success, "expected a full disk: {}", rejected.text);
            assert_eq!(machine.must(REQUEST), "200");
            let phase = machine.must("kubectl get pod web -o jsonpath='{.status.phase}'; echo");
            assert_eq!(phase, "Running");
            machine.must("rm /var/lib/portolan/ballast");
            machine.must("kubectl create configmap large --from-file=large");
            machine.must("portolan status --wait 60s");
        });
    });
}

#[test]
fn invalid_objects_are_rejected_with_their_field() {
    in_namespace(|| {
        with_host(|machine| {
            machine.must(SETUP);
            let mut expect_failure = |command: &str| {
                let outcome = machine.run(command);
                assert!(!outcome.is_success, "{command} succeeded: {}", outcome.text);
                outcome.text
            };
            let pod = |fields: &str| {
                let container = format!(r#"{{"name": "a", "image": "x", {fields}}}"#);
                format!(
                    r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p"}}, "spec": {{"containers": [{container}]}}}}"#
                )
            };
            let apply = |manifest: &str| format!("kubectl apply -f - <<'EOF'\n{manifest}\nEOF");
            let error = expect_failure(&apply(&pod(r#""ports": [{"containerPort": 70000}]"#)));
            assert!(
                error.contains("spec.containers[0].ports[0].containerPort"),
                "{error}"
            );
            let error = expect_failure(&apply(&pod(r#""livenes": {}"#)));
            assert!(error.contains("spec.containers[0].livenes"), "{error}");
            let service = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 0}]}}"#;
            let error = expect_failure(&apply(service));
            assert!(error.contains("spec.ports[0].port"), "{error}");
            let error = expect_failure("portolan backend add web 192.0.2.9:80");
            assert!(error.contains("spec.selector"), "{error}");
            let error = expect_failure("portolan backend add web 192.0.2.9:80 --interval 1500ms");
            assert!(error.contains("--interval"), "{error}");
            let error = expect_failure("portolan up");
            assert!(error.contains("is running already"), "{error}");
        });
    });
}
