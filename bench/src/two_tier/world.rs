//! Nodes with proxies behind a router, a client behind the router, and endpoints on the nodes.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::Command;

use client::MERGE_PATCH;
use http::Method;
use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkName, NetworkNamespace, Route};
use serde_json::{Value, json};
use testbed::{Member, write_sysctl};

use super::{ADDED, MeasuredService, NODES, SERVICES, endpoints};
use crate::Failure;
use crate::balancer::{load_balancer_service, prepare, set_link};
use crate::environment::Environment;
use crate::fixtures;
use crate::process::{Measured, portolan};

/// Endpoints before the first change.
pub(super) const ENDPOINTS_AT_START: usize = 10;
/// Port of the endpoints.
const ENDPOINT_PORT: u16 = 8080;
/// Addresses of the Services, for the routes of the router.
const SERVICE_NETWORK: &str = "203.0.113.0/28";
/// Addresses of the router and of the client on the link between them.
const ROUTER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const CLIENT_PREFIX: u8 = 24;
/// Annotation of a Service for two-tier forwarding.
const ANNOTATION: &str = "service.portolan.dev/two-tier-forwarding";

/// State of an endpoint in the EndpointSlices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointState {
    Absent,
    Ready,
    /// Serves open connections only.
    Terminating,
}

/// An endpoint on a node.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    /// Index of the node.
    node: usize,
    address: Ipv4Addr,
    state: EndpointState,
}

/// The running cluster with its router and clients.
pub(super) struct World {
    environment: Environment,
    /// Namespace of the clients, behind the router.
    pub(super) client: NetworkNamespace,
    endpoints: Vec<Endpoint>,
    /// Processes of the endpoints, on all nodes.
    servers: Vec<Measured>,
    /// Indexes of the nodes to which the router sends packets.
    receiving: Vec<usize>,
    /// Index of the node that was killed.
    failed: Option<usize>,
    /// Proxies in the order of the nodes.
    proxies: Vec<Measured>,
}

impl World {
    /// Starts all nodes and creates the Services. The plain one has the traffic policy `policy`. Each endpoint has
    /// `processes_of_endpoint` processes.
    pub(super) fn start(
        environment: Environment,
        policy: &str,
        processes_of_endpoint: usize,
    ) -> Result<Self, Failure> {
        let endpoints = all_endpoints();
        let members: Vec<&Member> = environment.cluster.nodes().collect();
        let mut servers = Vec::new();
        for (number, endpoint) in (0_u8..).zip(&endpoints) {
            let member = members[endpoint.node];
            add_address(member, endpoint.address)?;
            let address = (endpoint.address, ENDPOINT_PORT).into();
            servers.extend(endpoints::start(member, number, address, processes_of_endpoint)?);
        }
        let router = environment.cluster.outside()?;
        let client = connect_client(router)?;
        for member in members {
            let network = IpNet::new(CLIENT_ADDRESS.into(), CLIENT_PREFIX)?.trunc();
            let route = Route::via(network, router.plan.address.ipv4.into());
            Connection::open_in(&member.namespace)?.add_route(&route)?;
        }
        let mut world = Self {
            environment,
            client,
            endpoints,
            servers,
            receiving: (0..NODES).filter(|node| *node != ADDED).collect(),
            failed: None,
            proxies: Vec::with_capacity(NODES),
        };
        world.route()?;
        world.create_services(policy)?;
        for node in world.environment.cluster.nodes() {
            world.proxies.push(start_proxy(&world.environment, node)?);
        }
        Ok(world)
    }

    /// Runs work in the namespace of the client.
    pub(super) fn in_client<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        self.client.enter(work)?
    }

    /// Returns the numbers of the endpoints on nodes that were not killed.
    pub(super) fn living(&self) -> Vec<u8> {
        let numbered = (0_u8..).zip(&self.endpoints);
        numbered
            .filter(|(_, endpoint)| Some(endpoint.node) != self.failed)
            .map(|(number, _)| number)
            .collect()
    }

    /// Lets a node receive packets, with an endpoint.
    pub(super) fn add(&mut self, node: usize) -> Result<(), Failure> {
        self.receiving.push(node);
        self.change(node, EndpointState::Ready)
    }

    /// Drains a node: it receives no packets, and its endpoints serve open connections only.
    pub(super) fn remove(&mut self, node: usize) -> Result<(), Failure> {
        self.receiving.retain(|other| *other != node);
        self.change(node, EndpointState::Terminating)
    }

    /// Kills a node together with its link. Its endpoints disappear.
    pub(super) fn kill(&mut self, node: usize) -> Result<(), Failure> {
        set_link(&self.environment, node, false)?;
        self.proxies[node].kill();
        self.failed = Some(node);
        self.receiving.retain(|other| *other != node);
        self.change(node, EndpointState::Absent)
    }

    /// Fails if the proxy of a living node or an endpoint has exited.
    pub(super) fn must_run(&mut self) -> Result<(), Failure> {
        let failed = self.failed;
        let living = self.proxies.iter_mut().enumerate();
        for (_, proxy) in living.filter(|(node, _)| Some(*node) != failed) {
            proxy.must_run()?;
        }
        self.servers.iter_mut().try_for_each(Measured::must_run)
    }

    fn change(&mut self, node: usize, state: EndpointState) -> Result<(), Failure> {
        let of_node = self.endpoints.iter_mut().filter(|endpoint| endpoint.node == node);
        of_node.for_each(|endpoint| endpoint.state = state);
        self.route()?;
        self.environment.with_api(async || {
            let client = self.environment.client()?;
            let patch = json!({"endpoints": self.listed()});
            for service in SERVICES {
                let path = format!(
                    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{}-1",
                    service.name
                );
                client
                    .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
                    .await?;
            }
            Ok(())
        })
    }

    /// Sends the packets to the Services over equal-cost paths to the receiving nodes.
    fn route(&self) -> Result<(), Failure> {
        let mut command = Command::new("ip");
        command.args(["route", "replace", SERVICE_NETWORK]);
        for node in &self.receiving {
            let address = self.environment.cluster.topology.nodes[*node].member.address.ipv4;
            command.args(["nexthop", "via", &address.to_string()]);
        }
        let router = self.environment.cluster.outside()?;
        let started = router.spawn(&mut command);
        let status = started
            .map_err(|error| format!("{error}; install iproute2"))?
            .wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`ip route replace` of equal-cost paths failed: {status}").into())
        }
    }

    /// Returns the endpoints for an EndpointSlice.
    fn listed(&self) -> Vec<Value> {
        let nodes = &self.environment.cluster.topology.nodes;
        let listed = self.endpoints.iter();
        listed
            .filter(|endpoint| endpoint.state != EndpointState::Absent)
            .map(|endpoint| {
                let is_ready = endpoint.state == EndpointState::Ready;
                json!({
                    "addresses": [endpoint.address],
                    "nodeName": nodes[endpoint.node].member.name,
                    "conditions": {"ready": is_ready, "serving": true, "terminating": !is_ready},
                })
            })
            .collect()
    }

    fn create_services(&self, policy: &str) -> Result<(), Failure> {
        self.environment.with_api(async || {
            let client = self.environment.client()?;
            prepare(&client, NODES).await?;
            for service in SERVICES {
                fixtures::post(&client, &object(service, policy)).await?;
                // No assigner runs, so the benchmark writes the address.
                let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": service.address}]}}});
                let path = format!("/api/v1/namespaces/default/services/{}/status", service.name);
                client
                    .request(Method::PATCH, &path, MERGE_PATCH, Some(&status))
                    .await?;
                let mut slice = fixtures::slice(service.name, &[]);
                slice["endpoints"] = self.listed().into();
                fixtures::post(&client, &slice).await?;
            }
            Ok(())
        })
    }
}

/// Returns the endpoints: two on each of the first three nodes, one on each of the next four, and one on the last
/// node. The last endpoint is absent at first.
fn all_endpoints() -> Vec<Endpoint> {
    let at_start = (0..ENDPOINTS_AT_START).map(|number| (number % ADDED, EndpointState::Ready));
    let all = at_start.chain(std::iter::once((ADDED, EndpointState::Absent)));
    (10_u8..)
        .zip(all)
        .map(|(host, (node, state))| Endpoint {
            node,
            // Of the node's own range of Pods.
            address: Ipv4Addr::new(10, 244, node as u8 + 1, host),
            state,
        })
        .collect()
}

/// Adds the address of an endpoint to a node.
fn add_address(member: &Member, address: Ipv4Addr) -> Result<(), Failure> {
    let mut connection = Connection::open_in(&member.namespace)?;
    let loopback = connection.link_index(&"lo".parse()?)?;
    connection.add_address(loopback, IpAddr::from(address).into())?;
    Ok(())
}

/// Creates the namespace of the client behind the router. The router selects the path of a packet by addresses and
/// ports.
fn connect_client(router: &Member) -> Result<NetworkNamespace, Failure> {
    let client = NetworkNamespace::create()?;
    router.enter(|| {
        write_sysctl("net.ipv4.ip_forward", "1")?;
        write_sysctl("net.ipv4.fib_multipath_hash_policy", "1")
    })??;
    let near: LinkName = "client".parse()?;
    let far: LinkName = "eth0".parse()?;
    let mut at_router = Connection::open_in(&router.namespace)?;
    at_router.add_veth(&near, &far, Some(client.as_fd()))?;
    let mut at_client = Connection::open_in(&client)?;
    for (connection, name, address) in [
        (&mut at_router, &near, ROUTER_ADDRESS),
        (&mut at_client, &far, CLIENT_ADDRESS),
    ] {
        let link = connection.link_index(name)?;
        connection.add_address(link, IpNet::new(address.into(), CLIENT_PREFIX)?)?;
        connection.change_link(link, &LinkChange::up())?;
    }
    at_client.add_route(&Route::default_via(ROUTER_ADDRESS.into()))?;
    Ok(client)
}

/// Service of type LoadBalancer, of which the plain one has a policy.
fn object(service: MeasuredService, policy: &str) -> Value {
    let value = service.is_two_tier.to_string();
    let mut object = load_balancer_service(service.name, ANNOTATION, &value);
    if !service.is_two_tier {
        object["spec"]["externalTrafficPolicy"] = policy.into();
    }
    object
}

fn start_proxy(environment: &Environment, node: &Member) -> Result<Measured, Failure> {
    let name = &node.plan.name;
    let mut command = Command::new(portolan()?);
    command
        .args(["proxy", "--proxy-mode=nftables", "--cluster-cidr=10.244.0.0/16"])
        .arg(format!("--kubeconfig={}", environment.kubeconfig().display()))
        .arg(format!("--hostname-override={name}"));
    environment.start_component(&format!("proxy-{name}"), node, command)
}
