use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

/// A ring in a file that the test writes as the kernel writes the memory of the map.
struct Writer {
    file: File,
    bytes: usize,
    position: usize,
}

impl Writer {
    /// Creates a ring of one page whose positions are `start`.
    fn create(start: usize) -> (Self, Ring) {
        let page_bytes = page_bytes();
        let file = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(4 * page_bytes as u64).unwrap();
        let reader =
            Mapping::create(file.as_fd(), page_bytes, libc::PROT_READ | libc::PROT_WRITE, 0).unwrap();
        let writers = Mapping::create(file.as_fd(), 3 * page_bytes, libc::PROT_READ, page_bytes).unwrap();
        let ring = Ring {
            descriptor: file.try_clone().unwrap().into(),
            reader,
            writers,
            page_bytes,
            bytes: page_bytes,
            record: Vec::new(),
        };
        let mut writer = Self {
            file,
            bytes: page_bytes,
            position: start,
        };
        writer.file.write_all_at(&start.to_ne_bytes(), 0).unwrap();
        writer.advance(0);
        (writer, ring)
    }

    /// Writes bytes at an offset of the records, which are mapped twice.
    fn put(&self, offset: usize, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            let at = (offset + index) & (self.bytes - 1);
            for copy in [2, 3] {
                let at = (copy * self.bytes + at) as u64;
                self.file.write_all_at(&[*byte], at).unwrap();
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.position = self.position.wrapping_add(bytes);
        let at = self.bytes as u64;
        self.file.write_all_at(&self.position.to_ne_bytes(), at).unwrap();
    }

    fn append(&mut self, record: &[u8], flags: u32) {
        let begin = self.position;
        self.put(begin, &(record.len() as u32 | flags).to_ne_bytes());
        self.put(begin + HEADER_BYTES, record);
        self.advance((HEADER_BYTES + record.len()).next_multiple_of(8));
    }

    fn reader_position(&self) -> usize {
        let mut bytes = [0; size_of::<usize>()];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        usize::from_ne_bytes(bytes)
    }
}

fn records(ring: &mut Ring) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    ring.read(|record| records.push(record.to_vec()));
    records
}

#[test]
fn records_are_read_once_and_in_order() {
    let (mut writer, mut ring) = Writer::create(0);
    assert!(records(&mut ring).is_empty());
    writer.append(b"first", 0);
    writer.append(b"discarded", DISCARDED);
    writer.append(b"second record", 0);
    assert_eq!(records(&mut ring), [b"first".to_vec(), b"second record".to_vec()]);
    assert_eq!(writer.reader_position(), writer.position);
    assert!(records(&mut ring).is_empty());
}

#[test]
fn record_continues_at_the_start_of_the_ring() {
    let start = 5 * page_bytes() - 16;
    let (mut writer, mut ring) = Writer::create(start);
    let record: Vec<u8> = (0..40).collect();
    writer.append(&record, 0);
    assert_eq!(records(&mut ring), [record]);
    assert_eq!(writer.reader_position(), start + 48);
}

#[test]
fn unfinished_record_is_not_returned() {
    let (mut writer, mut ring) = Writer::create(0);
    writer.append(b"first", 0);
    let second = writer.position;
    writer.append(b"second", BUSY);
    assert_eq!(records(&mut ring), [b"first".to_vec()]);
    writer.put(second, &6_u32.to_ne_bytes());
    assert_eq!(records(&mut ring), [b"second".to_vec()]);
}

#[test]
fn record_longer_than_the_ring_is_skipped() {
    let (mut writer, mut ring) = Writer::create(0);
    writer.put(0, &(DISCARDED - 1).to_ne_bytes());
    writer.advance(16);
    assert!(records(&mut ring).is_empty());
    writer.append(b"next", 0);
    assert_eq!(records(&mut ring), [b"next".to_vec()]);
}
