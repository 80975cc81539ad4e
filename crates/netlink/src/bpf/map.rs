//! eBPF maps: elements of fixed size that programs and this process share.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::LazyLock;

use super::error::BpfError;
use super::file_system::path_text;
use super::system_call::{Command, bpf, bpf_descriptor, get, info, pin};

/// Elements of one batch: at most 512 KB, and few enough that other work of the CPU core does not wait.
const BATCH_ELEMENTS_MAX: usize = 4_096;
/// Allocates elements when they are added (`BPF_F_NO_PREALLOC`), so that a small map needs little memory.
const NO_PREALLOCATION: u32 = 1;
/// Replaces an element or adds it (`BPF_ANY`).
const ANY: u64 = 0;

/// Kind of a map (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Elements by key.
    Hash = 1,
    /// Elements by index, which all exist from the start.
    Array = 2,
    /// Elements by key, each with one value for each CPU.
    PerCpuHash = 5,
    /// Elements by index, each with one value for each CPU. All exist from the start.
    PerCpuArray = 6,
    /// Elements by key, which all have memory from the start. A full map replaces elements that were seldom used.
    LruHash = 9,
    /// Records that programs append and one process reads ([`Ring`](super::Ring)); Linux 5.8. `elements_max` is its size in
    /// bytes, a power of two and a multiple of the page size. It has no keys.
    Ring = 27,
}

/// Form of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Name for tools, at most 15 letters, digits and underscores.
    pub name: &'static str,
    /// Kind.
    pub kind: MapKind,
    /// Size of a key.
    pub key_bytes: u32,
    /// Size of a value, a multiple of 8.
    pub value_bytes: u32,
    /// Maximum number of elements.
    pub elements_max: u32,
}

impl MapShape {
    fn flags(&self) -> u32 {
        match self.kind {
            MapKind::Hash | MapKind::PerCpuHash => NO_PREALLOCATION,
            MapKind::Array | MapKind::PerCpuArray | MapKind::LruHash | MapKind::Ring => 0,
        }
    }
}

/// A map.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    shape: MapShape,
}

/// Attributes of `BPF_MAP_CREATE`.
#[repr(C)]
struct CreateAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    elements_max: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

/// Attributes of the commands for one element.
#[repr(C)]
struct ElementAttributes {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Attributes of the commands for batches.
#[repr(C)]
struct BatchAttributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

impl Map {
    /// Creates a map.
    ///
    /// # Errors
    ///
    /// [`BpfError`] without capabilities, memory or kernel support.
    pub fn create(shape: MapShape) -> Result<Self, BpfError> {
        let mut attributes = CreateAttributes {
            kind: shape.kind as u32,
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            elements_max: shape.elements_max,
            flags: shape.flags(),
            inner_map: 0,
            numa_node: 0,
            name: object_name(shape.name),
        };
        // SAFETY: the attributes contain no pointer, and the command returns a descriptor.
        let descriptor =
            unsafe { bpf_descriptor(Command::MapCreate, "creating an eBPF map", &mut attributes) }?;
        Ok(Self { descriptor, shape })
    }

    /// Opens the map that is pinned at a path; `None` if no map of this shape is pinned there.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the path exists and cannot be opened.
    pub fn pinned(shape: MapShape, path: &Path) -> Result<Option<Self>, BpfError> {
        let Some(descriptor) = get(&path_text(path)?)? else {
            return Ok(None);
        };
        // struct bpf_map_info: type, id, key_size, value_size, max_entries, map_flags.
        let [kind, _, key_bytes, value_bytes, elements_max, flags] = info::<6>(descriptor.as_fd())?;
        let is_same = kind == shape.kind as u32
            && key_bytes == shape.key_bytes
            && value_bytes == shape.value_bytes
            && elements_max == shape.elements_max
            && flags == shape.flags();
        Ok(is_same.then_some(Self { descriptor, shape }))
    }

    /// Returns the form.
    pub fn shape(&self) -> MapShape {
        self.shape
    }

    /// Returns another descriptor of the map.
    pub(super) fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.descriptor.try_clone()
    }

    /// Pins the map at a path of a bpf file system, so that it outlives this process.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the path exists, or is not in a bpf file system.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        pin(self.descriptor.as_fd(), &path_text(path)?)
    }

    /// Adds or replaces elements. `keys` and `values` contain them one after the other. After an error, some of them may
    /// be written.
    ///
    /// # Errors
    ///
    /// [`BpfError::Full`] if the map has no room.
    pub fn update(&self, keys: &[u8], values: &[u8]) -> Result<(), BpfError> {
        let (key_bytes, value_bytes) = self.element_bytes();
        let batches = keys
            .chunks(BATCH_ELEMENTS_MAX * key_bytes)
            .zip(values.chunks(BATCH_ELEMENTS_MAX * value_bytes));
        for (keys, values) in batches {
            let count = (keys.len() / key_bytes).min(values.len() / value_bytes);
            let mut attributes = self.batch(keys, Some(values), count);
            // SAFETY: keys and values have `count` elements of the sizes of this map and outlive the call, which only
            // reads them.
            unsafe { bpf(Command::MapUpdateBatch, "writing an eBPF map", &mut attributes) }?;
        }
        Ok(())
    }

    /// Deletes elements. Missing ones are skipped.
    ///
    /// # Errors
    ///
    /// [`BpfError`] of the system call.
    pub fn delete(&self, keys: &[u8]) -> Result<(), BpfError> {
        let (key_bytes, _) = self.element_bytes();
        for chunk in keys.chunks(BATCH_ELEMENTS_MAX * key_bytes) {
            let mut left = chunk;
            while !left.is_empty() {
                let count = left.len() / key_bytes;
                let mut attributes = self.batch(left, None, count);
                // SAFETY: the keys have `count` elements of the size of this map and outlive the call, which only reads
                // them. The kernel writes the number of deleted elements to the attributes.
                let deleted = unsafe {
                    bpf(
                        Command::MapDeleteBatch,
                        "deleting from an eBPF map",
                        &mut attributes,
                    )
                };
                left = match deleted {
                    Ok(_) => &[],
                    Err(error) if error.is_absent() => {
                        let absent = (attributes.count as usize + 1).saturating_mul(key_bytes);
                        left.get(absent..).unwrap_or_default()
                    }
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(())
    }

    /// Calls `each` with key and value of each element. Elements that are added meanwhile may be missing.
    ///
    /// # Errors
    ///
    /// [`BpfError`] of the system call.
    pub fn read(&self, mut each: impl FnMut(&[u8], &[u8])) -> Result<(), BpfError> {
        if self.shape.kind == MapKind::LruHash {
            return self.read_batches(each);
        }
        let (key_bytes, value_bytes) = self.element_bytes();
        let (mut key, mut next) = (vec![0; key_bytes], vec![0; key_bytes]);
        let mut value = vec![0; value_bytes];
        let mut has_key = false;
        // After the deletion of a key the kernel starts again from the first one. The bound limits the number of keys.
        for _ in 0..u64::from(self.shape.elements_max) * 2 {
            let current = if has_key { key.as_ptr() as u64 } else { 0 };
            if !self.element(Command::MapNextKey, current, next.as_mut_ptr() as u64)? {
                return Ok(());
            }
            std::mem::swap(&mut key, &mut next);
            has_key = true;
            if self.element(Command::MapLookup, key.as_ptr() as u64, value.as_mut_ptr() as u64)? {
                each(&key, &value);
            }
        }
        Ok(())
    }

    /// Passes each element to `each`, as many as fit into the buffers by one system call. Deleted elements do not begin the
    /// walk again: the kernel returns whole buckets of the hash.
    fn read_batches(&self, mut each: impl FnMut(&[u8], &[u8])) -> Result<(), BpfError> {
        let (key_bytes, value_bytes) = self.element_bytes();
        let mut keys = vec![0_u8; BATCH_ELEMENTS_MAX * key_bytes];
        let mut values = vec![0_u8; BATCH_ELEMENTS_MAX * value_bytes];
        // Number of a bucket.
        let (mut position, mut next) = ([0_u8; 4], [0_u8; 4]);
        let mut has_position = false;
        // A call passes one bucket at least, and there are at most twice as many buckets as elements.
        for _ in 0..u64::from(self.shape.elements_max) * 2 {
            let mut attributes = self.batch(&keys, Some(&values), BATCH_ELEMENTS_MAX);
            attributes.keys = keys.as_mut_ptr() as u64;
            attributes.values = values.as_mut_ptr() as u64;
            attributes.in_batch = if has_position { position.as_ptr() as u64 } else { 0 };
            attributes.out_batch = next.as_mut_ptr() as u64;
            // SAFETY: keys and values have room for `count` elements of the sizes of this map, and the positions have four
            // bytes. All of them outlive the call. The kernel writes the number of elements to the attributes.
            let read = unsafe { bpf(Command::MapLookupBatch, "reading an eBPF map", &mut attributes) };
            let is_last = match read {
                Ok(_) => false,
                Err(error) if error.is_absent() => true,
                Err(error) => return Err(error),
            };
            let elements = keys.chunks_exact(key_bytes).zip(values.chunks_exact(value_bytes));
            for (key, value) in elements.take(attributes.count as usize) {
                each(key, value);
            }
            if is_last {
                return Ok(());
            }
            position = next;
            has_position = true;
        }
        Ok(())
    }

    /// Returns the sums over all CPUs of the 64-bit numbers in the values of the elements, by key.
    ///
    /// # Errors
    ///
    /// [`BpfError`] of the system call.
    pub fn read_sums(&self, mut each: impl FnMut(&[u8], &[u64])) -> Result<(), BpfError> {
        let words = self.shape.value_bytes as usize / 8;
        self.read(|key, value| {
            let mut sums = vec![0_u64; words];
            for of_cpu in value.chunks_exact(words * 8) {
                for (sum, word) in sums.iter_mut().zip(of_cpu.as_chunks::<8>().0) {
                    *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
                }
            }
            each(key, &sums);
        })
    }

    /// Calls a command for one element. Returns false if it does not exist.
    fn element(&self, command: Command, key: u64, value: u64) -> Result<bool, BpfError> {
        let mut attributes = ElementAttributes {
            map: self.descriptor.as_raw_fd() as u32,
            _padding: 0,
            key,
            value,
            flags: ANY,
        };
        // SAFETY: both pointers lead to buffers of the sizes of this map, from `read`, which outlive the call.
        match unsafe { bpf(command, "reading an eBPF map", &mut attributes) } {
            Ok(_) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn batch(&self, keys: &[u8], values: Option<&[u8]>, count: usize) -> BatchAttributes {
        BatchAttributes {
            in_batch: 0,
            out_batch: 0,
            keys: keys.as_ptr() as u64,
            values: values.map_or(0, |values| values.as_ptr() as u64),
            count: count as u32,
            map: self.descriptor.as_raw_fd() as u32,
            element_flags: ANY,
            flags: 0,
        }
    }

    /// Returns the sizes of keys and of values as this process sees them.
    fn element_bytes(&self) -> (usize, usize) {
        let cpus = match self.shape.kind {
            MapKind::PerCpuHash | MapKind::PerCpuArray => *POSSIBLE_CPUS,
            MapKind::Hash | MapKind::Array | MapKind::LruHash => 1,
            // The kernel refuses the commands for elements. Callers divide by these sizes, so they are not 0.
            MapKind::Ring => return (1, 1),
        };
        let value_bytes = self.shape.value_bytes as usize * cpus;
        (self.shape.key_bytes as usize, value_bytes)
    }

    /// Returns the size of the values of one element in [`Map::update`], with one value for each CPU if the map has it.
    pub fn value_bytes(&self) -> usize {
        self.element_bytes().1
    }
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Returns the name of an object, which ends with zero.
pub(super) fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// Number of CPUs, read once: it does not change while the kernel runs.
static POSSIBLE_CPUS: LazyLock<usize> = LazyLock::new(possible_cpus);

/// Returns the number of CPUs that the kernel may use, now or later. It is the number of values of an element.
fn possible_cpus() -> usize {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    count_of_ranges(&list).unwrap_or(CPUS_MAX)
}

/// CPUs that the kernel supports at most; a value buffer of this size is never too small.
const CPUS_MAX: usize = 8_192;

/// Returns the number of CPUs in a list such as `0-3,8`.
fn count_of_ranges(list: &str) -> Option<usize> {
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    });
    ranges
        .sum::<Option<usize>>()
        .map(|count| count.clamp(1, CPUS_MAX))
}

#[cfg(test)]
mod tests;
