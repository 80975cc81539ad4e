//! Datagrams of clients, through parser and responder: every response is a complete message for its query.
#![no_main]

use std::sync::{Arc, LazyLock};

use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Peer, Reaction, Responder, Transport};
use dns::wire::{HEADER_BYTES, Name, Records};
use libfuzzer_sys::fuzz_target;

static RESPONDER: LazyLock<Responder> = LazyLock::new(|| {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    for (name, cluster_ip, external_name) in [("web", "10.96.0.1", ""), ("peers", "None", ""), ("out", "", "a.b")] {
        let mut service = api::object::Service::default();
        service.metadata.name = name.to_owned();
        service.metadata.namespace = "ns".to_owned();
        service.spec.cluster_ip = cluster_ip.to_owned();
        service.spec.external_name = external_name.to_owned();
        if !external_name.is_empty() {
            service.spec.kind = "ExternalName".to_owned();
        }
        index.apply_service(&service).expect("applied");
    }
    let mut slice = api::object::EndpointSlice::default();
    slice.metadata.name = "peers-1".to_owned();
    slice.metadata.namespace = "ns".to_owned();
    let labels = &mut slice.metadata.labels;
    labels.insert(api::object::SERVICE_NAME_LABEL.to_owned(), "peers".to_owned());
    slice.endpoints = (0..50)
        .map(|last| api::object::Endpoint {
            addresses: vec![format!("10.1.0.{last}").into()],
            ..api::object::Endpoint::default()
        })
        .collect();
    index.apply_slice(&slice).expect("applied");
    index.apply_namespace("ns").expect("applied");
    index.set_synced();
    Responder::new(Arc::new(index), Forwarder::to(Vec::new()))
});

fuzz_target!(|message: &[u8]| {
    let mut buffer = vec![0; 65_535];
    let mut lane = RESPONDER.uncounted_state();
    for transport in [Transport::Udp, Transport::Tcp] {
        let peer = Peer {
            address: [192, 0, 2, 1].into(),
            transport,
        };
        match RESPONDER.respond(message, peer, &mut buffer, &mut lane) {
            Reaction::Send(0) => {}
            Reaction::Send(octets) => {
                let answer = &buffer[..octets];
                assert!(octets >= HEADER_BYTES && answer[..2] == message[..2] && answer[2] & 0x80 != 0);
                assert!(transport == Transport::Tcp || octets <= 4_096);
                assert!(Records::of(answer).count() <= 1_000);
            }
            other => panic!("there is no upstream and no transfer: {other:?}"),
        }
    }
});
