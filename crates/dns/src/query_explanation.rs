//! Explanation of answers, for `portolan dns query` and `/explain`.

use std::fmt::Write;
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
    let mut out = String::new();
    let zone = responder.zone();
    let lower = name.to_lower();
    let cluster_domain = zone.live().cluster_domain();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        out.write_fmt(text).unwrap_or_default();
        out.push('\n');
    };
    let state = match zone.state() {
        ZoneState::Live => "live: the initial lists are complete",
        ZoneState::Snapshot => "stale: the initial lists are not complete, answers come from the snapshot",
        ZoneState::Unknown => {
            "unknown: the initial lists are not complete and there is no snapshot, queries for the zone fail"
        }
    };
    line(format_args!("zone {cluster_domain} is {state}"));
    let clusterset = zone
        .clusterset()
        .filter(|index| lower.is_within(index.cluster_domain()));
    let in_zone = lower.is_within(cluster_domain) || clusterset.is_some();
    if let Some(index) = clusterset {
        let state = if index.is_synced() {
            "live"
        } else {
            "unknown: the initial lists are not complete, queries for the zone fail"
        };
        line(format_args!("zone {} is {state}", index.cluster_domain()));
        for sentence in index.describe(&lower) {
            line(format_args!("{sentence}"));
        }
    } else if let Some(index) = zone.current_index() {
        for sentence in index.describe(&lower) {
            line(format_args!("{sentence}"));
        }
    }
    if let Some(pod) = from.and_then(|address| zone.live().pod_at(address)) {
        let search = match responder.policy().search {
            Some(_) => "the server tries the names of its search list",
            None => "it tries the names of its search list itself",
        };
        line(format_args!(
            "the client is Pod {}/{}; {search}",
            pod.namespace(),
            pod.name()
        ));
    }
    if from.is_some_and(|address| !responder.allows(address)) {
        line(format_args!("the client is not allowed (--allow-from)"));
    }
    if !in_zone {
        let pod = from.and_then(|address| zone.live().pod_at(address));
        let namespace = pod.map_or_else(|| "default".to_owned(), |pod| pod.namespace().into_owned());
        if let Some(full) = suggestion(responder, name, kind, &namespace, cluster_domain) {
            line(format_args!("did you mean {full}?"));
        }
        for sentence in describe_upstream(responder.forwarder(), &Question::about(*name, kind)) {
            line(format_args!("{sentence}"));
        }
    }
    // Without an address, the client is allowed, and is not a Pod.
    let address = from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    for sentence in answer(responder, name, kind, address) {
        line(format_args!("{sentence}"));
    }
    out
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
