//! Zone transfer (RFC 5936; DNS-23): the zone as a series of messages.

use crate::records::{Index, ZoneRecord};
use crate::wire::{Name, NameRef, Query, Reply, ResponseCode, ResponseFull, Section, kind};

/// Limit of a message in bytes: the range of compression pointers.
const MESSAGE_BYTES: usize = 16_384;

/// Returns the messages that answer `query`, an AXFR or IXFR for the zone of `index`. The server keeps no
/// differences, so an IXFR gets the complete zone (RFC 1995 section 4).
pub(crate) fn messages(index: &Index, query: &Query) -> Vec<Vec<u8>> {
    let mut writer = Writer {
        query,
        buffer: vec![0; MESSAGE_BYTES],
        messages: Vec::new(),
    };
    let (ttl, serial) = (index.ttl_seconds(), index.serial());
    let mut records = Vec::new();
    index.for_each_record(|record| records.push(record));
    let soa = |reply: &mut Reply<'_>| reply.soa(Section::Answer, 0, ttl, serial);
    let zone = *index.cluster_domain();
    let mut pending = records.iter();
    let mut next = pending.next();
    let mut has_first_soa = false;
    let mut has_last_soa = false;
    while !has_last_soa {
        writer.message(|reply| {
            if !has_first_soa {
                has_first_soa = soa(reply).is_ok();
            }
            while let Some(record) = next {
                if write(reply, record, &zone, ttl).is_err() && !reply.is_empty() {
                    return;
                }
                next = pending.next();
            }
            has_last_soa = soa(reply).is_ok();
        });
    }
    writer.messages
}

/// Writer of the messages of a zone transfer.
struct Writer<'q> {
    query: &'q Query,
    buffer: Vec<u8>,
    messages: Vec<Vec<u8>>,
}

impl Writer<'_> {
    fn message(&mut self, write: impl FnOnce(&mut Reply<'_>)) {
        let mut reply = Reply::new(self.query, &mut self.buffer, MESSAGE_BYTES);
        reply.set_authoritative();
        write(&mut reply);
        let length = reply.finish(ResponseCode::NoError);
        self.messages
            .push(self.buffer.get(..length).unwrap_or_default().to_vec());
    }
}

/// Writes a record of the zone.
fn write(reply: &mut Reply<'_>, record: &ZoneRecord, zone: &Name, ttl: u32) -> Result<(), ResponseFull> {
    match record {
        ZoneRecord::Address { owner, address } => {
            reply.address(Section::Answer, NameRef::below_question(owner, 0), ttl, *address)
        }
        ZoneRecord::Alias { owner, target } => {
            let owner = NameRef::below_question(owner, 0);
            let target = NameRef::Whole(target);
            reply
                .target(Section::Answer, owner, kind::CNAME, ttl, target)
                .map(|_| ())
        }
        ZoneRecord::NameServer { target } => {
            let target = NameRef::below_question(target, 0);
            reply
                .target(Section::Answer, NameRef::QUESTION, kind::NS, ttl, target)
                .map(|_| ())
        }
        ZoneRecord::Location {
            owner,
            port,
            weight,
            target,
        } => {
            let mut name = Name::ROOT;
            // A name that exceeds the limit of DNS has no record.
            if name
                .push_wire(target)
                .and_then(|()| name.push_wire(zone.as_wire()))
                .is_err()
            {
                return Ok(());
            }
            reply
                .srv(NameRef::below_question(owner, 0), ttl, *weight, *port, &name)
                .map(|_| ())
        }
        ZoneRecord::Text {
            owner,
            ttl_seconds,
            text,
        } => reply.text(NameRef::below_question(owner, 0), *ttl_seconds, text),
    }
}

#[cfg(test)]
mod tests;
