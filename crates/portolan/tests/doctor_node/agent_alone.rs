//! Observation of a node by `portolan agent`, with the rights of a node, and without a proxy in its process.

use std::net::IpAddr;
use std::path::Path;

use http::Method;
use serde_json::Value;
use testbed::{RUN_DIRECTORY, in_namespace};

use crate::faults::entry;
use crate::support::wait_for;
use crate::world::{NODE, World, kubeconfig_of};

/// Starts an agent with a certificate on the examined node.
fn start_agent(world: &mut World) {
    let directory = Path::new(RUN_DIRECTORY);
    let pki = directory.join("api/pki");
    let ip = IpAddr::from(world.cluster.topology.nodes[0].member.address.ipv4);
    apiserver::pki::node_serving(&pki, NODE, &[ip]).expect("a serving certificate");
    let user = format!("system:node:{NODE}");
    let issued = apiserver::pki::client(&pki, "client-agent", &user, "system:nodes").expect("a certificate");
    let kubeconfig = directory.join("agent.conf");
    let server = format!("https://{}", world.api_address());
    std::fs::write(&kubeconfig, kubeconfig_of(&server, &issued).to_string()).expect("a kubeconfig");
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let flags = [
        flag("kubeconfig", &kubeconfig),
        flag("state-dir", &directory.join("agent")),
        flag("tls-cert-file", &pki.join(format!("serving-{NODE}.crt"))),
        flag("tls-private-key-file", &pki.join(format!("serving-{NODE}.key"))),
        flag("client-ca-file", &pki.join("ca.crt")),
        format!("--node-name={NODE}"),
        format!("--node-ip={ip}"),
    ];
    let mut arguments = vec!["agent"];
    arguments.extend(flags.iter().map(String::as_str));
    let agent = world.spawn(NODE, &arguments);
    world.others.push(agent.into());
}

#[test]
fn agent_without_proxy_serves_the_observation() {
    in_namespace(|| {
        let mut world = World::start();
        start_agent(&mut world);
        let path = format!("/api/v1/nodes/{NODE}/observation");
        let read = |path: &str| world.try_call(Method::GET, path, client::JSON, None);
        wait_for("an observation by the agent", || read(&path).is_ok());

        let observation = read(&path).expect("an observation");
        assert_eq!(observation["metadata"]["name"], NODE);
        let proxy = entry(&observation, "proxies", "name", "portolan");
        assert_eq!(proxy["nodeName"], NODE, "{proxy:#}");
        let table = entry(&observation, "tables", "name", "portolan");
        assert_eq!(
            table["missing"],
            Value::Null,
            "a node may not list EndpointSlices, so the table is not compared"
        );
        let flows = read(&format!("/api/v1/nodes/{NODE}/flows")).expect_err("no report of flows");
        assert_eq!(flows.code(), Some(501), "{flows}");
    });
}
