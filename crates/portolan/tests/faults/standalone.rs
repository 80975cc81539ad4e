//! What may happen to a machine that runs all of it: it is started anew, its disk is full, it is told nonsense. Pods that
//! want too much are tested with the agent, and a supervisor that is killed in the guide.

use testbed::{Cluster, Topology, in_namespace};

use crate::machine::{Machine, need_programs};

/// Starts all of it, and a Pod behind a Service; `$WEB` is the Service's address.
const BEGIN: &str = "
portolan up >>/var/log/portolan.log 2>&1 &
portolan status --wait 60s >/dev/null
export KUBECONFIG=/var/lib/portolan/admin.conf
until kubectl get nodes -o name | grep -q .; do sleep 0.1; done
kubectl wait --for=condition=Ready node --all --timeout=60s >/dev/null
kubectl run web --image=portolan.dev/echo --port=8080 >/dev/null
kubectl wait --for=condition=Ready pod web --timeout=60s >/dev/null
kubectl expose pod web --port=80 --target-port=8080 >/dev/null
WEB=$(kubectl get service web -o jsonpath='{.spec.clusterIP}')";
/// Asks the Service.
const ASK: &str = "curl -sS -m 10 -o /dev/null -w '%{http_code}' --retry 20 --retry-delay 1 --retry-connrefused http://$WEB/; echo";
const ADDRESS: &str = "kubectl get pod web -o jsonpath='{.status.podIP}'; echo";
/// All processes are gone, and what the kernel held; the disk is kept.
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

/// Runs a test on one machine.
fn on_a_machine(test: impl FnOnce(&mut Machine)) {
    need_programs();
    let cluster = Cluster::start(Topology::with_nodes(1).expect("a topology")).expect("a machine");
    let mut machines = Machine::all(&cluster);
    let machine = machines.first_mut().expect("a machine");
    test(machine);
    machine.end();
}

#[test]
fn a_machine_that_is_started_anew_is_as_it_was() {
    in_namespace(|| {
        on_a_machine(|machine| {
            machine.must(BEGIN);
            assert_eq!(machine.must(ASK), "200");
            let address = machine.must(ADDRESS);
            machine.must(REBOOT);
            machine.must("portolan up >>/var/log/portolan.log 2>&1 &");
            machine.must("portolan status --wait 60s >/dev/null");
            machine.must(
                "kubectl wait --for=jsonpath='{.status.containerStatuses[0].restartCount}'=1 pod web --timeout=60s",
            );
            machine.must("kubectl wait --for=condition=Ready pod web --timeout=60s");
            assert_eq!(machine.must(ADDRESS), address);
            assert_eq!(machine.must(ASK), "200");
        });
    });
}

#[test]
fn a_machine_without_room_serves_on_and_takes_writes_once_there_is_some() {
    in_namespace(|| {
        on_a_machine(|machine| {
            machine.must(
                "mkdir /var/lib/portolan && mount -t tmpfs -o size=24m,mode=0700 tmpfs /var/lib/portolan",
            );
            machine.must(BEGIN);
            machine.must("dd if=/dev/zero of=/var/lib/portolan/ballast bs=64k 2>/dev/null; true");
            machine.must("head -c 300000 /dev/zero | tr '\\0' x >large");
            // The store's log has some room of its own.
            let refused = machine.run(
                "for n in $(seq 40); do kubectl create configmap large-$n --from-file=large || break; done; test $n = 40",
            );
            assert!(!refused.is_success, "there was room: {}", refused.text);
            assert_eq!(machine.must(ASK), "200");
            let phase = machine.must("kubectl get pod web -o jsonpath='{.status.phase}'; echo");
            assert_eq!(phase, "Running");
            machine.must("rm /var/lib/portolan/ballast");
            machine.must("kubectl create configmap large --from-file=large");
            machine.must("portolan status --wait 60s");
        });
    });
}

#[test]
fn what_is_wrong_is_refused_with_its_field() {
    in_namespace(|| {
        on_a_machine(|machine| {
            machine.must(BEGIN);
            let mut refused = |command: &str| {
                let answer = machine.run(command);
                assert!(!answer.is_success, "{command} succeeded: {}", answer.text);
                answer.text
            };
            let pod = |fields: &str| {
                let container = format!(r#"{{"name": "a", "image": "x", {fields}}}"#);
                format!(
                    r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p"}}, "spec": {{"containers": [{container}]}}}}"#
                )
            };
            let apply = |manifest: &str| format!("kubectl apply -f - <<'EOF'\n{manifest}\nEOF");
            let said = refused(&apply(&pod(r#""ports": [{"containerPort": 70000}]"#)));
            assert!(
                said.contains("spec.containers[0].ports[0].containerPort"),
                "{said}"
            );
            let said = refused(&apply(&pod(r#""livenes": {}"#)));
            assert!(said.contains("spec.containers[0].livenes"), "{said}");
            let service = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 0}]}}"#;
            let said = refused(&apply(service));
            assert!(said.contains("spec.ports[0].port"), "{said}");
            let said = refused("portolan backend add web 192.0.2.9:80");
            assert!(said.contains("spec.selector"), "{said}");
            let said = refused("portolan backend add web 192.0.2.9:80 --interval 1500ms");
            assert!(said.contains("--interval"), "{said}");
            let said = refused("portolan up");
            assert!(said.contains("is running already"), "{said}");
        });
    });
}
