//! Faults of applications in Pods, and of Pods with former addresses.

use std::net::Ipv6Addr;
use std::process::Command;

use client::{JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use netlink::route::{Connection, LinkName};
use serde_json::json;
use testbed::{RUN_DIRECTORY, in_namespace};

use crate::faults::{OF_SERVICE, expect, expect_none, listener};
use crate::support::program;
use crate::world::{TARGET_PORT, World};
use crate::{BEHAVIOUR, Behaviour};

const SERVICE: &str = "/api/v1/namespaces/default/services/web";

/// Starts a listener with a behaviour in a Pod, and waits until it listens.
fn replace_server(world: &mut World, number: usize, address: &str, behaviour: Behaviour) {
    world.start_in_pod(number, listener(address).env(BEHAVIOUR, behaviour.to_string()));
    let port = address.rsplit_once(':').expect("a port").1;
    let target = format!("127.0.0.1:{port}").parse().expect("an address");
    world.wait_in_pod(number, target);
}

/// Replaces the servers of all Pods.
fn replace_servers(world: &mut World, behaviour: Behaviour) {
    for number in 0..2 {
        replace_server(world, number, &format!("[::]:{TARGET_PORT}"), behaviour);
    }
}

#[test]
fn faults_of_applications_are_found() {
    in_namespace(|| {
        let mut world = World::start();
        replace_servers(&mut world, Behaviour::Resets);
        expect(&world.doctor(&OF_SERVICE), "PTL-0060");
        replace_servers(&mut world, Behaviour::SendsNothing);
        expect(&world.doctor(&OF_SERVICE), "PTL-0060");
        replace_server(&mut world, 0, "[::]:9090", Behaviour::SendsNothing);
        expect(&world.doctor(&[]), "PTL-0048");
        header_of_proxy_protocol_is_rejected(&mut world);
        port_of_http_serves_tls(&mut world);
        variable_is_outdated(&mut world);
    });
}

/// The load balancer sends a header of the PROXY protocol to a server of HTTP.
fn header_of_proxy_protocol_is_rejected(world: &mut World) {
    replace_servers(world, Behaviour::Http);
    expect_none(&world.doctor(&OF_SERVICE));
    let key = "service.beta.kubernetes.io/aws-load-balancer-proxy-protocol";
    let annotate = |value: serde_json::Value| json!({"metadata": {"annotations": {key: value}}});
    world.call(Method::PATCH, SERVICE, MERGE_PATCH, Some(annotate(json!("*"))));
    expect(&world.doctor(&OF_SERVICE), "PTL-0059");
    world.call(Method::PATCH, SERVICE, MERGE_PATCH, Some(annotate(json!(null))));
}

/// The Pods run a server of HTTPS behind a port with the name `http`: an API server.
fn port_of_http_serves_tls(world: &mut World) {
    for number in 0..2 {
        let directory = format!("{RUN_DIRECTORY}/https-{number}");
        world.serve(
            number,
            &[
                "apiserver",
                &format!("--listen=0.0.0.0:{TARGET_PORT}"),
                &format!("--data-dir={directory}"),
                "--service-cluster-ip-range=10.96.0.0/16",
                "--log-level=error",
            ],
        );
    }
    expect(&world.doctor(&OF_SERVICE), "PTL-0059");
}

/// A Pod has the cluster IP that the Service had before it was created again.
fn variable_is_outdated(world: &mut World) {
    let echo = ["internal-echo", "--port", &format!("{TARGET_PORT}/TCP")];
    world.serve(1, &echo);
    let mut command = Command::new(program());
    command.args(echo).env("WEB_SERVICE_HOST", "10.96.0.99");
    world.start_in_pod(0, &mut command);
    let target = format!("127.0.0.1:{TARGET_PORT}");
    world.wait_in_pod(0, target.parse().expect("an address"));
    expect(&world.doctor(&[]), "PTL-0060");
}

/// Addresses of the Pods in an IPv6 range.
fn second_address(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x244, number, 0, 0, 0, 0, 0x10)
}

#[test]
fn listener_of_one_family_is_found() {
    in_namespace(|| {
        let mut world = World::start();
        for number in 0..2_u16 {
            let network = IpNet::new(second_address(number + 1).into(), 64).expect("a network");
            let mut links = Connection::open_in(&world.pods[usize::from(number)]).expect("a socket");
            let link: LinkName = "eth0".parse().expect("a name");
            let index = links.link_index(&link).expect("a link");
            links.add_address(index, network).expect("an address");
        }
        add_families(&world);
        expect_none(&world.doctor(&[]));
        replace_server(
            &mut world,
            0,
            &format!("0.0.0.0:{TARGET_PORT}"),
            Behaviour::SendsNothing,
        );
        let report = world.doctor(&[]);
        expect(&report, "PTL-0048");
        assert_eq!(report.findings["findings"][0]["object"]["name"], "web-six");
    });
}

/// Gives the Pods their second addresses, and creates a Service with IPv6.
fn add_families(world: &World) {
    for number in 1..=2_u16 {
        let addresses = json!([{"ip": format!("10.244.{number}.10")}, {"ip": second_address(number)}]);
        let path = format!("/api/v1/namespaces/default/pods/web-{number}/status");
        let change = json!({"status": {"podIPs": addresses}});
        world.call(Method::PATCH, &path, MERGE_PATCH, Some(change));
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web-six"},
        "spec": {"ipFamilies": ["IPv6"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}});
    let services = "/api/v1/namespaces/default/services";
    world.call(Method::POST, services, JSON, Some(service));
    let endpoint = |number: u16| {
        json!({"addresses": [second_address(number)], "nodeName": format!("node-{number}"), "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": format!("web-{number}")}})
    };
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv6",
        "metadata": {"name": "web-six-1", "labels": {"kubernetes.io/service-name": "web-six",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "ports": [{"name": "http", "port": TARGET_PORT, "protocol": "TCP"}], "endpoints": [endpoint(1), endpoint(2)]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    world.call(Method::POST, slices, JSON, Some(slice));
}
