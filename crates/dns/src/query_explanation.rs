//! Explanation of answers, for `portolan dns query` and `/explain`.

use std::net::{IpAddr, Ipv4Addr};

use crate::forward::{CacheLookup, EntryKind, Forwarder, ServedEntry};
use crate::metrics::code_name;
use crate::server::{Peer, Reaction, Responder, Transport};
use crate::wire::{Name, Question, RecordValue, Records, TCP_BYTES_MAX, kind};
use crate::zone::ZoneState;

/// Query types with a name.
const TYPES: [(&str, u16); 12] = [
    ("A", kind::A),
    ("AAAA", kind::AAAA),
    ("ANY", kind::ANY),
    ("CNAME", kind::CNAME),
    ("HTTPS", 65),
    ("MX", 15),
    ("NS", kind::NS),
    ("PTR", kind::PTR),
    ("SOA", kind::SOA),
    ("SRV", kind::SRV),
    ("SVCB", 64),
    ("TXT", kind::TXT),
];

/// Returns the query type with a name or number.
pub fn query_type_of(text: &str) -> Option<u16> {
    let named = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|(_, kind)| *kind).or_else(|| text.parse().ok())
}

/// Explains the current answer for a client at `from`. Sends no forwarded query.
pub fn explain(responder: &Responder, name: &Name, kind: u16, from: Option<IpAddr>) -> String {
    let mut lines = describe_zone(responder, &name.to_lower());
    if let Some(address) = from {
        lines.extend(describe_client(responder, address));
    }
    if !is_in_zone(responder, &name.to_lower()) {
        let zone = responder.zone().live();
        let pod = from.and_then(|address| zone.pod_at(address));
        let namespace = pod.map_or_else(|| "default".to_owned(), |pod| pod.namespace().into_owned());
        if let Some(full) = suggestion(responder, name, kind, &namespace, zone.cluster_domain()) {
            lines.push(format!("did you mean {full}?"));
        }
        lines.extend(describe_upstream(
            responder.forwarder(),
            &Question::about(*name, kind),
        ));
    }
    // Without an address, the client is allowed, and is not a Pod.
    let address = from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    lines.extend(answer(responder, name, kind, address));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Returns true if a name in lower case is in the zone of the cluster or of the clusterset.
fn is_in_zone(responder: &Responder, name: &Name) -> bool {
    let zone = responder.zone();
    let clusterset = zone.clusterset().map(|index| index.cluster_domain());
    name.is_within(zone.live().cluster_domain()) || clusterset.is_some_and(|domain| name.is_within(domain))
}

/// Describes the state of the zone, and the records of a name in lower case.
fn describe_zone(responder: &Responder, name: &Name) -> Vec<String> {
    let zone = responder.zone();
    let state = match zone.state() {
        ZoneState::Live => "live: the initial lists are complete",
        ZoneState::Snapshot => "stale: the initial lists are not complete, answers come from the snapshot",
        ZoneState::Unknown => {
            "unknown: the initial lists are not complete and there is no snapshot, queries for the zone fail"
        }
    };
    let mut lines = vec![format!("zone {} is {state}", zone.live().cluster_domain())];
    let clusterset = zone
        .clusterset()
        .filter(|index| name.is_within(index.cluster_domain()));
    if let Some(index) = clusterset {
        let state = if index.is_synced() {
            "live"
        } else {
            "unknown: the initial lists are not complete, queries for the zone fail"
        };
        lines.push(format!("zone {} is {state}", index.cluster_domain()));
        lines.extend(index.describe(name));
    } else if let Some(index) = zone.current_index() {
        lines.extend(index.describe(name));
    }
    lines
}

/// Describes a client: its Pod, and a refusal of its queries.
fn describe_client(responder: &Responder, address: IpAddr) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(pod) = responder.zone().live().pod_at(address) {
        let search = match responder.policy().search {
            Some(_) => "the server tries the names of its search list",
            None => "it tries the names of its search list itself",
        };
        lines.push(format!(
            "the client is Pod {}/{}; {search}",
            pod.namespace(),
            pod.name()
        ));
    }
    if !responder.allows(address) {
        lines.push("the client is not allowed (--allow-from)".to_owned());
    }
    lines
}

/// Returns the name in the zone that the search list of a Pod adds to a short name: `web`, `web.NAMESPACE` or
/// `web.NAMESPACE.svc`. `None` if the zone does not have it.
fn suggestion(
    responder: &Responder,
    name: &Name,
    kind: u16,
    namespace: &str,
    cluster_domain: &Name,
) -> Option<Name> {
    let text = name.to_string();
    let short = text.trim_end_matches('.');
    let full = match name.labels().count() {
        1 => format!("{short}.{namespace}.svc.{cluster_domain}"),
        2 => format!("{short}.svc.{cluster_domain}"),
        3 => format!("{short}.{cluster_domain}"),
        _ => return None,
    };
    let full = Name::from_text(&full).ok()?;
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let lines = answer(responder, &full, kind, address);
    lines
        .first()
        .is_some_and(|line| line == "answer: NOERROR")
        .then_some(full)
}

/// Describes the cache entry of a question, and its resolvers.
fn describe_upstream(forwarder: &Forwarder, question: &Question) -> Vec<String> {
    let cached = |subject: &str, served: &ServedEntry| {
        let kind = match served.kind() {
            EntryKind::Success => "with records",
            EntryKind::Denial => "without records",
        };
        let ttl = served.ttl(u32::MAX);
        format!(
            "cache: response {kind}, {subject}, {} s old, {ttl} s left",
            served.age_seconds()
        )
    };
    let cache = match forwarder.peek(question) {
        CacheLookup::Fresh { answer, .. } => cached("fresh", &answer),
        CacheLookup::Stale(answer) => cached("stale: served if the resolvers fail", &answer),
        CacheLookup::StaleAfterFailure(answer) => cached(
            "stale: served, because the resolvers failed a moment ago",
            &answer,
        ),
        CacheLookup::Miss => "cache: no entry".to_owned(),
    };
    let mut lines = vec![cache];
    let group = forwarder.routes().group(&question.name.to_lower());
    if group.is_empty() {
        lines.push("resolver: none is configured for the name".to_owned());
    }
    for upstream in group.upstreams() {
        let health = if upstream.is_healthy() { "healthy" } else { "down" };
        lines.push(format!("resolver: {} is {health}", upstream.address()));
    }
    lines
}

/// Describes the response that needs no forwarded query.
fn answer(responder: &Responder, name: &Name, kind: u16, address: IpAddr) -> Vec<String> {
    let peer = Peer {
        address,
        transport: Transport::Tcp,
    };
    let message = Question::about(*name, kind).encode(0, None);
    let mut buffer = vec![0; TCP_BYTES_MAX];
    let length = match responder.respond(&message, peer, &mut buffer, &mut responder.uncounted_state()) {
        Reaction::Send(length) | Reaction::SendAndPrefetch(length, _) => length,
        Reaction::Forward(_) => return vec!["answer: a forwarded query is needed".to_owned()],
        Reaction::Transfer(_) => return vec!["answer: zone transfer".to_owned()],
    };
    let answer = buffer.get(..length).unwrap_or_default();
    let code = answer.get(3).map_or(0, |flags| u16::from(flags & 0xF));
    let mut lines = vec![format!("answer: {}", code_name(code))];
    for record in Records::of(answer) {
        let value = match record.value {
            RecordValue::A(address) => format!("A {address}"),
            RecordValue::Aaaa(address) => format!("AAAA {address}"),
            RecordValue::Cname(name) => format!("CNAME {name}"),
        };
        lines.push(format!("  {} {} {value}", record.owner, record.ttl_seconds));
    }
    lines
}

#[cfg(test)]
mod tests;
