//! Annotations that restrict clients. A restriction that is invalid or cannot be applied withholds the address of its
//! Service.
//!
//! Except for those with [`Remedy::Removal`], these annotations list clients that may connect, and the lists are
//! united. An invalid list therefore only narrows the set. The address is then assigned, with an error, if ranges of
//! another annotation or of `spec.loadBalancerSourceRanges` apply.

use api::object::Service;
use ipnet::IpNet;

use super::AnnotationError;
use super::row::Remedy;
use super::value;
use super::values::AnnotationValues;

/// Maximum number of errors that the reason of a withheld address quotes; a condition's message is bounded.
const QUOTED_ERRORS_MAX: usize = 4;

/// Text for [`Remedy::Ranges`].
const RANGES: &str = "name the clients in spec.loadBalancerSourceRanges instead";
/// Text for [`Remedy::Removal`].
const REMOVAL: &str = "remove it, and name the clients that may connect in spec.loadBalancerSourceRanges";

/// Restrictions of clients by annotations of one Service.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Invalid or enforceable only in a cloud; ranges of another source can replace them.
    replaceable: Vec<AnnotationError>,
    /// Not applied, and not replaceable.
    unenforced: Vec<AnnotationError>,
    /// The annotation whose ranges need the edge.
    needs_edge_by: Option<&'static str>,
}

impl Restrictions {
    /// Adds an annotation with an invalid value.
    pub(super) fn add_invalid(&mut self, error: AnnotationError) {
        self.replaceable.push(error);
    }

    /// Adds an annotation that cannot be enforced.
    pub(super) fn add_unenforceable(&mut self, annotation: &str, remedy: Remedy) {
        let (list, remedy) = match remedy {
            Remedy::Ranges => (&mut self.replaceable, RANGES),
            Remedy::Removal => (&mut self.unenforced, REMOVAL),
        };
        list.push(AnnotationError::Unenforceable {
            annotation: annotation.to_owned(),
            remedy,
        });
    }

    /// Decides which restrictions withhold the address, after all annotations are read. Returns the other errors.
    pub(super) fn resolve(&mut self, values: &AnnotationValues, service: &Service) -> Vec<AnnotationError> {
        let ranges = &service.spec.load_balancer_source_ranges;
        // The API validates the ranges. If an edge skipped the only range because it is invalid, it would admit all
        // clients.
        let invalid = ranges.iter().find(|text| value::range(text.trim()).is_none());
        self.unenforced.extend(invalid.map(|range| {
            AnnotationError::Incomplete(format!(
                "spec.loadBalancerSourceRanges: expected ranges such as 192.0.2.0/24, found {range:?}"
            ))
        }));
        let clients = &values.clients;
        let admits_everybody = contain_all_clients(&clients.source_ranges, service);
        self.needs_edge_by = clients.ranges_source.filter(|_| !admits_everybody);
        let replaceable = std::mem::take(&mut self.replaceable);
        if clients.has_ranges_in_spec || !clients.source_ranges.is_empty() {
            return replaceable;
        }
        self.unenforced.splice(0..0, replaceable);
        Vec::new()
    }

    /// Returns the reason why the address is withheld; `None` if all restrictions can be applied.
    pub fn reason_to_withhold(&self, has_edges: bool) -> Option<String> {
        if !self.unenforced.is_empty() {
            let quoted = self.unenforced.iter().take(QUOTED_ERRORS_MAX);
            let mut errors: Vec<String> = quoted.map(AnnotationError::to_string).collect();
            let more = self.unenforced.len().saturating_sub(QUOTED_ERRORS_MAX);
            if more > 0 {
                errors.push(format!("{more} more"));
            }
            let errors = errors.join("; ");
            return Some(format!(
                "{errors}; the address is withheld, because all clients could connect"
            ));
        }
        let annotation = self.needs_edge_by.filter(|_| !has_edges)?;
        Some(format!(
            "annotation {annotation} restricts clients, which only the edge does, and no node runs an edge: start \
             `portolan balancer` with --edge, or {RANGES}; the address is withheld, because all clients could connect"
        ))
    }
}

/// Returns true if the ranges contain every client of each address family of the Service.
fn contain_all_clients(ranges: &[IpNet], service: &Service) -> bool {
    let has_all = |is_of_family: fn(&IpNet) -> bool| {
        let mut whole = ranges.iter().filter(|range| range.prefix_len() == 0);
        whole.any(is_of_family)
    };
    let families = &service.spec.ip_families;
    let has_family = |family: &str| families.iter().any(|one| one == family);
    let needs_v4 = has_family("IPv4") || families.is_empty();
    (!needs_v4 || has_all(|range| matches!(range, IpNet::V4(_))))
        && (!has_family("IPv6") || has_all(|range| matches!(range, IpNet::V6(_))))
}

#[cfg(test)]
mod tests;
