//! IDs of the agent's own user namespace (`uid_map` and `gid_map` of `user_namespaces(7)`).

use super::ranges::{IDS_PER_POD, IdRange};

#[cfg(test)]
mod tests;

/// Users or groups of a user namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    /// First ID and count of each extent.
    extents: Vec<(u64, u64)>,
}

impl IdMap {
    /// Parses the form of the kernel and skips malformed lines.
    pub fn parse(text: &str) -> Self {
        let extent = |line: &str| {
            let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
            let (first, _outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
            Some((first, count))
        };
        Self {
            extents: text.lines().filter_map(extent).collect(),
        }
    }

    /// Reads the users of the calling process's namespace; empty if they cannot be read.
    pub fn own_users() -> Self {
        Self::parse(&read("/proc/self/uid_map"))
    }

    /// Returns true if the namespace has one ID, as that of a user without privileges.
    pub fn has_one_id(&self) -> bool {
        matches!(self.extents.as_slice(), [(_, 1)])
    }

    /// Returns true if the namespace has all IDs from `first` to `first + count - 1`.
    pub fn contains(&self, first: u32, count: u32) -> bool {
        let (mut at, end) = (u64::from(first), u64::from(first) + u64::from(count));
        // Each iteration passes one extent, so the loop ends.
        while at < end {
            let holds = |(first, count): &&(u64, u64)| (*first..first.saturating_add(*count)).contains(&at);
            match self.extents.iter().find(holds) {
                Some((first, count)) => at = first.saturating_add(*count),
                None => return false,
            }
        }
        true
    }
}

/// Users and groups of a user namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMaps {
    users: IdMap,
    groups: IdMap,
}

impl IdMaps {
    /// Parses the form of the kernel.
    pub fn parse(users: &str, groups: &str) -> Self {
        Self {
            users: IdMap::parse(users),
            groups: IdMap::parse(groups),
        }
    }

    /// Reads the maps of the calling process's namespace; empty if they cannot be read.
    pub fn own() -> Self {
        Self::parse(&read("/proc/self/uid_map"), &read("/proc/self/gid_map"))
    }

    /// Returns true if the namespace has a range, as users and as groups.
    pub fn contain(&self, range: IdRange) -> bool {
        let contains = |map: &IdMap| map.contains(range.first(), IDS_PER_POD);
        contains(&self.users) && contains(&self.groups)
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
