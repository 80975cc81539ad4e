//! Faults of a host that runs `portolan up`: reboot, full disk, invalid objects. Resource limits of Pods are
//! tested in the agent, crashes of the supervisor in the guide.

use testbed::{Cluster, Topology, in_namespace};

use crate::test_host::{TestHost, need_programs};

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
fn with_host(test: impl FnOnce(&mut TestHost)) {
    need_programs();
    let cluster = Cluster::start(Topology::with_nodes(1).expect("a topology")).expect("a cluster");
    let mut hosts = TestHost::all(&cluster);
    let host = hosts.first_mut().expect("a host");
    test(host);
    host.end();
}

#[test]
fn host_restores_pods_and_addresses_after_a_reboot() {
    in_namespace(|| {
        with_host(|host| {
            host.must(SETUP);
            assert_eq!(host.must(REQUEST), "200");
            let address = host.must(ADDRESS);
            host.must(REBOOT);
            host.must("portolan up >>/var/log/portolan.log 2>&1 &");
            host.must("portolan status --wait 60s >/dev/null");
            host.must(
                "kubectl wait --for=jsonpath='{.status.containerStatuses[0].restartCount}'=1 pod web --timeout=60s",
            );
            host.must("kubectl wait --for=condition=Ready pod web --timeout=60s");
            assert_eq!(host.must(ADDRESS), address);
            assert_eq!(host.must(REQUEST), "200");
        });
    });
}

#[test]
fn host_with_a_full_disk_serves_and_accepts_writes_after_space_is_freed() {
    in_namespace(|| {
        with_host(|host| {
            host.must(
                "mkdir /var/lib/portolan && mount -t tmpfs -o size=24m,mode=0700 tmpfs /var/lib/portolan",
            );
            host.must(SETUP);
            host.must("dd if=/dev/zero of=/var/lib/portolan/ballast bs=64k 2>/dev/null; true");
            host.must("head -c 300000 /dev/zero | tr '\\0' x >large");
            // The write-ahead log of the store has preallocated space.
            let rejected = host.run(
                "for n in $(seq 40); do kubectl create configmap large-$n --from-file=large || break; done; test $n = 40",
            );
            assert!(!rejected.is_success, "expected a full disk: {}", rejected.text);
            assert_eq!(host.must(REQUEST), "200");
            let phase = host.must("kubectl get pod web -o jsonpath='{.status.phase}'; echo");
            assert_eq!(phase, "Running");
            host.must("rm /var/lib/portolan/ballast");
            host.must("kubectl create configmap large --from-file=large");
            host.must("portolan status --wait 60s");
        });
    });
}

#[test]
fn invalid_objects_are_rejected_with_their_field() {
    in_namespace(|| {
        with_host(|host| {
            host.must(SETUP);
            let mut expect_failure = |command: &str| {
                let outcome = host.run(command);
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
fn up_runs_the_proxy_mode_of_its_flag_and_removes_former_rules() {
    in_namespace(|| {
        with_host(|host| {
            let has_iptables = host.run("command -v iptables-restore").is_success;
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
                host.must(&format!(
                    "portolan up --proxy-mode={mode} >>/var/log/portolan.log 2>&1 &"
                ));
                host.must("portolan status --wait 60s >/dev/null");
                let address = "http://127.0.0.1:10249";
                // The node may be ready before the proxy listens.
                let mode_of_proxy = format!(
                    "curl -sS --retry 60 --retry-delay 1 --retry-connrefused {address}/proxyMode 2>/dev/null; echo"
                );
                assert_eq!(host.must(&mode_of_proxy), mode);
                let reported = host.must(&format!("curl -sS {address}/configz; echo"));
                assert!(reported.contains(&format!(r#""mode":"{mode}""#)), "{reported}");
                host.must(&format!("until {present}; do sleep 0.1; done"));
                if has_iptables {
                    host.must(&format!("while {absent}; do sleep 0.1; done"));
                }
                host.must(STOP);
            }
        });
    });
}

#[test]
fn second_proxy_is_refused_and_dns_service_is_restored() {
    in_namespace(|| {
        with_host(|host| {
            host.must(SETUP);
            for command in [
                "portolan proxy --kubeconfig /var/lib/portolan/admin.conf --healthz-bind-address= --metrics-bind-address=",
                "portolan proxy --cleanup",
            ] {
                let refused = host.run(&format!("{command} 2>&1"));
                assert!(!refused.is_success, "{}", refused.text);
                assert!(
                    refused.text.contains("another Portolan proxy (process"),
                    "{}",
                    refused.text
                );
            }
            host.must("kubectl delete service kube-dns --namespace=kube-system >/dev/null");
            host.must("until kubectl get service kube-dns --namespace=kube-system >/dev/null 2>&1; do sleep 0.2; done");
            host.must("kubectl delete node --all >/dev/null");
            let status = host.run("portolan status");
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
        with_host(|host| {
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
                let refused = host.run(&format!("portolan up {flags} 2>&1"));
                assert!(!refused.is_success, "{flags}: {}", refused.text);
                for part in parts {
                    assert!(refused.text.contains(part), "{part} is not in {}", refused.text);
                }
            }
            // Another range alone moves cluster DNS, too.
            host.must("portolan up --service-cluster-ip-range 10.50.0.0/16 >>/var/log/portolan.log 2>&1 &");
            host.must("portolan status --wait 60s >/dev/null");
            host.must("export KUBECONFIG=/var/lib/portolan/admin.conf");
            let address = host
                .must("kubectl get service kube-dns -n kube-system -o jsonpath='{.spec.clusterIP}'; echo");
            assert_eq!(address, "10.50.0.10");
        });
    });
}
