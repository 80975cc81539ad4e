//! Resources of Nodes and Pods.

use std::iter::Sum;
use std::ops::Add;

use api::decode::quantity_in_thousandths;
use api::object::Labels;

/// CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Resources {
    /// Thousandths of a CPU.
    pub cpu_millis: i64,
    /// Bytes of memory.
    pub memory_bytes: i64,
}

impl Resources {
    /// Reads quantities by name. An unknown or invalid quantity counts as zero.
    pub(crate) fn of(amounts: &Labels) -> Self {
        Self::read(|name| amounts.get(name))
    }

    /// Reads the quantities that `find` returns. A negative one, which earlier versions of the API server accepted,
    /// counts as zero: it would give the capacity of a Node to other Pods.
    pub(super) fn read<'a>(find: impl Fn(&str) -> Option<&'a String>) -> Self {
        let amount = |name: &str| {
            let amount = find(name).and_then(|text| quantity_in_thousandths(text));
            amount.unwrap_or(0).max(0)
        };
        Self {
            cpu_millis: amount("cpu"),
            memory_bytes: amount("memory") / 1_000,
        }
    }

    /// Returns the larger quantity of each resource.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

impl Add for Resources {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }
}

impl Sum for Resources {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}
