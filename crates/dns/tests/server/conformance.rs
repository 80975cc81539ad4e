//! Queries of `conformance/dns.json` with CoreDNS's responses, against the index, through message parser and writer.

use std::path::Path;
use std::sync::Arc;

use crate::support::{Decoded, decode, question};
use api::object::{EndpointSlice, Namespace, Protocol, Service};
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Peer, Reaction, Responder, Transport};
use dns::wire::Name;
use serde::de::DeserializeOwned;
use serde_json::Value;

const CODES: [&str; 6] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];

#[test]
fn responses_match_the_recording() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/dns.json");
    let recorded: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("the recorded cases")).expect("JSON");
    let responder = Responder::new(
        Arc::new(index_of(&recorded["objects"])),
        Forwarder::to(Vec::new()),
    );
    let queries = recorded["queries"].as_array().expect("queries");
    let failures: Vec<String> = queries
        .iter()
        .filter_map(|case| failure(&responder, case))
        .collect();
    assert!(queries.len() >= 200, "the file has cases");
    assert!(
        failures.is_empty(),
        "{} of {} fail:\n{}",
        failures.len(),
        queries.len(),
        failures.join("\n")
    );
}

fn index_of(objects: &Value) -> Index {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    for object in objects.as_array().expect("objects") {
        let applied = match object["kind"].as_str() {
            Some("Namespace") => index.apply_namespace(&read::<Namespace>(object).metadata.name),
            Some("Service") => index.apply_service(&read::<Service>(object)),
            Some("EndpointSlice") => index.apply_slice(&defaulted(read(object))),
            Some("Pod") => Ok(()),
            other => panic!("object of kind {other:?}"),
        };
        applied.expect("names that fit");
    }
    index.set_synced();
    index
}

/// Sets the defaults of the API server.
fn defaulted(mut slice: EndpointSlice) -> EndpointSlice {
    for port in &mut slice.ports {
        port.protocol.get_or_insert(Protocol::Tcp);
        port.name.get_or_insert_default();
    }
    slice
}

fn read<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("an object of its kind")
}

fn failure(responder: &Responder, case: &Value) -> Option<String> {
    let (name, kind) = (
        case["name"].as_str().expect("a name"),
        case["type"].as_str().expect("a type"),
    );
    let edns = case["edns"]
        .as_u64()
        .map(|size| u16::try_from(size).expect("a UDP size"));
    let transport = if case["tcp"] == true {
        Transport::Tcp
    } else {
        Transport::Udp
    };
    let mut buffer = vec![0; 65_535];
    let message = question(4711, name, kind, edns);
    let peer = Peer {
        address: [192, 0, 2, 1].into(),
        transport,
    };
    let got = match responder.respond(&message, peer, &mut buffer, &mut responder.worker_state()) {
        Reaction::Send(octets) => decode(&buffer[..octets]),
        Reaction::SendAndPrefetch(..) | Reaction::Forward(_) | Reaction::Transfer(_) => {
            panic!("there is no upstream")
        }
    };
    let expect = &case["expect"];
    let recorded = Decoded {
        id: 4711,
        code: code(expect),
        authoritative: expect["aa"] == true,
        truncated: expect["tc"] == true,
        name: name.to_owned(),
        answer: rows(&expect["answer"]),
        authority: rows(&expect["authority"]),
        additional: rows(&expect["additional"]),
        edns,
    };
    let got = normalized(got);
    // Without a forwarder CoreDNS responds with SERVFAIL to foreign names; REFUSED is equivalent.
    let same = got == normalized(recorded) || code(expect) == 2 && got.code == 5 && got.answer.is_empty();
    (!same).then(|| format!("{name} {kind} {transport:?}: {got:?}, recorded {expect}"))
}

fn code(expect: &Value) -> u16 {
    let at = CODES
        .iter()
        .position(|code| expect["rcode"] == *code)
        .expect("a known code");
    u16::try_from(at).expect("a small number")
}

/// Sorts the records, whose order is irrelevant, and drops those of a truncated response.
fn normalized(mut decoded: Decoded) -> Decoded {
    for section in [
        &mut decoded.answer,
        &mut decoded.authority,
        &mut decoded.additional,
    ] {
        section.sort();
        if decoded.truncated {
            section.clear();
        }
    }
    decoded
}

fn rows(section: &Value) -> Vec<String> {
    let texts = |row: &Value| {
        row.as_array()
            .map(|row| row.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
    };
    section
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(texts)
        .collect()
}
