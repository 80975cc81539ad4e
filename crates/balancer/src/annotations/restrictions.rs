//! Annotations that restrict clients. They fail closed: a restriction that cannot be read or put in force withholds the
//! address of its Service.
//!
//! All annotations of this kind but those of [`Remedy::Removal`] name clients that may connect, and what they name adds up.
//! So one that cannot be read only narrows the set, and is a mere fault, as long as ranges of another annotation or of
//! `spec.loadBalancerSourceRanges` are in force.

use api::object::Service;
use ipnet::IpNet;

use super::Fault;
use super::asked::Asked;
use super::row::Remedy;
use super::value;

/// Most faults that the reason of a withheld address quotes: a condition's message is bounded.
const QUOTED_FAULTS_MAX: usize = 4;

/// The remedy where `spec.loadBalancerSourceRanges` takes the place of the annotation.
const RANGES: &str = "name the clients in spec.loadBalancerSourceRanges instead";
/// The remedy where the annotation must go.
const REMOVAL: &str = "remove it, and name the clients that may connect in spec.loadBalancerSourceRanges";

/// The restrictions of clients that annotations of one Service ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Unreadable or unknown to everybody but a cloud; ranges from elsewhere take their place.
    replaceable: Vec<Fault>,
    /// Not in force, and nothing takes their place.
    unenforced: Vec<Fault>,
    /// The annotation whose ranges need the edge.
    needs_edge_by: Option<&'static str>,
}

impl Restrictions {
    /// Takes in an annotation whose value cannot be read.
    pub(super) fn unreadable(&mut self, fault: Fault) {
        self.replaceable.push(fault);
    }

    /// Takes in an annotation that nothing here can put in force.
    pub(super) fn cannot_enforce(&mut self, annotation: &str, remedy: Remedy) {
        let (list, remedy) = match remedy {
            Remedy::Ranges => (&mut self.replaceable, RANGES),
            Remedy::Removal => (&mut self.unenforced, REMOVAL),
        };
        list.push(Fault::Unenforceable {
            annotation: annotation.to_owned(),
            remedy,
        });
    }

    /// Decides which restrictions stand in the way of an address, when all annotations are read. Returns the faults that
    /// do not.
    pub(super) fn settle(&mut self, asked: &Asked, service: &Service) -> Vec<Fault> {
        let ranges = &service.spec.load_balancer_source_ranges;
        // The API validates them; an edge that passed over one could be left with none, which is everybody.
        let unreadable = ranges.iter().find(|text| value::range(text.trim()).is_none());
        self.unenforced.extend(unreadable.map(|range| {
            Fault::Incomplete(format!(
                "spec.loadBalancerSourceRanges has {range:?}, expected ranges such as 192.0.2.0/24"
            ))
        }));
        let lets_in_everybody = are_everybody(&asked.source_ranges, service);
        self.needs_edge_by = asked.ranges_by.filter(|_| !lets_in_everybody);
        let replaceable = std::mem::take(&mut self.replaceable);
        if asked.has_ranges_in_spec || !asked.source_ranges.is_empty() {
            return replaceable;
        }
        self.unenforced.splice(0..0, replaceable);
        Vec::new()
    }

    /// The reason for which the Service gets no address; `None` if all its restrictions can be put in force.
    pub fn withholds(&self, has_edges: bool) -> Option<String> {
        if !self.unenforced.is_empty() {
            let quoted = self.unenforced.iter().take(QUOTED_FAULTS_MAX);
            let mut faults: Vec<String> = quoted.map(Fault::to_string).collect();
            let more = self.unenforced.len().saturating_sub(QUOTED_FAULTS_MAX);
            if more > 0 {
                faults.push(format!("{more} more"));
            }
            let faults = faults.join("; ");
            return Some(format!(
                "{faults}; the address is withheld, since everybody could connect"
            ));
        }
        let by = self.needs_edge_by.filter(|_| !has_edges)?;
        Some(format!(
            "annotation {by} restricts clients, which only the edge does, and no node runs it: start `portolan balancer` with \
             --edge, or {RANGES}; the address is withheld, since everybody could connect"
        ))
    }
}

/// Returns true if the ranges contain every client of each address family of the Service.
fn are_everybody(ranges: &[IpNet], service: &Service) -> bool {
    let has_all = |is_family: fn(&IpNet) -> bool| {
        let mut whole = ranges.iter().filter(|range| range.prefix_len() == 0);
        whole.any(is_family)
    };
    let families = &service.spec.ip_families;
    let has_family = |family: &str| families.iter().any(|one| one == family);
    let needs_v4 = has_family("IPv4") || families.is_empty();
    (!needs_v4 || has_all(|range| matches!(range, IpNet::V4(_))))
        && (!has_family("IPv6") || has_all(|range| matches!(range, IpNet::V6(_))))
}

#[cfg(test)]
mod tests;
