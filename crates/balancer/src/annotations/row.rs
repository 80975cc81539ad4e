//! A row of the annotation table: name, description and meaning of one annotation.

use ipam::pools::Family;

use super::value::InvalidValue;
use super::values::AnnotationValues;

/// One annotation of the table.
#[derive(Debug)]
pub struct Row {
    /// Name of the annotation.
    pub name: &'static str,
    /// Description for the documentation: the effect, or the reason why there is none.
    pub description: &'static str,
    /// Meaning of the annotation.
    pub meaning: AnnotationMeaning,
}

/// Meaning of an annotation.
#[derive(Clone, Copy, Debug)]
pub enum AnnotationMeaning {
    /// Selects internal or external address pools by its value; `*` matches any value.
    Scope {
        /// Values that select internal pools.
        internal: &'static [&'static str],
        /// Values that select external pools.
        external: &'static [&'static str],
    },
    /// Requests addresses, separated by commas.
    Addresses,
    /// Requests an address of one family: the first of a list.
    FamilyAddress(Family),
    /// Requests an address pool.
    Pool,
    /// Shares the addresses of all Services with the same value.
    SharingKey,
    /// Sets a value of the announcer, of the status, or of the choice between edge and packets.
    Direct(Apply),
    /// Sets a value of the edge. The annotation is reported if the edge does not serve the Service.
    Setting(EdgeNeed, Apply),
    /// Restricts clients to ranges, at the edge. The address is withheld if the value is invalid or no node
    /// runs the edge.
    ClientRanges(Apply),
    /// Restricts clients by objects that exist only in its cloud. The address is withheld.
    Unenforceable(Remedy),
    /// Sets a value of the edge and does not move the Service to the edge. Elsewhere the annotation is reported.
    EdgeOnly(Apply),
    /// Written by the assigner; a value of another controller is replaced.
    Written,
    /// The annotation has no effect outside of its cloud. The value may still be validated.
    CloudOnly(Option<Check>),
}

/// Applies an annotation to the values of a Service.
pub type Apply = fn(&mut AnnotationValues, Annotation<'_>) -> Result<Effect, ApplyError>;
/// Validates the value of an annotation.
pub type Check = fn(&str) -> Result<(), InvalidValue>;

/// Change that lets a Service receive its address although an annotation restricts clients and cannot be enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The annotation allows clients: `spec.loadBalancerSourceRanges` can replace it.
    Ranges,
    /// The annotation denies clients, or may do so: it has to be removed.
    Removal,
}

/// Degree to which an annotation needs the edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeNeed {
    /// The annotation does not select the edge. It applies only if the edge serves the Service for another reason.
    #[default]
    None,
    /// Needs the edge, unless the Service requests a load balancer that forwards packets.
    Preferred,
    /// Needs the edge.
    Required,
}

/// Annotation of a Service.
#[derive(Clone, Copy, Debug)]
pub struct Annotation<'s> {
    /// Complete name, with prefix.
    pub name: &'static str,
    /// Value, trimmed.
    pub value: &'s str,
}

/// Effect of a valid annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The annotation selects the default.
    Unchanged,
    /// The annotation selects another value than the default.
    Changed,
}

/// Failure to apply an annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The value is invalid.
    #[error(transparent)]
    InvalidValue(#[from] InvalidValue),
    /// Another annotation selects another value.
    #[error("annotation {0} selects another value; remove one of the two annotations")]
    Conflict(&'static str),
}

impl Row {
    /// A setting that requires the edge.
    pub const fn requires_edge(name: &'static str, description: &'static str, apply: Apply) -> Self {
        Self::setting(name, description, EdgeNeed::Required, apply)
    }

    /// A setting that requires the edge, unless the Service requests a load balancer that forwards packets.
    pub const fn prefers_edge(name: &'static str, description: &'static str, apply: Apply) -> Self {
        Self::setting(name, description, EdgeNeed::Preferred, apply)
    }

    /// A setting that applies with the edge and without it.
    pub const fn direct(name: &'static str, description: &'static str, apply: Apply) -> Self {
        Self {
            name,
            description,
            meaning: AnnotationMeaning::Direct(apply),
        }
    }

    /// A setting that applies at the edge and does not move a Service there.
    pub const fn configures_edge(name: &'static str, description: &'static str, apply: Apply) -> Self {
        Self::setting(name, description, EdgeNeed::None, apply)
    }

    /// A setting that applies at the edge and is reported elsewhere.
    pub const fn edge_only(name: &'static str, description: &'static str, apply: Apply) -> Self {
        Self {
            name,
            description,
            meaning: AnnotationMeaning::EdgeOnly(apply),
        }
    }

    const fn setting(
        name: &'static str,
        description: &'static str,
        edge_need: EdgeNeed,
        apply: Apply,
    ) -> Self {
        Self {
            name,
            description,
            meaning: AnnotationMeaning::Setting(edge_need, apply),
        }
    }

    /// A restriction of clients to ranges.
    pub const fn client_ranges(name: &'static str, description: &'static str, apply: Apply) -> Self {
        Self {
            name,
            description,
            meaning: AnnotationMeaning::ClientRanges(apply),
        }
    }

    /// A restriction of clients by objects of a cloud.
    pub const fn unenforceable(name: &'static str, description: &'static str, remedy: Remedy) -> Self {
        Self {
            name,
            description,
            meaning: AnnotationMeaning::Unenforceable(remedy),
        }
    }

    /// An annotation without effect outside of its cloud.
    pub const fn cloud_only(name: &'static str, reason: &'static str) -> Self {
        Self {
            name,
            description: reason,
            meaning: AnnotationMeaning::CloudOnly(None),
        }
    }

    /// An annotation without effect outside of its cloud whose value is validated.
    pub const fn cloud_only_checked(name: &'static str, reason: &'static str, check: Check) -> Self {
        Self {
            name,
            description: reason,
            meaning: AnnotationMeaning::CloudOnly(Some(check)),
        }
    }

    /// An annotation that the assigner applies.
    pub const fn assigner(name: &'static str, description: &'static str, meaning: AnnotationMeaning) -> Self {
        Self {
            name,
            description,
            meaning,
        }
    }

    /// An annotation that selects internal or external address pools.
    pub const fn scope(
        name: &'static str,
        internal: &'static [&'static str],
        external: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            description: "internal or external pools",
            meaning: AnnotationMeaning::Scope { internal, external },
        }
    }
}
