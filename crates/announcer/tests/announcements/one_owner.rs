//! An address has one owner through failures.

use std::time::Duration;

use announcer::{NodeName, rendezvous};
use client::Config;
use testbed::Cluster;

use crate::asker::Asker;
use crate::setting::{
    ADDRESS, Announcer, Order, Setting, TIMEOUT, await_api, await_members, set_link, start_announcer,
};

#[test]
fn address_has_one_owner_through_failures() {
    testbed::in_namespace(|| {
        let Setting { cluster, api, .. } = &Setting::start(3);
        let (config, announcer) = (&api.admin, &api.announcer);
        let start = |name: &str| start_announcer(cluster, announcer, name);
        let mut announcers: Vec<Announcer> = ["node-1", "node-2", "node-3"].map(start).into();
        let mut asker = Asker::start(cluster);
        // While the three discover each other, the address may move.
        await_members(cluster, config);
        asker.until(Duration::from_secs(2), |_| false);
        asker.seen.clear();
        let names = ["node-1", "node-2", "node-3"].map(NodeName::from);
        let winner = rendezvous::winner(ADDRESS.into(), names.iter());
        let owner_number = names.iter().position(|name| Some(name) == winner);
        let owner_number = owner_number.expect("a winner");
        let owner = announcers[owner_number].hardware;
        asker.until(TIMEOUT, |last| *last == owner).expect("an owner");

        // Frozen: another node announces; after the thaw the address is handed back.
        let order = |announcer: &Announcer, order| announcer.orders.send(order).expect("it runs");
        order(&announcers[owner_number], Order::Freeze(Duration::from_secs(4)));
        let second = asker
            .until(TIMEOUT, |last| *last != owner)
            .expect("another owner");
        asker
            .until(TIMEOUT, |last| *last == owner)
            .expect("the owner again");

        // Partitioned: another node announces; the same again.
        let port = owner_number + 1;
        set_link(cluster, port, false);
        asker
            .until(TIMEOUT, |last| *last == second)
            .expect("the same choice");
        set_link(cluster, port, true);
        asker
            .until(TIMEOUT, |last| *last == owner)
            .expect("the owner again");

        // Killed and restarted.
        order(&announcers[owner_number], Order::Die);
        asker
            .until(TIMEOUT, |last| *last == second)
            .expect("another owner");
        let name = format!("node-{}", owner_number + 1);
        announcers[owner_number] = start(&name);
        asker
            .until(TIMEOUT, |last| *last == owner)
            .expect("the owner again");

        // Shut down: handed over.
        order(&announcers[owner_number], Order::End);
        asker
            .until(TIMEOUT, |last| *last == second)
            .expect("another owner");

        // Two owners at a time would alternate in the responses. A busy host may have moved the address once or twice
        // more than the test did.
        asker.until(Duration::from_secs(1), |_| false);
        let made_to = 8;
        assert!(asker.seen.len() < 2 * made_to, "{:?}", asker.seen);
        await_event(cluster, config);
    });
}

/// Waits for the Event with the announcing node.
fn await_event(cluster: &Cluster, config: &Config) {
    await_api(cluster, config, "/api/v1/namespaces/default/events", |list| {
        let events = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        events.iter().any(|event| {
            event["reason"] == "nodeAssigned"
                && event["message"]
                    .as_str()
                    .is_some_and(|text| text.starts_with("announcing from node"))
        })
    });
}
