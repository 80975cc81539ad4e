//! The balancer in a real cluster of Kubernetes, with packets from a host in the network of its nodes.

#[path = "support/cluster.rs"]
mod cluster;

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// First three octets of the cluster's network.
const NETWORK: &str = "198.18.22";

/// Starts a cluster of two nodes with Portolan's proxy and balancer as processes of each node, and a Deployment with a Pod
/// on each node. `client` runs a command on a host in the network of the nodes. Arguments: the binary, the commands of the
/// test, and flags of the balancer.
const RUN: &str = r#"
    set -eu
    mkdir -p /run/netns && mount -t tmpfs namespaces /run/netns
    portolan=$1
    kubectl() { "$script" server kubectl "$@"; }
    client() { nsenter "--net=/run/netns/$CLUSTER_PREFIX-switch" "$@"; }
    mac_of_node() { nsenter "--net=/run/netns/$CLUSTER_PREFIX$1" ip -o link show eth0 | grep -o 'ether [^ ]*' | cut -d ' ' -f 2; }
    start() {
        node=$1 && shift
        nsenter "--net=/run/netns/$CLUSTER_PREFIX$node" "$portolan" "$@" >"$CLUSTER_DIR/log/portolan-$1-$node" 2>&1 &
        echo $! >"$CLUSTER_DIR/pid/portolan-$1-$node"
    }
    finish() {
        status=$?
        if [ $status != 0 ]; then
            kubectl get services,pods,events -A -o wide || true
            tail -n 20 "$CLUSTER_DIR"/log/portolan-*
        fi
        [ ! -S "$CLUSTER_DIR/bird.ctl" ] || birdc -s "$CLUSTER_DIR/bird.ctl" down >"$CLUSTER_DIR/log/birdc" || true
        "$script" down
        exit $status
    }
    script=$0
    trap finish EXIT
    "$script" up --nodes 2 --proxy none
    "$portolan" balancer crd | kubectl apply -f -
    kubectl wait --for=condition=Established --timeout=60s crd/addresspools.portolan.dev
    for node in 1 2; do
        kubeconfig=--kubeconfig=$CLUSTER_DIR/admin.conf
        start $node proxy "$kubeconfig" --hostname-override=node$node
        start $node balancer "$kubeconfig" --node-name=node$node $3
    done
    kubectl create deployment web --image=registry.k8s.io/e2e-test-images/agnhost:2.63.0 --replicas=2 -- \
        /agnhost netexec --http-port=8080
    kubectl rollout status deployment/web --timeout=60s
    eval "$2"
"#;

/// MetalLB's definitions, as far as the balancer reads them, its objects as in MetalLB's documentation, and a Service. Only
/// node2 may announce the pool.
const METALLB: &str = r#"
    for kind in IPAddressPool L2Advertisement; do
        singular=$(echo $kind | tr A-Z a-z)
        kubectl apply -f - <<DEFINITION
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${singular}s.metallb.io}
spec:
  group: metallb.io
  scope: Namespaced
  names: {kind: $kind, plural: ${singular}s, singular: $singular, listKind: ${kind}List}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
DEFINITION
        kubectl wait --for=condition=Established --timeout=60s crd/${singular}s.metallb.io
    done
    kubectl create namespace metallb-system
    kubectl apply -f - <<OBJECTS
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: first-pool, namespace: metallb-system}
spec: {addresses: ["$NETWORK.240-$NETWORK.250"]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: example, namespace: metallb-system}
spec:
  ipAddressPools: [first-pool]
  nodeSelectors:
  - matchLabels: {kubernetes.io/hostname: node2}
OBJECTS
    kubectl expose deployment web --type=LoadBalancer --port=80 --target-port=8080
    kubectl wait service/web --for=jsonpath='{.status.loadBalancer.ingress[0].ip}' --timeout=30s
    address=$(kubectl get service web -o 'jsonpath={.status.loadBalancer.ingress[0].ip}')
    pool=$(kubectl get service web -o 'jsonpath={.metadata.annotations.metallb\.io/ip-allocated-from-pool}')
    client curl -sS --max-time 5 --retry 10 --retry-all-errors "http://$address/hostname" && echo
    neighbour=$(client ip neigh show "$address")
    echo "$address of the pool $pool: $neighbour; node2 has $(mac_of_node 2)"
    [ "$pool" = first-pool ]
    case $neighbour in *"$(mac_of_node 2)"*) ;; *) exit 1 ;; esac
"#;

/// The objects of MetalLB's page about advanced BGP configuration as they are there, and BIRD as the router that they name.
const METALLB_BGP: &str = r#"
    define() {
        kubectl apply -f - <<DEFINITION
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $2.metallb.io}
spec:
  group: metallb.io
  scope: Namespaced
  names: {kind: $1, plural: $2, singular: $(echo $1 | tr A-Z a-z), listKind: ${1}List}
  versions:
  - name: $3
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
DEFINITION
        kubectl wait --for=condition=Established --timeout=60s crd/$2.metallb.io
    }
    define IPAddressPool ipaddresspools v1beta1
    define L2Advertisement l2advertisements v1beta1
    define BGPPeer bgppeers v1beta2
    define BGPAdvertisement bgpadvertisements v1beta1
    define Community communities v1beta1
    define BFDProfile bfdprofiles v1beta1
    "$portolan" balancer crd --metallb-status | kubectl apply -f -
    kubectl wait --for=condition=Established --timeout=60s crd/servicebgpstatuses.metallb.io crd/configurationstates.metallb.io
    client ip address add 10.0.0.1/32 dev br0
    for node in 1 2; do
        nsenter "--net=/run/netns/${CLUSTER_PREFIX}$node" ip route add 10.0.0.1 dev eth0
    done
    cat >"$CLUSTER_DIR/bird.conf" <<ROUTER
router id 10.0.0.1;
protocol device {}
template bgp node {
  local 10.0.0.1 as 64501; passive;
  ipv4 { import all; export none; };
}
protocol bgp node1 from node { neighbor $NETWORK.11 as 64500; }
protocol bgp node2 from node { neighbor $NETWORK.12 as 64500; }
ROUTER
    client bird -f -c "$CLUSTER_DIR/bird.conf" -s "$CLUSTER_DIR/bird.ctl" >"$CLUSTER_DIR/log/bird" 2>&1 &
    kubectl create namespace metallb-system
    kubectl apply -f - <<OBJECTS
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata:
  name: sample
  namespace: metallb-system
spec:
  myASN: 64500
  peerASN: 64501
  peerAddress: 10.0.0.1
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: bgp-pool
  namespace: metallb-system
spec:
  addresses:
  - 198.51.100.10/24
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata:
  name: local
  namespace: metallb-system
spec:
  ipAddressPools:
  - bgp-pool
  aggregationLength: 32
  localPref: 100
  communities:
  - 65535:65282
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata:
  name: external
  namespace: metallb-system
spec:
  ipAddressPools:
  - bgp-pool
  aggregationLength: 24
OBJECTS
    kubectl expose deployment web --type=LoadBalancer --port=80 --target-port=8080
    kubectl wait service/web --for=jsonpath='{.status.loadBalancer.ingress[0].ip}' --timeout=90s
    address=$(kubectl get service web -o 'jsonpath={.status.loadBalancer.ingress[0].ip}')
    routes() { birdc -s "$CLUSTER_DIR/bird.ctl" show route all protocol $1; }
    for node in node1 node2; do
        for attempt in $(seq 60); do
            routes $node | grep -q "$address/32" && routes $node | grep -q 198.51.100.0/24 && break
            sleep 1
        done
        routes $node
        [ "$(routes $node | grep -c 'BGP.as_path: 64500')" = 2 ]
        [ "$(routes $node | grep -c 'BGP.community: (65535,65282)')" = 1 ]
    done
    client ip route add "$address" via "$NETWORK.11"
    client curl -sS --max-time 5 --retry 10 --retry-all-errors "http://$address/hostname" && echo
    status='{range .items[*]}{.status.node} {.status.serviceNamespace}/{.status.serviceName} {.status.peers}{"\n"}{end}'
    state='{.status.result} {.status.conditions[0].reason}'
    for attempt in $(seq 60); do
        kubectl -n metallb-system get servicebgpstatuses -o "jsonpath=$status" | grep -q 'node2 default/web \["sample"\]' && break
        sleep 1
    done
    [ "$(kubectl -n metallb-system get servicebgpstatuses -o "jsonpath=$status" | grep -c 'default/web \["sample"\]')" = 2 ]
    kubectl -n metallb-system patch bgppeers.metallb.io sample --type=merge -p '{"spec": {"bfdProfile": "missing"}}'
    for attempt in $(seq 60); do
        kubectl -n metallb-system get configurationstates speaker-node1 -o "jsonpath=$state" | grep -q Invalid && break
        sleep 1
    done
    [ "$(kubectl -n metallb-system get configurationstates speaker-node1 -o "jsonpath=$state")" = 'Invalid ConfigurationError' ]
    kubectl -n metallb-system get events | grep 'bgppeer/sample'
"#;

/// A pool of the nodes' own addresses. Each node accepts connections to its address.
const NODE_ADDRESSES: &str = r#"
    kubectl apply -f - <<OBJECTS
apiVersion: portolan.dev/v1alpha1
kind: AddressPool
metadata: {name: nodes}
spec: {nodeAddresses: {type: InternalIP}}
OBJECTS
    kubectl expose deployment web --type=LoadBalancer --port=8000 --target-port=8080
    kubectl wait service/web --for=jsonpath='{.status.loadBalancer.ingress[1].ip}' --timeout=30s
    addresses=$(kubectl get service web -o 'jsonpath={.status.loadBalancer.ingress[*].ip}')
    echo "addresses: $addresses"
    [ "$addresses" = "$NETWORK.11 $NETWORK.12" ]
    for address in $addresses; do
        client curl -sS --max-time 5 --retry 10 --retry-all-errors "http://$address:8000/hostname" && echo
    done
"#;

/// Held while a cluster runs: two with the same prefix share names of control groups.
static CLUSTER: Mutex<()> = Mutex::new(());

/// Runs commands in a cluster, whose balancers have some flags. The commands need the programs of a cluster and `others`.
fn run(test: &str, flags: &str, others: &[(&'static str, &'static str)], commands: &str) {
    let Some(script) = cluster::script_or_skip(test, others) else {
        return;
    };
    let _one_cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "bash", "-c", RUN])
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_portolan"))
        .arg(commands)
        .arg(flags)
        .env("CLUSTER_DIR", directory.path())
        .env("CLUSTER_PREFIX", "pb")
        .env("CLUSTER_NET", NETWORK)
        .env("NETWORK", NETWORK)
        .output()
        .expect("unshare");
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}", text.concat());
}

#[test]
fn addresses_of_metallb_and_of_nodes_reach_pods() {
    let delete =
        "kubectl delete service web && kubectl -n metallb-system delete ipaddresspools.metallb.io first-pool";
    let commands = [METALLB, delete, NODE_ADDRESSES].join("\n");
    run(
        "addresses_of_metallb_and_of_nodes_reach_pods",
        "--announce --interfaces=eth0",
        &[],
        &commands,
    );
}

#[test]
fn objects_of_metallb_announce_routes_to_a_router() {
    run(
        "objects_of_metallb_announce_routes_to_a_router",
        "--bgp",
        &[("bird", "--version")],
        METALLB_BGP,
    );
}
