//! PTL-0056.

use crate::finding::{Code, Finding, Severity};
use crate::observation::BgpSession;
use crate::observed::{Observed, observed_nodes};
use crate::rule::Rule;
use crate::world::World;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("bgp_session.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(56);
const ESTABLISHED: &str = "established";

fn check(world: &World) -> Vec<Finding> {
    observed_nodes(world).filter_map(finding).collect()
}

fn finding(node: Observed<'_>) -> Option<Finding> {
    let sessions = node.observation.bgp_sessions.as_ref()?;
    let has_load_balancer = || {
        node.world
            .services()
            .any(|service| !service.ingress_ips().is_empty())
    };
    let is_established = |session: &BgpSession| session.state.eq_ignore_ascii_case(ESTABLISHED);
    let session = sessions.iter().find(|session| !is_established(session))?;
    if !has_load_balancer() {
        return None;
    }
    let (severity, effect) = if sessions.iter().any(is_established) {
        (Severity::Warning, "This router has no route through the node")
    } else {
        (
            Severity::Error,
            "No router has a route to load balancer IPs through the node",
        )
    };
    let speaker = session.program.as_deref().unwrap_or("the BGP speaker");
    let message = format!(
        "The BGP session of {speaker} on Node {} with {} is not established (state {}). {effect}",
        node.name(),
        session.peer,
        session.state
    );
    let remedy = format!(
        "Compare address, AS numbers and password on both sides, and check that TCP port 179 is open: {}",
        node.run(&format!("nc -vz {} 179", session.peer))
    );
    let field = format!("bgpSessions[{}]", session.peer);
    Some(node.finding(CODE, severity, field, message, remedy))
}
