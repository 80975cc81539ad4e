//! `portolan trace --live`: packets that are sent from a Pod and from the node, and compared with the plan.

use netlink::nftables::{Batch, Change, Element, TableFamily};
use rustix::process::Signal;
use serde_json::Value;
use testbed::in_namespace;

use crate::world::{CLUSTER_IP, World};

/// Client on the examined node, which is an endpoint, too.
const POD: &str = "pod/default/web-1";
/// Connections of one command.
const COUNT: usize = 6;

/// Output of a command.
struct Sent {
    exit_code: Option<i32>,
    live: Value,
    text: String,
}

fn send(world: &World, from: &str, more: &[&str]) -> Sent {
    let (destination, kubeconfig) = (format!("tcp://{CLUSTER_IP}:80"), world.kubeconfig());
    let count = COUNT.to_string();
    let arguments = [
        "trace",
        &destination,
        "--from",
        from,
        "--live",
        "--count",
        &count,
        "--kubeconfig",
        &kubeconfig,
    ];
    let output = world.portolan(&[&arguments[..], more].concat());
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let tree: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Sent {
        exit_code: output.status.code(),
        live: tree["live"].clone(),
        text,
    }
}

fn check_agreement(world: &World, from: &str) {
    let sent = send(world, from, &["-o", "json"]);
    assert_eq!(sent.exit_code, Some(0), "{}", sent.text);
    assert_eq!(sent.live["mode"], "nftables");
    let connections = sent.live["connections"].as_array().expect("connections");
    assert_eq!(connections.len(), COUNT);
    for connection in connections {
        assert_eq!(connection["response"], "answered", "{connection:#}");
        let endpoint = connection["entry"]["endpoint"].as_str().expect("an endpoint");
        assert!(
            ["10.244.1.10:8080", "10.244.2.10:8080"].contains(&endpoint),
            "{endpoint}"
        );
        let rules = connection["rules"].as_array().expect("rules");
        if sent.live["evidence"]["rules"] == true {
            assert!(
                rules.iter().any(|rule| rule["table"] == "inet portolan"),
                "{rules:#?}"
            );
        }
    }
}

#[test]
fn plan_and_kernel_are_compared() {
    in_namespace(|| {
        let world = World::start();
        check_agreement(&world, POD);
        check_agreement(&world, "node/node-1");
        let text = send(&world, POD, &[]).text;
        assert!(text.ends_with("  plan and kernel agree\n"), "{text}");
    });
}

#[test]
fn differences_of_plan_and_kernel_are_shown() {
    in_namespace(|| {
        let world = World::start();
        let absent = send(&world, "pod/default/web-2", &[]);
        assert_eq!(absent.exit_code, Some(2));
        assert!(
            absent.text.contains("is not here, its node is node-2"),
            "{}",
            absent.text
        );

        // A stopped proxy does not repair its rules.
        world.signal_proxy(Signal::STOP);
        let mut batch = Batch::new("portolan", None);
        let key = [10, 96, 0, 77, 6, 0, 0, 0, 0, 80, 0, 0];
        batch
            .elements(Change::Delete, "services4", 0)
            .push(&Element::key(&key));
        world
            .nftables(|nftables| nftables.commit(batch))
            .expect("changed rules");
        let altered = send(&world, POD, &["-o", "json"]);
        assert_eq!(altered.exit_code, Some(1), "{}", altered.text);
        for connection in altered.live["connections"].as_array().expect("connections") {
            let difference = &connection["disagreements"][0];
            let plan = difference["plan"].as_str().expect("a text");
            assert!(plan.starts_with("forwards to 10.244.1.10:8080"), "{plan}");
            assert_ne!(connection["response"], "answered", "{connection:#}");
        }
        let text = send(&world, POD, &[]).text;
        assert!(
            text.contains("plan: forwards to 10.244.1.10:8080, 10.244.2.10:8080, kernel: "),
            "{text}"
        );
        let tables = world
            .nftables(|nftables| nftables.chain_names(TableFamily::Inet))
            .expect("chains");
        assert!(
            !tables.contains(&"arriving".to_owned()),
            "the table of the trace is deleted: {tables:?}"
        );
    });
}
