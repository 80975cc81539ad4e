//! From a message to its answer, with or without help from upstream.

use std::sync::Arc;

use crate::forward::{Admission, ForwardError, Forwarder};
use crate::records::{Index, Resolution, Scratch};
use crate::wire::{
    CLASS_IN, Name, NameRef, Query, RecordValue, Reply, ResponseCode, Section, TCP_OCTETS_MAX, encode_query,
    kind, parse_query, read_answer, reject,
};

/// Octets of an answer over UDP, however much the client says it can take: more would come in
/// fragments, and would make a forged source's victim pay.
pub const UDP_OCTETS_MAX: usize = 4_096;

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
}

/// What is to be done with a message.
#[derive(Debug)]
pub enum Reaction {
    /// Send so many octets of the buffer; none for 0.
    Send(usize),
    /// Ask upstream with [`Responder::complete`].
    Ask(Box<Pending>),
}

/// A query that is answered with help from upstream.
#[derive(Debug)]
pub struct Pending {
    query: Query,
    /// Held until the answer is there, so that not too many are open.
    admission: Admission,
}

/// Answers messages.
#[derive(Debug)]
pub struct Responder {
    index: Arc<Index>,
    forwarder: Forwarder,
}

impl Responder {
    /// Answers from `index`, and through `forwarder` for what is not in its zones.
    pub fn new(index: Arc<Index>, forwarder: Forwarder) -> Self {
        Self { index, forwarder }
    }

    /// Answers a message into `buffer`, or says that upstream must be asked. Does not allocate unless it
    /// must.
    pub fn respond(
        &self,
        message: &[u8],
        transport: Transport,
        buffer: &mut [u8],
        scratch: &mut Scratch,
    ) -> Reaction {
        let query = match parse_query(message) {
            Ok(query) => query,
            Err(why) => return Reaction::Send(reject(why, buffer)),
        };
        let mut reply = self.reply(&query, transport, buffer);
        if query.edns.is_some_and(|edns| edns.version != 0) {
            return Reaction::Send(reply.finish(ResponseCode::BadVersion));
        }
        if query.class != CLASS_IN {
            return Reaction::Send(reply.finish(ResponseCode::Refused));
        }
        let code = match self.index.resolve(&mut reply, scratch) {
            Resolution::Complete(code) => code,
            // Nobody to ask: the alias alone is still an answer (the client may know more resolvers).
            Resolution::External(_) if self.forwarder.is_empty() => ResponseCode::NoError,
            Resolution::Elsewhere if self.forwarder.is_empty() => ResponseCode::Refused,
            Resolution::External(_) | Resolution::Elsewhere => match self.forwarder.admit() {
                Some(admission) => return Reaction::Ask(Box::new(Pending { query, admission })),
                None => {
                    let overloaded = Reply::new(&query, buffer, UDP_OCTETS_MAX);
                    return Reaction::Send(overloaded.finish(ResponseCode::Refused));
                }
            },
        };
        Reaction::Send(reply.finish(code))
    }

    /// Answers a message with help from upstream.
    pub async fn complete(&self, pending: Pending, message: &[u8], transport: Transport) -> Vec<u8> {
        let Pending { query, admission } = pending;
        let mut buffer = vec![0; limit(&query, transport)];
        let mut reply = self.reply(&query, transport, &mut buffer);
        let length = match self.index.resolve(&mut reply, &mut Scratch::default()) {
            // The index has changed since, and needs no help any more.
            Resolution::Complete(code) => reply.finish(code),
            Resolution::External(target) => {
                let added = self.add_addresses(&mut reply, &target).await;
                let code = self.code(added, &query);
                reply.finish(code)
            }
            Resolution::Elsewhere => match self
                .forwarder
                .exchange(message, &query, transport == Transport::Tcp)
                .await
            {
                Ok(mut answer) if answer.len() <= limit(&query, transport) => {
                    if let Some(id) = answer.first_chunk_mut() {
                        *id = query.id.to_be_bytes();
                    }
                    return answer;
                }
                Ok(_) => {
                    reply.set_truncated();
                    reply.finish(ResponseCode::NoError)
                }
                failed => {
                    let code = self.code(failed.map(|_| ()), &query);
                    reply.finish(code)
                }
            },
        };
        drop(admission);
        buffer.truncate(length);
        buffer
    }

    /// Adds what upstream says about the name at the end of an alias.
    async fn add_addresses(&self, reply: &mut Reply<'_>, target: &Name) -> Result<(), ForwardError> {
        let asked = reply.query().kind;
        let query = Query {
            id: 0,
            flags: 0,
            name: *target,
            kind: asked,
            class: CLASS_IN,
            edns: None,
        };
        let mut message = vec![0; UDP_OCTETS_MAX];
        let octets = u16::try_from(UDP_OCTETS_MAX).unwrap_or(u16::MAX);
        let length = encode_query(&mut message, 0, target, asked, octets).unwrap_or(0);
        message.truncate(length);
        let answer = self.forwarder.exchange(&message, &query, true).await?;
        let id = answer.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        for record in read_answer(&answer, id, target, asked)
            .iter()
            .flat_map(|answer| answer.records())
        {
            let owner = NameRef::Whole(record.owner.as_wire());
            let written = match record.value {
                RecordValue::A(address) => {
                    reply.address(Section::Answer, owner, record.ttl_seconds, address.into())
                }
                RecordValue::Aaaa(address) => {
                    reply.address(Section::Answer, owner, record.ttl_seconds, address.into())
                }
                RecordValue::Cname(name) => {
                    let name = NameRef::Whole(name.as_wire());
                    reply
                        .target(Section::Answer, owner, kind::CNAME, record.ttl_seconds, name)
                        .map(|_| ())
                }
            };
            if written.is_err() {
                reply.set_truncated();
                break;
            }
        }
        Ok(())
    }

    fn code(&self, asked: Result<(), ForwardError>, query: &Query) -> ResponseCode {
        match asked {
            Ok(()) => ResponseCode::NoError,
            Err(error) => {
                tracing::debug!(name = %query.name, %error, "no answer from upstream");
                ResponseCode::ServerFailure
            }
        }
    }

    fn reply<'a>(&self, query: &'a Query, transport: Transport, buffer: &'a mut [u8]) -> Reply<'a> {
        let mut reply = Reply::new(query, buffer, limit(query, transport));
        if !self.forwarder.is_empty() {
            reply.set_recursion_available();
        }
        reply
    }
}

fn limit(query: &Query, transport: Transport) -> usize {
    match transport {
        Transport::Udp => query.udp_limit(UDP_OCTETS_MAX),
        Transport::Tcp => TCP_OCTETS_MAX,
    }
}
