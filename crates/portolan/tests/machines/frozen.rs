//! The machine that answers for an address of the edge stands still, and goes on later.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::asker::{Asker, Hardware, hardware_of};

use super::greeter::{self, ADDRESS, Greeted, POOL};
use super::lab::Lab;

const SERVER: &str = "node-1";
const OTHERS: [&str; 2] = ["node-2", "node-3"];
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-announcer";
/// How long a client waits: its packets may lead to the machine that stands still, whose kernel takes connections.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two questions.
const QUESTION_PERIOD: Duration = Duration::from_millis(5);
/// How long the owner stands still: many times as long as it takes others to notice.
const FROZEN: Duration = Duration::from_secs(4);

/// Asks for so long who has the address, and writes down who answers otherwise than the one before.
fn watch(asker: &Asker, seen: &mut Vec<Hardware>, lasts: Duration) {
    let end = Instant::now() + lasts;
    while Instant::now() < end {
        asker.ask(ADDRESS).expect("asked");
        thread::sleep(QUESTION_PERIOD);
        for hardware in asker.hear(ADDRESS).expect("answers") {
            if seen.last() != Some(&hardware) {
                seen.push(hardware);
            }
        }
    }
}

#[test]
fn what_a_frozen_machine_had_goes_to_another_and_comes_back_by_being_given() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(3);
        lab.up(SERVER, &[POOL]);
        // The API goes on, whoever stands still.
        let labels =
            json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}});
        let path = format!("/api/v1/nodes/{SERVER}");
        lab.ask(SERVER, Method::PATCH, &path, Some(&labels));
        let (server, token) = (lab.server(SERVER), lab.token(SERVER, &[]));
        for machine in OTHERS {
            lab.join(machine, &["--server", &server, "--token", &token]);
        }
        for machine in OTHERS {
            lab.await_node(SERVER, machine, "True");
        }
        lab.wait_for("three who vote", || {
            let lease = lab.try_ask(SERVER, Method::GET, LEASE, None)?;
            let record = lease["metadata"]["annotations"]["portolan.dev/announcers"].as_str();
            let record: Value = serde_json::from_str(record.unwrap_or("null")).expect("JSON");
            Ok(record["members"]
                .as_object()
                .is_some_and(|members| members.len() == 3))
        });
        greeter::serve(&lab, SERVER);
        let members = OTHERS.map(|machine| {
            let member = lab.cluster().member(machine).expect("a machine");
            let hardware = hardware_of(member).expect("an Ethernet address");
            (machine, lab.address(machine), hardware)
        });
        let by = |lab: &Lab, ip: IpAddr| match Greeted::connect(lab, PATIENCE) {
            Ok(mut greeted) if greeted.by == ip => greeted.exchange().ok(),
            _ => None,
        };
        lab.until("a connection", |lab| Greeted::connect(lab, PATIENCE).ok());
        let asker = Asker::new(lab.cluster().outside().expect("the outside")).expect("a socket");
        // While they find each other, the address may move.
        let mut seen = Vec::new();
        lab.until("an owner that stays", |_| {
            seen.clear();
            watch(&asker, &mut seen, Duration::from_secs(3));
            (seen.len() == 1).then_some(())
        });
        let is_owner = |(_, _, hardware): &(&str, IpAddr, Hardware)| *hardware == seen[0];
        let owner = members.into_iter().find(is_owner).expect("one of these");
        let other = members
            .into_iter()
            .find(|member| !is_owner(member))
            .expect("another one");
        lab.until("connections by the owner", |lab| by(lab, owner.1));

        lab.signal(owner.0, Signal::STOP);
        lab.until("connections by the other machine", |lab| by(lab, other.1));
        watch(&asker, &mut seen, FROZEN);
        assert_eq!(seen, [owner.2, other.2], "it is frozen, and nobody speaks for it");
        by(&lab, other.1).expect("a connection");

        // It wakes up with questions that nobody has read meanwhile, and believes in nothing that it knew.
        lab.signal(owner.0, Signal::CONT);
        lab.until("the owner again", |lab| {
            watch(&asker, &mut seen, Duration::from_millis(200));
            by(lab, owner.1).filter(|()| seen.last() == Some(&owner.2))
        });
        watch(&asker, &mut seen, Duration::from_secs(1));
        // Two who answer at the same time would be seen by turns, with every question anew. A busy machine may have moved
        // the address once more than it was made to.
        assert!(seen.len() <= 5, "{seen:?}");
        by(&lab, owner.1).expect("a connection");
    });
}
