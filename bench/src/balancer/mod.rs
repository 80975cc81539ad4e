//! How quickly an address of a load balancer is assigned and announced, and how quickly it moves when its owner is gone.

mod asker;
mod assigned;
mod faults;
mod held;
mod moves;
pub mod upgrades;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use testbed::{Member, write_sysctl};

use crate::Failure;
use crate::process::{Measured, portolan};
use crate::proxy::{backends, changes, wait_for};
use crate::setting::{PATIENCE, Setting, enclosed_with};
use crate::world;

/// Nodes of the testbed.
const NODES: usize = 3;
/// The measured Service's address.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 128);
/// Pause between two looks at what the API says.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// The port of another Service at the same address, whose connections stay open.
const HELD_PORT: u16 = 81;

/// Flags of `bench balancer`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Services of type LoadBalancer beside the measured one
    #[arg(long, default_value_t = 1_000)]
    services: usize,
    /// Services that are created one after the other, to see when their address is answered for
    #[arg(long, default_value_t = 50)]
    assignments: u8,
    /// How often an endpoint of the measured Service is replaced
    #[arg(long, default_value_t = 200)]
    changes: usize,
    /// How often the owner of the measured address dies, with its link
    #[arg(long, default_value_t = 50)]
    kills: usize,
    /// How often the owner is asked to end
    #[arg(long, default_value_t = 10)]
    handovers: usize,
    /// How often each fault befalls the owner: probes that are lost, its link cut, its process that stands still
    #[arg(long, default_value_t = 10)]
    faults: usize,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    enclosed_with(NODES, false, |setting| {
        let outside = setting.cluster.outside()?;
        outside.enter(forget_ends)??;
        let backends = backends(outside)?;
        let held = held::backend(outside)?;
        setting.with_api(async || prepare(&setting.client()?, NODES).await)?;
        let control_plane = setting.cluster.control_plane()?;
        let mut assigner = command(&setting)?;
        assigner.arg("--leader-elect=false");
        let assigner = setting.start_component("balancer", control_plane, assigner)?;
        let mut nodes = Vec::new();
        for node in setting.cluster.nodes() {
            nodes.push(Node::start(&setting, node)?);
        }
        let service: SocketAddr = (ADDRESS, 80).into();
        setting.with_api(async || measured_services(&setting.client()?, backends[0], held).await)?;
        outside.enter(|| wait_for(service, backends[0]))??;
        outside.enter(|| held::wait_for((ADDRESS, HELD_PORT).into()))??;
        assigned::run(flags.assignments, &setting)?;
        setting.with_api(async || many(&setting, flags.services).await)?;
        setting.with_api(async || members(&setting.client()?, NODES).await)?;
        println!(
            "{} Services of type LoadBalancer, and the measured one",
            flags.services
        );
        changes::run(flags.changes, &setting, outside, service, backends)?;
        println!(
            "resident memory: assigning {:.1} MiB, announcing {:.1} MiB",
            assigner.resident_mib()?,
            nodes[0].announcer.resident_mib()?
        );
        moves::run(flags.kills, flags.handovers, &setting, &mut nodes, service)?;
        faults::run(flags.faults, &setting, &nodes)?;
        Ok(())
    })
}

/// Has backends, and the client, remember no connection that is over. Nodes give connections ports of their own by chance; one
/// that a backend remembers is refused, and the client tries again, after a second if it happens twice. That is so without any
/// move, with any proxy that rewrites clients' addresses.
fn forget_ends() -> std::io::Result<()> {
    write_sysctl("net.ipv4.tcp_max_tw_buckets", "0")
}

/// What runs on a node.
struct Node {
    name: String,
    hardware: testbed::asker::Hardware,
    announcer: Measured,
    /// Ends with this.
    _proxy: Measured,
}

impl Node {
    fn start(setting: &Setting, member: &Member) -> Result<Self, Failure> {
        let name = member.plan.name.clone();
        let mut proxy = Command::new(portolan()?);
        proxy
            .arg("proxy")
            .arg(format!("--kubeconfig={}", setting.kubeconfig().display()))
            .arg(format!("--hostname-override={name}"))
            .arg("--cluster-cidr=10.244.0.0/16");
        Ok(Self {
            hardware: testbed::asker::hardware_of(member)?,
            announcer: start_announcer(setting, member)?,
            _proxy: setting.start_component(&name, member, proxy)?,
            name,
        })
    }
}

fn start_announcer(setting: &Setting, member: &Member) -> Result<Measured, Failure> {
    let mut announcer = command(setting)?;
    announcer
        .args(["--assign=false", "--announce"])
        .arg(format!("--node-name={}", member.plan.name));
    setting.start_component(&format!("announcer-{}", member.plan.name), member, announcer)
}

fn command(setting: &Setting) -> Result<Command, Failure> {
    let mut command = Command::new(portolan()?);
    command
        .arg("balancer")
        .arg(format!("--kubeconfig={}", setting.kubeconfig().display()));
    Ok(command)
}

/// Creates the Nodes and the pools.
async fn prepare(client: &Client, nodes: usize) -> Result<(), Failure> {
    for number in 1..=nodes {
        let name = format!("node-{number}");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        client
            .request(Method::POST, "/api/v1/nodes", JSON, Some(&node))
            .await?;
        let address = json!({"type": "InternalIP", "address": format!("172.30.0.{}", 10 + number)});
        client
            .request(
                Method::PATCH,
                &format!("/api/v1/nodes/{name}/status"),
                MERGE_PATCH,
                Some(&json!({"status": {"addresses": [address]}})),
            )
            .await?;
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

/// A Service with a load balancer, out of a pool.
fn balanced(name: &str, annotation: &str, value: &str) -> Value {
    let mut service = world::service(name);
    service["metadata"]["annotations"][annotation] = value.into();
    service["spec"]["type"] = "LoadBalancer".into();
    service["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    service
}

/// Two Services with the same address: one whose connections are short, and one whose connections stay open.
async fn measured_services(client: &Client, short: IpAddr, held: IpAddr) -> Result<(), Failure> {
    let address = ADDRESS.to_string();
    for (name, port, backend) in [("zz-measured", 80, short), ("zz-held", HELD_PORT, held)] {
        let mut service = balanced(name, "portolan.dev/load-balancer-ips", &address);
        service["metadata"]["annotations"]["portolan.dev/allow-shared-ip"] = "measured".into();
        service["spec"]["ports"][0]["port"] = port.into();
        world::post(client, &service).await?;
        world::post(client, &world::slice(name, &[backend])).await?;
    }
    Ok(())
}

/// Waits until all nodes are members: before that, those that are left of them may be too few to take over.
async fn members(client: &Client, nodes: usize) -> Result<(), Failure> {
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-announcer";
    let deadline = Instant::now() + PATIENCE;
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
    Err("the nodes have not become members".into())
}

async fn many(setting: &Setting, services: usize) -> Result<(), Failure> {
    let client = setting.client()?;
    for number in 0..services {
        let name = format!("m-{number}");
        world::post(&client, &balanced(&name, "portolan.dev/address-pool", "many")).await?;
        world::post(&client, &world::slice(&name, &[world::nobody(number)])).await?;
    }
    loop {
        let list: Value = client.get("/api/v1/namespaces/default/services").await?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let has_address =
            |service: &&Value| service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string();
        if items.iter().filter(has_address).count() > services {
            return Ok(());
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
}
