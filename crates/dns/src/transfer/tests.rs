use std::collections::BTreeSet;

use api::object::{Endpoint, EndpointSlice, SERVICE_NAME_LABEL, Service};

use super::*;
use crate::records::Settings;
use crate::wire::{Question, RecordValue, Records, parse_query};

const SERVICES: u32 = 3_000;

#[test]
fn zone_transfer_is_enclosed_in_soa_records() {
    let zone = Name::from_text("cluster.local").expect("a name");
    let index = Index::new(Settings::of(zone));
    for number in 0..SERVICES {
        let mut service = Service::default();
        service.metadata.name = format!("service-{number}");
        service.metadata.namespace = "ns".to_owned();
        service.spec.cluster_ip = std::net::Ipv4Addr::from(0x0a60_0000 + number).to_string();
        index.apply_service(&service).expect("applied");
    }
    let mut peers = Service::default();
    peers.metadata.name = "peers".to_owned();
    peers.metadata.namespace = "ns".to_owned();
    peers.spec.cluster_ip = "None".to_owned();
    index.apply_service(&peers).expect("applied");
    let mut slice = EndpointSlice::default();
    slice.metadata.name = "peers-1".to_owned();
    slice.metadata.namespace = "ns".to_owned();
    let labels = &mut slice.metadata.labels;
    labels.insert(SERVICE_NAME_LABEL.to_owned(), "peers".to_owned());
    slice.endpoints = vec![Endpoint {
        addresses: vec!["10.1.0.1".into()],
        ..Endpoint::default()
    }];
    index.apply_slice(&slice).expect("applied");

    let query = parse_query(&Question::about(zone, kind::AXFR).encode(3, None)).expect("a query");
    let messages = messages(&index, &query);
    assert!(messages.len() > 1 && messages.iter().all(|message| message.len() <= MESSAGE_BYTES));
    let soa = |message: &[u8], at: usize| message.get(at..at + 2) == Some(&kind::SOA.to_be_bytes());
    let first = messages.first().expect("a message");
    // Behind the header and the question, a record begins with a pointer to the zone.
    assert!(soa(first, 12 + zone.as_wire().len() + 4 + 2), "SOA comes first");
    let last = messages.last().expect("a message");
    let soa_bytes = 2 + 10 + (7 + 2) + (11 + 2) + 20;
    assert!(soa(last, last.len() - soa_bytes + 2), "SOA comes last");
    let addresses: BTreeSet<_> = messages
        .iter()
        .flat_map(|message| Records::of(message))
        .filter(|record| matches!(record.value, RecordValue::A(_)))
        .map(|record| record.owner.to_string())
        .collect();
    assert_eq!(addresses.len(), SERVICES as usize + 2);
    assert!(addresses.contains("10-1-0-1.peers.ns.svc.cluster.local."));
}
