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

/// Ends `portolan up` and waits for its exit.
const STOP: &str =
    "PID=$(cat /var/lib/portolan/up.lock); kill $PID; while kill -0 $PID 2>/dev/null; do sleep 0.1; done";

#[test]
fn up_runs_the_proxy_mode_of_its_flag_and_removes_rules_of_the_previous_one() {
    in_namespace(|| {
        with_host(|machine| {
            let has_iptables = machine.run("command -v iptables-restore").is_success;
            let table = "nft list table inet portolan >/dev/null 2>&1";
            let chains = "iptables-save 2>/dev/null | grep -q KUBE-CLUSTER-IPS";
            let modes = [
                ("nftables", table, chains),
                ("iptables", chains, table),
                ("userspace", table, chains),
            ];
            for (mode, present, absent) in modes {
                if mode == "iptables" && !has_iptables {
                    continue;
                }
                machine.must(&format!(
                    "portolan up --proxy-mode={mode} >>/var/log/portolan.log 2>&1 &"
                ));
                machine.must("portolan status --wait 60s >/dev/null");
                let address = "http://127.0.0.1:10249";
                assert_eq!(machine.must(&format!("curl -sS {address}/proxyMode; echo")), mode);
                let reported = machine.must(&format!("curl -sS {address}/configz; echo"));
                assert!(reported.contains(&format!(r#""mode":"{mode}""#)), "{reported}");
                machine.must(&format!("until {present}; do sleep 0.1; done"));
                if has_iptables {
                    machine.must(&format!("while {absent}; do sleep 0.1; done"));
                }
                machine.must(STOP);
            }
        });
    });
}

#[test]
fn second_proxy_is_refused_and_dns_service_is_restored() {
    in_namespace(|| {
        with_host(|machine| {
            machine.must(SETUP);
            for command in [
                "portolan proxy --kubeconfig /var/lib/portolan/admin.conf --healthz-bind-address= --metrics-bind-address=",
                "portolan proxy --cleanup",
            ] {
                let refused = machine.run(&format!("{command} 2>&1"));
                assert!(!refused.is_success, "{}", refused.text);
                assert!(
                    refused.text.contains("another Portolan proxy (process"),
                    "{}",
                    refused.text
                );
            }
            machine.must("kubectl delete service kube-dns --namespace=kube-system >/dev/null");
            machine.must("until kubectl get service kube-dns --namespace=kube-system >/dev/null 2>&1; do sleep 0.2; done");
            machine.must("kubectl delete node --all >/dev/null");
            let status = machine.run("portolan status");
            assert!(
                !status.is_success && status.text.contains("there is no Node"),
                "{}",
                status.text
            );
        });
    });
}

#[test]
fn invalid_ranges_and_names_are_rejected_with_their_flag() {
    in_namespace(|| {
        with_host(|machine| {
            for (flags, parts) in [
                (
                    "--cluster-cidr 10.96.0.0/16",
                    [
                        "--cluster-cidr 10.96.0.0/16",
                        "--service-cluster-ip-range 10.96.0.0/16",
                    ],
                ),
                (
                    "--cluster-dns 10.50.0.10",
                    ["--cluster-dns 10.50.0.10", "--service-cluster-ip-range"],
                ),
                ("--node-name Bad_Name", ["--hostname-override", "Bad_Name"]),
                (
                    "--log-level verbose",
                    ["--log-level", "expected error, warn, info"],
                ),
            ] {
                let refused = machine.run(&format!("portolan up {flags} 2>&1"));
                assert!(!refused.is_success, "{flags}: {}", refused.text);
                for part in parts {
                    assert!(refused.text.contains(part), "{part} is not in {}", refused.text);
                }
            }
            // Another range alone moves cluster DNS, too.
            machine
                .must("portolan up --service-cluster-ip-range 10.50.0.0/16 >>/var/log/portolan.log 2>&1 &");
            machine.must("portolan status --wait 60s >/dev/null");
            machine.must("export KUBECONFIG=/var/lib/portolan/admin.conf");
            let address = machine
                .must("kubectl get service kube-dns -n kube-system -o jsonpath='{.spec.clusterIP}'; echo");
            assert_eq!(address, "10.50.0.10");
        });
    });
}
