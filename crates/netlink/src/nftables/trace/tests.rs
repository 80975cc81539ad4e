use std::net::UdpSocket;

use crate::message::Writer;
use crate::nftables::{Table, TableFamily};
use crate::route::{Connection, LinkChange};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends datagrams from one socket of this namespace to another one, and returns the flow.
fn sockets() -> (UdpSocket, UdpSocket, TracedFlow) {
    let mut links = Connection::open().expect("a socket");
    let loopback = links.link_index(&"lo".parse().expect("a name")).expect("a link");
    links.change_link(loopback, &LinkChange::up()).expect("a link");
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (client, server) = (bind(), bind());
    let flow = TracedFlow {
        protocol: 17,
        source: client.local_addr().expect("an address"),
        destination: server.local_addr().expect("an address"),
    };
    client.connect(flow.destination).expect("a connected socket");
    (client, server, flow)
}

/// Creates a table whose chain `entry` jumps to `blocks`, which drops all packets on output.
fn drop_everything() {
    let mut batch = Batch::new("firewall", None);
    let table = Table {
        name: "firewall".to_owned(),
        comment: String::new(),
        is_dormant: false,
    };
    batch.table(Change::Add, &table, 0);
    let mut entry = chain("entry", Hook::Output);
    entry.base = entry.base.map(|base| BaseChain { priority: 0, ..base });
    batch.chain(Change::Add, &entry, 0);
    let blocks = Chain {
        name: "blocks".to_owned(),
        base: None,
        comment: String::new(),
    };
    batch.chain(Change::Add, &blocks, 0);
    for (chain, verdict) in [
        ("entry", Verdict::Jump("blocks".to_owned())),
        ("blocks", Verdict::Drop),
    ] {
        let rule = Rule {
            expressions: vec![Expression::Verdict(verdict)],
            comment: String::new(),
        };
        batch.rule(chain, &rule, 0);
    }
    Nftables::open()
        .expect("a socket")
        .commit(batch)
        .expect("a table");
}

#[test]
fn events_name_the_rules_that_a_packet_meets() {
    testbed::in_namespace(|| {
        let (client, _server, flow) = sockets();
        drop_everything();
        let mut tracer = match PacketTracer::open("tracer") {
            Ok(tracer) => tracer,
            Err(error) => testbed::skip_inside(&error.to_string()),
        };
        tracer.follow(&flow).expect("a traced flow");
        // A packet that is dropped on output is an error of the sender.
        assert!(client.send(b"?").is_err());
        let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert!(other.send_to(b"?", flow.destination).is_err());
        let events = tracer.events(Duration::from_millis(200)).expect("events");
        let steps: Vec<(&str, &str, Option<Verdict<&str>>)> = events
            .iter()
            .map(|event| {
                let verdict = event.verdict.as_ref().map(Verdict::<String>::as_deref);
                (event.table.as_str(), event.chain.as_str(), verdict)
            })
            .collect();
        assert_eq!(
            steps,
            [
                ("firewall", "entry", Some(Verdict::Jump("blocks"))),
                ("firewall", "blocks", Some(Verdict::Drop)),
            ]
        );
        assert!(
            events
                .iter()
                .all(|event| event.step == TraceStep::Rule && event.rule.is_some())
        );
    });
}

#[test]
fn packets_of_another_flow_are_not_traced() {
    testbed::in_namespace(|| {
        let (client, server, flow) = sockets();
        let mut tracer = match PacketTracer::open("tracer") {
            Ok(tracer) => tracer,
            Err(error) => testbed::skip_inside(&error.to_string()),
        };
        let reverse = TracedFlow {
            source: flow.destination,
            destination: flow.source,
            ..flow
        };
        tracer.follow(&reverse).expect("a traced flow");
        client.send(b"?").expect("a datagram");
        server.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        server.recv_from(&mut [0; 8]).expect("a datagram");
        assert_eq!(tracer.events(Duration::ZERO).expect("events"), []);
    });
}

#[test]
fn table_ends_with_its_tracer() {
    testbed::in_namespace(|| {
        let tracer = match PacketTracer::open("tracer") {
            Ok(tracer) => tracer,
            Err(error) => testbed::skip_inside(&error.to_string()),
        };
        let mut nftables = Nftables::open().expect("a socket");
        assert!(nftables.table("tracer").expect("tables").is_some());
        assert!(
            nftables.delete_table(TableFamily::Inet, "tracer").is_err(),
            "others may not delete it"
        );
        assert!(
            PacketTracer::open("tracer").is_err(),
            "a second tracer has another table"
        );
        drop(tracer);
        assert_eq!(nftables.table("tracer").expect("tables"), None);
    });
}

fn event(write: impl FnOnce(&mut Writer)) -> Option<TraceEvent> {
    let mut writer = Writer::default();
    writer
        .begin(wire::kind(wire::TRACE), 0, 0)
        .fixed(&[wire::NFPROTO_INET, 0, 0, 0]);
    write(&mut writer);
    messages(writer.finish()).find_map(|message| TraceEvent::decode(&message))
}

#[test]
fn policy_and_incomplete_events_are_decoded() {
    let policy = |writer: &mut Writer| {
        writer
            .u32_be(wire::TRACE_ID, 7)
            .text(wire::TRACE_TABLE, "filter")
            .text(wire::TRACE_CHAIN, "input")
            .u32_be(wire::TRACE_TYPE, wire::TRACED_POLICY)
            .u32_be(wire::TRACE_POLICY, 0);
    };
    let decoded = event(policy).expect("an event");
    assert_eq!((decoded.packet, decoded.step), (7, TraceStep::Policy));
    assert_eq!((decoded.verdict, decoded.rule), (Some(Verdict::Drop), None));
    let without_type = |writer: &mut Writer| {
        writer.u32_be(wire::TRACE_ID, 7).text(wire::TRACE_TABLE, "filter");
    };
    assert_eq!(event(without_type), None);
}
