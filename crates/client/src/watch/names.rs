//! A sorted set of names in little memory.

/// Byte behind each name. UTF-8 does not contain it.
const END: u8 = 0xff;

/// Bytes above which a block is divided.
const BLOCK_BYTES_MAX: usize = 2_048;

/// Set of names. A name takes its text and one byte, without an allocation of its own.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Names in their order, each with [`END`] behind it. No block is empty.
    blocks: Vec<Vec<u8>>,
}

impl Names {
    /// Returns the set of one name.
    pub(super) fn of(name: &str) -> Self {
        let block = [name.as_bytes(), &[END]].concat();
        Self { blocks: vec![block] }
    }

    /// Adds a name.
    pub(super) fn insert(&mut self, name: &str) {
        let index = self.block_of(name);
        let Some(block) = self.blocks.get_mut(index) else {
            *self = Self::of(name);
            return;
        };
        let Err(place) = find(block, name) else { return };
        if block.capacity() - block.len() <= name.len() {
            block.reserve_exact(block.len() / 8 + name.len() + 1);
        }
        block.splice(place..place, name.bytes().chain([END]));
        if block.len() > BLOCK_BYTES_MAX
            && let Some(middle) = middle_name_end(block)
        {
            let rest = block.split_off(middle);
            block.shrink_to_fit();
            self.blocks.insert(index + 1, rest);
        }
    }

    /// Removes a name.
    pub(super) fn remove(&mut self, name: &str) {
        let index = self.block_of(name);
        let Some(block) = self.blocks.get_mut(index) else {
            return;
        };
        let Ok(place) = find(block, name) else { return };
        block.drain(place..=place + name.len());
        if block.is_empty() {
            self.blocks.remove(index);
        }
    }

    /// Returns true if the set contains a name.
    pub(super) fn contains(&self, name: &str) -> bool {
        let block = self.blocks.get(self.block_of(name));
        block.is_some_and(|block| find(block, name).is_ok())
    }

    /// Returns true if the set has no names.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Iterates over the names in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let names = self.blocks.iter().flat_map(|block| names_in(block));
        names.map(|name| std::str::from_utf8(name).unwrap_or_default())
    }

    /// Returns the index of the block that contains a name or receives it.
    fn block_of(&self, name: &str) -> usize {
        let is_before = |block: &Vec<u8>| {
            names_in(block)
                .next()
                .is_some_and(|first| first <= name.as_bytes())
        };
        self.blocks.partition_point(is_before).saturating_sub(1)
    }
}

/// Iterates over the names of a block.
fn names_in(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names = block.split_inclusive(|byte| *byte == END);
    names.map(|name| name.strip_suffix(&[END]).unwrap_or(name))
}

/// Returns the index of a name in a block, or as an error the index at which it belongs.
fn find(block: &[u8], name: &str) -> Result<usize, usize> {
    let mut place = 0;
    for other in names_in(block) {
        match other.cmp(name.as_bytes()) {
            std::cmp::Ordering::Less => place += other.len() + 1,
            std::cmp::Ordering::Equal => return Ok(place),
            std::cmp::Ordering::Greater => break,
        }
    }
    Err(place)
}

/// Returns the index behind the name in the middle of a block; `None` if the block cannot be divided.
fn middle_name_end(block: &[u8]) -> Option<usize> {
    let half = block.len() / 2;
    let end = block.iter().skip(half).position(|byte| *byte == END)?;
    Some(half + end + 1).filter(|middle| *middle < block.len())
}

#[cfg(test)]
mod tests;
