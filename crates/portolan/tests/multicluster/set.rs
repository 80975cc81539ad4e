//! Two clusters on hosts of the testbed, as members of one set.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{Cluster, Topology, skip_inside};

use crate::test_host::{TestHost, need_programs};

/// Time for a change to reach both clusters on a busy host; the loss of an API server that hangs takes about a minute.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(150);
/// Pause between two checks of a state.
const PAUSE: Duration = Duration::from_millis(200);

/// Clusters `east` and `west`. Each test uses namespaces of its own.
pub(crate) struct Set {
    pub east: TestHost,
    pub west: TestHost,
    _network: Cluster,
}

impl Set {
    /// Starts both clusters with routes between their Pods, then again as members of the set.
    pub(crate) fn start() -> Self {
        need_programs();
        for program in ["dig", "ip"] {
            let found = Command::new(program).arg("-V").output();
            if found.is_err() {
                skip_inside(&format!("{program} is not installed"));
            }
        }
        let network = Cluster::start(Topology::with_nodes(2).expect("a topology")).expect("a cluster");
        let hosts = TestHost::all(&network);
        let Ok([east, west]) = <[TestHost; 2]>::try_from(hosts) else {
            panic!("two hosts");
        };
        let mut set = Self {
            east,
            west,
            _network: network,
        };
        set.east.must("ip route replace 10.52.0.0/16 via $SECOND");
        set.west.must("ip route replace 10.51.0.0/16 via $FIRST");
        set.up("", "");
        let kubeconfig = "portolan kubeconfig --client-name=clusterset --org=portolan:clusterset --server=https://$ADDRESS:6443";
        let (of_east, of_west) = (set.east.must(kubeconfig), set.west.must(kubeconfig));
        set.east.must(&heredoc("cat >/var/lib/west.conf", &of_west));
        set.west.must(&heredoc("cat >/var/lib/east.conf", &of_east));
        for host in [&mut set.east, &mut set.west] {
            host.must("kill $(cat /var/lib/portolan/up.lock); wait");
        }
        // The period is short, so that the test of a lost cluster does not wait for an hour.
        let grace = "--clusterset-unreachable-grace-period=15s";
        set.up(
            &format!("--cluster-id=east --clusterset-kubeconfig=west=/var/lib/west.conf {grace}"),
            &format!("--cluster-id=west --clusterset-kubeconfig=east=/var/lib/east.conf {grace}"),
        );
        set
    }

    /// Starts both clusters with more flags, and waits until they are ready.
    fn up(&mut self, of_east: &str, of_west: &str) {
        let members = [
            (&mut self.east, "10.51.0.0/16", of_east),
            (&mut self.west, "10.52.0.0/16", of_west),
        ];
        for (host, cidr, flags) in members {
            host.must(&format!(
                "portolan up --cluster-cidr={cidr} {flags} >>/var/log/portolan.log 2>&1 &"
            ));
        }
        for host in [&mut self.east, &mut self.west] {
            host.must(
                "portolan status --wait 60s >/dev/null; export KUBECONFIG=/var/lib/portolan/admin.conf",
            );
            host.must("until kubectl get nodes -o name | grep -q .; do sleep 0.1; done");
            host.must("kubectl wait --for=condition=Ready node --all --timeout=60s");
        }
    }

    /// Creates a namespace in both clusters.
    pub(crate) fn namespace(&mut self, name: &str) {
        for host in [&mut self.east, &mut self.west] {
            host.must(&format!("kubectl create namespace {name}"));
        }
    }

    /// Waits in both clusters until a command prints a text.
    pub(crate) fn wait_for(&mut self, command: &str, expected: &str) {
        for host in [&mut self.east, &mut self.west] {
            wait_for(host, command, expected);
        }
    }

    /// Ends the clusters.
    pub(crate) fn end(mut self) {
        self.east.end();
        self.west.end();
    }
}

fn heredoc(command: &str, text: &str) -> String {
    format!("{command} <<'END-OF-TEXT'\n{text}\nEND-OF-TEXT")
}

/// Waits until a command prints a text.
pub(crate) fn wait_for(host: &mut TestHost, command: &str, expected: &str) {
    let deadline = Instant::now() + CHANGE_TIMEOUT;
    loop {
        let printed = host.run(command).text;
        if printed.trim() == expected {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{command}\nexpected:\n{expected}\nprinted:\n{printed}\n{}",
            host.log_end()
        );
        std::thread::sleep(PAUSE);
    }
}

/// Applies an object.
pub(crate) fn apply(host: &mut TestHost, object: &Value) {
    host.must(&heredoc("kubectl apply -f -", &object.to_string()));
}

/// Starts Pods `web` of the echo server.
pub(crate) fn deploy(host: &mut TestHost, namespace: &str, replicas: u8) {
    host.must(&format!(
        "kubectl -n {namespace} create deployment web --image=portolan.dev/echo --port=8080 --replicas={replicas}\n\
         kubectl -n {namespace} rollout status deployment/web --timeout=90s"
    ));
}

/// Creates the Service `web` with ports; `more` are further fields of its spec.
pub(crate) fn serve(host: &mut TestHost, namespace: &str, ports: &[(&str, u16)], more: &Value) {
    let ports: Vec<Value> = ports
        .iter()
        .map(|(name, port)| json!({"name": name, "port": port, "targetPort": 8080}))
        .collect();
    let mut spec = json!({"selector": {"app": "web"}, "ports": ports});
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": namespace, "name": "web",
                     "labels": {"of-service": "1"}, "annotations": {"of-service": "1"}},
        "spec": spec});
    apply(host, &service);
}

/// Exports the Service `web`; the version of the API is the earlier one if `spec` is empty.
pub(crate) fn export(host: &mut TestHost, namespace: &str, spec: &Value) {
    let version = if spec == &json!({}) { "v1alpha1" } else { "v1beta1" };
    let export = json!({"apiVersion": format!("multicluster.x-k8s.io/{version}"), "kind": "ServiceExport",
        "metadata": {"namespace": namespace, "name": "web"}, "spec": spec});
    apply(host, &export);
}

/// Stops the export of the Service `web`.
pub(crate) fn unexport(host: &mut TestHost, namespace: &str) {
    host.must(&format!("kubectl -n {namespace} delete serviceexport web"));
}

/// Returns a command that prints a field of the import `web`.
pub(crate) fn import_field(namespace: &str, path: &str) -> String {
    format!("kubectl -n {namespace} get serviceimport web -o jsonpath='{{{path}}}'")
}

/// Returns a command that prints status and reason of a condition of the export `web`.
pub(crate) fn export_condition(namespace: &str, kind: &str) -> String {
    let path = format!(".status.conditions[?(@.type==\"{kind}\")]");
    format!("kubectl -n {namespace} get serviceexport web -o jsonpath='{{{path}.status}} {{{path}.reason}}'")
}

/// Returns a command that prints `0` if there is no import `web`.
pub(crate) fn imports(namespace: &str) -> String {
    format!("kubectl -n {namespace} get serviceimports -o name | wc -l")
}

/// Returns a command that prints the status code of a response at the clusterset IP.
pub(crate) fn request(namespace: &str, port: u16) -> String {
    let address = import_field(namespace, ".spec.ips[0]");
    format!("curl -sS -m 5 -o /dev/null -w '%{{http_code}}' http://$({address}):{port}/ 2>/dev/null")
}

/// Returns a command that prints the sorted addresses of a name in the zone of the set.
pub(crate) fn resolve(labels: &str, kind: &str) -> String {
    format!("dig +short @169.254.20.10 {labels}.svc.clusterset.local {kind} | sort | tr '\\n' ' '")
}
