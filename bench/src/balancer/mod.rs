//! Time to assign and announce load balancer IPs, and to move them after failures and shutdowns.

mod arp_client;
mod assignment;
mod faults;
mod moves;
mod open_connections;
pub(crate) mod upgrades;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, JSON};
use http::Method;
use serde_json::{Value, json};
use testbed::{Member, write_sysctl};

use crate::Failure;
use crate::environment::{Environment, TIMEOUT, run_enclosed_with_nodes};
use crate::fixtures;
use crate::process::{Measured, portolan};
use crate::proxy::{backends, changes, wait_for};

pub(crate) use moves::set_link;

/// Nodes of the testbed.
const NODES: usize = 3;
/// Address of the measured Service.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 128);
/// Interval between reads of the API.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// Port of another Service with the same address, for connections that stay open.
const OPEN_PORT: u16 = 81;

/// Flags of `bench balancer`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of further Services of type LoadBalancer
    #[arg(long, default_value_t = 1_000)]
    services: usize,
    /// Number of Services for the time to the first announcement
    #[arg(long, default_value_t = 50)]
    assignments: u8,
    /// Number of endpoint changes of the measured Service
    #[arg(long, default_value_t = 200)]
    changes: usize,
    /// Number of kills of the owner together with its link
    #[arg(long, default_value_t = 50)]
    kills: usize,
    /// Number of orderly shutdowns of the owner
    #[arg(long, default_value_t = 10)]
    shutdowns: usize,
    /// Number of times for each fault: lost probes, link down, stopped process
    #[arg(long, default_value_t = 10)]
    faults: usize,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed_with_nodes(NODES, false, |environment| {
        let outside = environment.cluster.outside()?;
        outside.enter(disable_time_wait)??;
        let backends = backends(outside)?;
        let echo_backend = open_connections::start_backend(outside)?;
        environment.with_api(async || prepare(&environment.client()?, NODES).await)?;
        let control_plane = environment.cluster.control_plane()?;
        let mut assigner = command(&environment)?;
        assigner.arg("--leader-elect=false");
        let assigner = environment.start_component("assigner", control_plane, assigner)?;
        let mut nodes = Vec::new();
        for node in environment.cluster.nodes() {
            nodes.push(Node::start(&environment, node)?);
        }
        let service: SocketAddr = (ADDRESS, 80).into();
        environment
            .with_api(async || measured_services(&environment.client()?, backends[0], echo_backend).await)?;
        outside.enter(|| wait_for(service, backends[0]))??;
        outside.enter(|| open_connections::wait_for((ADDRESS, OPEN_PORT).into()))??;
        assignment::run(flags.assignments, &environment)?;
        environment.with_api(async || create_further_services(&environment, flags.services).await)?;
        environment.with_api(async || wait_for_members(&environment.client()?, NODES).await)?;
        println!(
            "{} Services of type LoadBalancer, and the measured one",
            flags.services
        );
        changes::run(flags.changes, &environment, outside, service, backends, TIMEOUT)?;
        println!(
            "resident memory: assigning {:.1} MiB, announcing {:.1} MiB",
            assigner.resident_mib()?,
            nodes[0].announcer.resident_mib()?
        );
        moves::run(flags.kills, flags.shutdowns, &environment, &mut nodes, service)?;
        faults::run(flags.faults, &environment, &nodes)?;
        Ok(())
    })
}

/// Disables TIME-WAIT for backends and the client. Nodes select source ports at random. A backend rejects a
/// port in TIME-WAIT, and the client retries, after a second if it happens twice. Any proxy with source NAT
/// has this effect, also without moves.
fn disable_time_wait() -> std::io::Result<()> {
    write_sysctl("net.ipv4.tcp_max_tw_buckets", "0")
}

/// Processes of a node.
struct Node {
    name: String,
    hardware: testbed::arp_client::EthernetAddress,
    announcer: Measured,
    /// Killed with the value.
    _proxy: Measured,
}

impl Node {
    fn start(environment: &Environment, member: &Member) -> Result<Self, Failure> {
        let name = member.plan.name.clone();
        let mut proxy = Command::new(portolan()?);
        proxy
            .arg("proxy")
            .arg(format!("--kubeconfig={}", environment.kubeconfig().display()))
            .arg(format!("--hostname-override={name}"))
            .arg("--cluster-cidr=10.244.0.0/16");
        Ok(Self {
            hardware: testbed::arp_client::ethernet_address_of(member)?,
            announcer: start_announcer(environment, member)?,
            _proxy: environment.start_component(&name, member, proxy)?,
            name,
        })
    }
}

fn start_announcer(environment: &Environment, member: &Member) -> Result<Measured, Failure> {
    let mut announcer = command(environment)?;
    announcer
        .args(["--assign=false", "--announce"])
        .arg(format!("--node-name={}", member.plan.name));
    environment.start_component(&format!("announcer-{}", member.plan.name), member, announcer)
}

/// Returns the command of the balancer, without flags but the kubeconfig.
pub(crate) fn command(environment: &Environment) -> Result<Command, Failure> {
    let mut command = Command::new(portolan()?);
    command
        .arg("balancer")
        .arg(format!("--kubeconfig={}", environment.kubeconfig().display()));
    Ok(command)
}

/// Creates Nodes and AddressPools.
pub(crate) async fn prepare(client: &Client, nodes: usize) -> Result<(), Failure> {
    for number in 1..=nodes {
        let address = Ipv4Addr::new(172, 30, 0, u8::try_from(10 + number)?);
        fixtures::create_node(client, &format!("node-{number}"), &[address.into()]).await?;
    }
    for (name, addresses) in [("near", "172.30.0.128/26"), ("many", "10.200.0.0/20")] {
        let pool = json!({
            "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": name},
            "spec": {"addresses": [addresses]},
        });
        client
            .request(
                Method::POST,
                "/apis/portolan.dev/v1alpha1/addresspools",
                JSON,
                Some(&pool),
            )
            .await?;
    }
    Ok(())
}

/// Service of type LoadBalancer with an annotation.
pub(crate) fn load_balancer_service(name: &str, annotation: &str, value: &str) -> Value {
    let mut service = fixtures::service(name);
    service["metadata"]["annotations"][annotation] = value.into();
    service["spec"]["type"] = "LoadBalancer".into();
    service["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    service
}

/// Creates two Services with the same address: for short connections, and for connections that stay open.
async fn measured_services(client: &Client, short: IpAddr, open: IpAddr) -> Result<(), Failure> {
    let address = ADDRESS.to_string();
    for (name, port, backend) in [("zz-measured", 80, short), ("zz-held", OPEN_PORT, open)] {
        let mut service = load_balancer_service(name, "portolan.dev/load-balancer-ips", &address);
        service["metadata"]["annotations"]["portolan.dev/allow-shared-ip"] = "measured".into();
        service["spec"]["ports"][0]["port"] = port.into();
        fixtures::post(client, &service).await?;
        fixtures::post(client, &fixtures::slice(name, &[backend])).await?;
    }
    Ok(())
}

/// Waits until all nodes are members. With fewer members, the rest may have no majority after a failure.
async fn wait_for_members(client: &Client, nodes: usize) -> Result<(), Failure> {
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-announcer";
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        let lease: Value = client.get(LEASE).await?;
        let list = lease["metadata"]["annotations"]["portolan.dev/announcers"].as_str();
        let list: Value = serde_json::from_str(list.unwrap_or("null"))?;
        let are_members = list["members"]
            .as_object()
            .is_some_and(|members| members.len() == nodes);
        if are_members && list["joining"].is_null() {
            return Ok(());
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
    Err("not all nodes are members".into())
}

/// Creates further Services and waits until all have addresses.
pub(crate) async fn create_further_services(
    environment: &Environment,
    services: usize,
) -> Result<(), Failure> {
    let client = environment.client()?;
    for number in 0..services {
        let name = format!("m-{number}");
        fixtures::post(
            &client,
            &load_balancer_service(&name, "portolan.dev/address-pool", "many"),
        )
        .await?;
        fixtures::post(
            &client,
            &fixtures::slice(&name, &[fixtures::unused_address(number)]),
        )
        .await?;
    }
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let list: Value = client.get("/api/v1/namespaces/default/services").await?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let has_address =
            |service: &&Value| service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string();
        if items.iter().filter(has_address).count() > services {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("not all Services have addresses; the log of the assigner has the reason".into());
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
}
