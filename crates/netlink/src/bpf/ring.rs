//! The reading end of a ring of records (`BPF_MAP_TYPE_RINGBUF`, `kernel/bpf/ringbuf.c`). A ring has one reader.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

use super::error::BpfError;
use super::map::{Map, MapKind};

/// Size of the header before a record: its length with flags, and the kernel's page number.
const HEADER_BYTES: usize = 8;
/// Flag of a record that a program still writes (`BPF_RINGBUF_BUSY_BIT`).
const BUSY: u32 = 1 << 31;
/// Flag of a record without content (`BPF_RINGBUF_DISCARD_BIT`).
const DISCARDED: u32 = 1 << 30;
/// Operation in errors.
const OPERATION: &str = "mapping a ring of eBPF records";

/// Shared memory of a map.
#[derive(Debug)]
struct Mapping {
    begin: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn create(map: BorrowedFd<'_>, bytes: usize, protection: i32, offset: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses an address where nothing is mapped, so no other memory of this process changes.
        let begin = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset,
            )
        };
        if begin == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { begin, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was created with these bounds, and no reference to it outlives the value.
        unsafe {
            libc::munmap(self.begin.as_ptr().cast(), self.bytes);
        }
    }
}

/// The reading end of a ring.
#[derive(Debug)]
pub struct Ring {
    descriptor: OwnedFd,
    /// Page with the position of the reader.
    reader: Mapping,
    /// Page with the position of the writers, then the records twice: a record that continues at the start of the ring is
    /// contiguous.
    writers: Mapping,
    page_bytes: usize,
    /// Size of the ring, a power of two.
    bytes: usize,
    /// Copy of the current record.
    record: Vec<u8>,
}

impl Ring {
    /// Maps the memory of a map of the kind [`MapKind::Ring`]. The caller ensures that no other process reads it.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the map is of another kind, or cannot be mapped.
    pub fn open(map: &Map) -> Result<Self, BpfError> {
        let shape = map.shape();
        let bytes = shape.elements_max as usize;
        let page_bytes = page_bytes();
        if shape.kind != MapKind::Ring || !bytes.is_power_of_two() || !bytes.is_multiple_of(page_bytes) {
            return Err(BpfError::of(
                OPERATION,
                io::Error::from_raw_os_error(libc::EINVAL),
            ));
        }
        let error = |source| BpfError::of(OPERATION, source);
        let read_and_write = libc::PROT_READ | libc::PROT_WRITE;
        let reader = Mapping::create(map.as_fd(), page_bytes, read_and_write, 0).map_err(error)?;
        let writers = Mapping::create(map.as_fd(), page_bytes + 2 * bytes, libc::PROT_READ, page_bytes)
            .map_err(error)?;
        Ok(Self {
            descriptor: map.descriptor().map_err(error)?,
            reader,
            writers,
            page_bytes,
            bytes,
            record: Vec::new(),
        })
    }

    /// Passes the complete records to `each`, in their order, and gives their space back. Returns their number. It reads
    /// at most as many records as the ring has room for, however many follow meanwhile.
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut position = self.reader_position().load(Ordering::Relaxed);
        let mut count = 0;
        for _ in 0..self.bytes / HEADER_BYTES {
            let end = self.writer_position().load(Ordering::Relaxed);
            if position == end {
                break;
            }
            // Headers before this position are visible. The memory is read-only, where only a relaxed load is certain to
            // work, so fences acquire.
            fence(Ordering::Acquire);
            let begin = position & (self.bytes - 1);
            let header = self.header(begin).load(Ordering::Relaxed);
            if header & BUSY != 0 {
                break;
            }
            // The content is visible if the header is not busy.
            fence(Ordering::Acquire);
            let length = (header & !(BUSY | DISCARDED)) as usize;
            let content = begin + HEADER_BYTES;
            let is_inside = length <= self.bytes - HEADER_BYTES;
            if is_inside && header & DISCARDED == 0 {
                self.copy_record(content, length);
                each(&self.record);
                count += 1;
            }
            // The kernel writes no longer record; another process with the map might have.
            position = if is_inside {
                position.wrapping_add((HEADER_BYTES + length).next_multiple_of(HEADER_BYTES))
            } else {
                end
            };
            // Release: the kernel reuses the space after this process has read it.
            self.reader_position().store(position, Ordering::Release);
        }
        count
    }

    fn reader_position(&self) -> &AtomicUsize {
        // SAFETY: the mapping begins with the position, an aligned `unsigned long` that the kernel accesses atomically, and
        // it lives as long as `self`.
        unsafe { self.reader.begin.cast::<AtomicUsize>().as_ref() }
    }

    fn writer_position(&self) -> &AtomicUsize {
        // SAFETY: as for the reader; the memory is only read.
        unsafe { self.writers.begin.cast::<AtomicUsize>().as_ref() }
    }

    /// Returns the length and flags of the record at an offset that is a multiple of 8 and less than the size of the ring.
    fn header(&self, begin: usize) -> &AtomicU32 {
        let begin = (begin & (self.bytes - 1)) & !(HEADER_BYTES - 1);
        // SAFETY: the offset is inside of the records and aligned to 8. The kernel accesses the word atomically, and the
        // mapping lives as long as `self`; the memory is only read.
        unsafe {
            self.writers
                .begin
                .add(self.page_bytes + begin)
                .cast::<AtomicU32>()
                .as_ref()
        }
    }

    fn copy_record(&mut self, content: usize, length: usize) {
        self.record.clear();
        self.record.resize(length, 0);
        // SAFETY: `content` is at most `bytes`, and `length` less than `bytes`, so the source is inside of the records,
        // which are mapped twice. The target has `length` bytes. The kernel does not write here before the reader's
        // position passes the record.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.writers.begin.add(self.page_bytes + content).as_ptr(),
                self.record.as_mut_ptr(),
                length,
            );
        }
    }
}

impl AsFd for Ring {
    /// Returns the descriptor, which is readable when a record is complete.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Returns the size of a page.
fn page_bytes() -> usize {
    // SAFETY: sysconf takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4_096)
}

#[cfg(test)]
mod tests;
