//! PTL-0054: the link or virtual servers of ipvs mode are left.

use crate::facts::observed_node::{IPVS_LINK, ObservedNode, observed_nodes};
use crate::finding::{Code, Finding, Severity};
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("ipvs_leftover.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(54);
/// Mode in which kube-proxy maintains the link and the virtual servers.
const IPVS_MODE: &str = "ipvs";

fn check(world: &World) -> Vec<Finding> {
    observed_nodes(world).filter_map(finding).collect()
}

fn finding(node: ObservedNode<'_>) -> Option<Finding> {
    let proxies = node.observation.proxies.as_ref()?;
    let may_use_ipvs = proxies
        .iter()
        .any(|proxy| proxy.mode.as_deref().is_none_or(|mode| mode == IPVS_MODE));
    if may_use_ipvs || proxies.is_empty() {
        return None;
    }
    let link = node.links().iter().find(|link| link.name == IPVS_LINK);
    let addresses = link.map_or(0, |link| link.addresses.iter().flatten().count());
    let name = node.name();
    let (field, message) = if addresses > 0 {
        let message = format!(
            "The link {IPVS_LINK} of ipvs mode is left on Node {name} with {addresses} addresses of Services, and no proxy runs in this mode. The node takes packets to these addresses, and answers ARP for them"
        );
        (format!("links[{IPVS_LINK}]"), message)
    } else {
        let number = node.observation.ipvs_services.filter(|number| *number > 0)?;
        let message = format!(
            "{number} virtual servers of IPVS are left on Node {name}, and no proxy runs in ipvs mode. They send connections to former endpoints"
        );
        ("ipvsServices".to_owned(), message)
    };
    let remedy = node.run(&format!("ip link delete {IPVS_LINK}; ipvsadm --clear"));
    Some(node.finding(CODE, Severity::Warning, field, message, remedy))
}
