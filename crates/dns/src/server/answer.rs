//! The answer to a query, from the zone and from what is known of other names.

use super::respond::{Peer, Responder, Transport, UDP_OCTETS_MAX};
use super::search::Candidate;
use crate::forward::Given;
use crate::metrics::Source;
use crate::records::{Resolution, Scratch};
use crate::wire::{
    CLASS_IN, NameRef, Query, Question, RecordValue, Records, Reply, ResponseCode, Section, TCP_OCTETS_MAX,
    kind,
};

/// What became of a query, in the end or for now.
pub(super) enum Outcome {
    /// The answer is written.
    Done(usize, Source),
    /// This must be known first.
    Needs(Box<Question>),
}

/// What is known about a question.
pub(super) enum Known {
    Given(Given),
    Failed,
    NotYet,
}

impl Responder {
    /// Answers a query from the zone and from what is `known` of other names.
    pub(super) fn answer(
        &self,
        query: &Query,
        peer: Peer,
        buffer: &mut [u8],
        scratch: &mut Scratch,
        mut known: impl FnMut(&Question) -> Known,
    ) -> Outcome {
        let mut reply = self.reply(query, peer.transport, buffer);
        if query.edns.is_some_and(|edns| edns.version != 0) {
            return Outcome::Done(reply.finish(ResponseCode::BadVersion), Source::Refusal);
        }
        if query.class != CLASS_IN {
            return Outcome::Done(reply.finish(ResponseCode::Refused), Source::Refusal);
        }
        match self.zone().resolve(&mut reply, scratch) {
            Resolution::Complete(ResponseCode::NameError) if self.policy().search.is_some() => {
                self.search(peer, reply, scratch, known)
            }
            Resolution::Complete(code) => Outcome::Done(reply.finish(code), Source::Cluster),
            // Nobody to ask: the alias alone is still an answer (the client may know more resolvers).
            Resolution::External(target) if !self.forwarder().knows(&target) => {
                Outcome::Done(reply.finish(ResponseCode::NoError), Source::Cluster)
            }
            Resolution::External(target) => {
                let question = Question::about(*target, query.kind);
                match known(&question) {
                    Known::Given(given) => {
                        let code = add_addresses(&mut reply, &given);
                        Outcome::Done(reply.finish(code), Source::Cluster)
                    }
                    Known::Failed => {
                        Outcome::Done(reply.finish(ResponseCode::ServerFailure), Source::Cluster)
                    }
                    Known::NotYet => Outcome::Needs(Box::new(question)),
                }
            }
            Resolution::Elsewhere if !self.forwarder().knows(&query.name) => {
                Outcome::Done(reply.finish(ResponseCode::Refused), Source::Refusal)
            }
            Resolution::Elsewhere => {
                let question = Question::of(query);
                match known(&question) {
                    Known::Given(given) => {
                        let source = source_of(&given);
                        let limit = self.limit(query, peer.transport);
                        Outcome::Done(given.write(query, buffer, limit), source)
                    }
                    Known::Failed => {
                        Outcome::Done(reply.finish(ResponseCode::ServerFailure), Source::Upstream)
                    }
                    Known::NotYet => Outcome::Needs(Box::new(question)),
                }
            }
        }
    }

    /// Walks the rest of a Pod's search list for it, where the first name on it does not exist (DNS-25). The
    /// reply says that it does not.
    fn search(
        &self,
        peer: Peer,
        mut reply: Reply<'_>,
        scratch: &mut Scratch,
        mut known: impl FnMut(&Question) -> Known,
    ) -> Outcome {
        let query = reply.query();
        let index = self.zone().live();
        let walk = self.policy().search.as_ref().and_then(|list| {
            let is_address = matches!(query.kind, kind::A | kind::AAAA);
            let pod = index.pod_at(peer.address).filter(|_| is_address)?;
            list.walk(&query.name, index.cluster_domain(), pod.namespace_label())
        });
        let Some(walk) = walk else {
            return Outcome::Done(reply.finish(ResponseCode::NameError), Source::Cluster);
        };
        for candidate in walk {
            reply.clear();
            match candidate {
                Candidate::Cluster(name) => match self.zone().lead_to(&mut reply, scratch, &name) {
                    Some(Resolution::Complete(code)) => {
                        return Outcome::Done(reply.finish(code), Source::Cluster);
                    }
                    Some(Resolution::External(target)) if self.forwarder().knows(&target) => {
                        let question = Question::about(*target, query.kind);
                        let code = match known(&question) {
                            Known::NotYet => return Outcome::Needs(Box::new(question)),
                            Known::Failed => ResponseCode::ServerFailure,
                            Known::Given(given) => add_addresses(&mut reply, &given),
                        };
                        return Outcome::Done(reply.finish(code), Source::Cluster);
                    }
                    _ => {}
                },
                Candidate::Elsewhere(name) if self.forwarder().knows(&name) => {
                    let question = Question::about(name, query.kind);
                    match known(&question) {
                        Known::Given(given) if given.relayed().code == ResponseCode::NameError as u16 => {}
                        Known::Given(given) if given.relayed().code == ResponseCode::NoError as u16 => {
                            let source = source_of(&given);
                            let alias = NameRef::Whole(name.as_wire());
                            let ttl = index.ttl_seconds();
                            let owner = NameRef::QUESTION;
                            if reply
                                .target(Section::Answer, owner, kind::CNAME, ttl, alias)
                                .is_err()
                            {
                                reply.set_truncated();
                            }
                            let code = add_addresses(&mut reply, &given);
                            return Outcome::Done(reply.finish(code), source);
                        }
                        Known::Given(_) | Known::Failed => {
                            return Outcome::Done(
                                reply.finish(ResponseCode::ServerFailure),
                                Source::Upstream,
                            );
                        }
                        Known::NotYet => return Outcome::Needs(Box::new(question)),
                    }
                }
                Candidate::Elsewhere(_) => {}
            }
        }
        reply.clear();
        let code = index.deny(&mut reply, scratch);
        Outcome::Done(reply.finish(code), Source::Cluster)
    }

    pub(super) fn reply<'a>(
        &self,
        query: &'a Query,
        transport: Transport,
        buffer: &'a mut [u8],
    ) -> Reply<'a> {
        let mut reply = Reply::new(query, buffer, self.limit(query, transport));
        if !self.forwarder().is_empty() {
            reply.set_recursion_available();
        }
        reply
    }

    pub(super) fn limit(&self, query: &Query, transport: Transport) -> usize {
        let udp_octets_max = match self.policy().udp_octets_max {
            0 => UDP_OCTETS_MAX,
            given => given.min(UDP_OCTETS_MAX),
        };
        match transport {
            Transport::Udp => query.udp_limit(udp_octets_max),
            Transport::Tcp | Transport::Tls => TCP_OCTETS_MAX,
        }
    }
}

fn source_of(given: &Given) -> Source {
    match given {
        Given::Cached(_) => Source::Cache,
        Given::Fresh(_) => Source::Upstream,
    }
}

/// Adds what upstream says about the name at the end of an alias; returns the code for all of it. An alias without
/// its addresses would read as: there are none.
fn add_addresses(reply: &mut Reply<'_>, given: &Given) -> ResponseCode {
    let is = |code: ResponseCode| given.relayed().code == code as u16;
    if !is(ResponseCode::NoError) && !is(ResponseCode::NameError) {
        return ResponseCode::ServerFailure;
    }
    for record in Records::of(given.relayed().message()) {
        let owner = NameRef::Whole(record.owner.as_wire());
        let ttl = given.ttl(record.ttl_seconds);
        let written = match record.value {
            RecordValue::A(address) => reply.address(Section::Answer, owner, ttl, address.into()),
            RecordValue::Aaaa(address) => reply.address(Section::Answer, owner, ttl, address.into()),
            RecordValue::Cname(name) => {
                let name = NameRef::Whole(name.as_wire());
                reply
                    .target(Section::Answer, owner, kind::CNAME, ttl, name)
                    .map(|_| ())
            }
        };
        if written.is_err() {
            reply.set_truncated();
            break;
        }
    }
    ResponseCode::NoError
}
