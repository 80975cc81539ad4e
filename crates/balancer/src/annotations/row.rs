//! A row of the table: an annotation and what it means.

use ipam::pools::Family;

use super::asked::Asked;

/// An annotation.
#[derive(Debug)]
pub struct Row {
    /// Name.
    pub name: &'static str,
    /// What it asks for, or why it means nothing, for people.
    pub about: &'static str,
    /// What it means.
    pub means: Means,
}

/// What an annotation means.
#[derive(Clone, Copy, Debug)]
pub enum Means {
    /// An internal load balancer, with the first values, or an external one, with the others; with `*` any value.
    Scope {
        /// Values for internal.
        internal: &'static [&'static str],
        /// Values for external.
        external: &'static [&'static str],
    },
    /// These addresses, separated by commas.
    Addresses,
    /// The address of a family: the first one of a list.
    AddressOf(Family),
    /// This pool.
    Pool,
    /// Addresses are shared under this key.
    Sharing,
    /// Something that the edge, the announcer or the status is to have.
    Asks(Reach, Apply),
    /// Restricts clients to ranges, at the edge. Where it cannot be read, or no node runs the edge, the Service gets no address.
    Restricts(Apply),
    /// Restricts clients by what exists in its cloud alone: the Service gets no address.
    Unenforceable(Remedy),
    /// Something that the edge alone can do, and that moves no Service there: it is named where the edge does not serve.
    AtEdge(Apply),
    /// Nothing without its cloud. The value may be checked all the same.
    Nothing(Option<Check>),
}

/// Takes in a value.
pub type Apply = fn(&mut Asked, Field<'_>) -> Result<Effect, Refusal>;
/// Looks at a value; the error says what it may be.
pub type Check = fn(&str) -> Result<(), String>;

/// What lets a Service have its address in spite of an annotation that restricts clients and cannot be put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The annotation names clients that may connect: `spec.loadBalancerSourceRanges` takes its place.
    Ranges,
    /// The annotation names clients that may not connect, or may do so: it must be removed.
    Removal,
}

/// What it takes to do what an annotation asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It is in force where the edge serves the Service, and moves no Service there: so does its cloud, whose balancer
    /// passes packets on.
    #[default]
    Tunes,
    /// The edge, unless the Service asks for a balancer that passes packets on.
    Soft,
    /// The edge.
    Hard,
}

/// An annotation of a Service.
#[derive(Clone, Copy, Debug)]
pub struct Field<'s> {
    /// The annotation.
    pub name: &'static str,
    /// Its value, without white space around it.
    pub text: &'s str,
}

/// What a good value leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What holds anyway.
    Plain,
    /// Something else.
    More,
}

/// Why a value is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It means nothing; this is what it may be.
    Value(String),
    /// Another annotation says something else.
    Contradicts(&'static str),
}

impl From<String> for Refusal {
    fn from(allowed: String) -> Self {
        Self::Value(allowed)
    }
}

impl Row {
    /// A row that the edge is needed for.
    pub const fn hard(name: &'static str, about: &'static str, apply: Apply) -> Self {
        Self::asks(name, about, Reach::Hard, apply)
    }

    /// A row that the edge is needed for, unless packets are to be passed on.
    pub const fn soft(name: &'static str, about: &'static str, apply: Apply) -> Self {
        Self::asks(name, about, Reach::Soft, apply)
    }

    /// A row that is in force at the edge and moves no Service there.
    pub const fn tunes(name: &'static str, about: &'static str, apply: Apply) -> Self {
        Self::asks(name, about, Reach::Tunes, apply)
    }

    /// A row that is in force at the edge, and named elsewhere.
    pub const fn at_edge(name: &'static str, about: &'static str, apply: Apply) -> Self {
        let means = Means::AtEdge(apply);
        Self { name, about, means }
    }

    const fn asks(name: &'static str, about: &'static str, reach: Reach, apply: Apply) -> Self {
        let means = Means::Asks(reach, apply);
        Self { name, about, means }
    }

    /// A row that restricts clients to ranges.
    pub const fn restricts(name: &'static str, about: &'static str, apply: Apply) -> Self {
        let means = Means::Restricts(apply);
        Self { name, about, means }
    }

    /// A row that restricts clients by what only its cloud knows.
    pub const fn unenforceable(name: &'static str, about: &'static str, remedy: Remedy) -> Self {
        let means = Means::Unenforceable(remedy);
        Self { name, about, means }
    }

    /// A row without meaning.
    pub const fn nothing(name: &'static str, why: &'static str) -> Self {
        Self {
            name,
            about: why,
            means: Means::Nothing(None),
        }
    }

    /// A row without meaning whose values are known.
    pub const fn checked(name: &'static str, why: &'static str, check: Check) -> Self {
        Self {
            name,
            about: why,
            means: Means::Nothing(Some(check)),
        }
    }

    /// A row of the assigner.
    pub const fn assigner(name: &'static str, about: &'static str, means: Means) -> Self {
        Self { name, about, means }
    }

    /// A row that says whether the load balancer is an internal one.
    pub const fn scope(
        name: &'static str,
        internal: &'static [&'static str],
        external: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            about: "internal or external pools",
            means: Means::Scope { internal, external },
        }
    }
}
