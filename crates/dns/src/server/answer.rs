//! Answers from the zone and from responses of resolvers.
//!
//! A name outside of the zones without a resolver gets REFUSED, and a failed query to a resolver SERVFAIL. If a name of
//! the zone does not exist, the server may try the other names of the client's search list first.

use super::respond::{Peer, Responder, Transport, UDP_BYTES_MAX};
use super::search::Candidate;
use crate::forward::UpstreamAnswer;
use crate::metrics::Source;
use crate::records::{Resolution, Scratch};
use crate::wire::{
    CLASS_IN, Name, NameRef, Query, Question, RecordValue, Records, Reply, ResponseCode, Section,
    TCP_BYTES_MAX, kind,
};

/// Result of answering a query.
pub(super) enum AnswerOutcome {
    /// The response is written.
    Complete(usize, Source),
    /// A response of a resolver to this question is needed.
    NeedsUpstream(Box<Question>),
}

/// State of the forwarded query for a question.
pub(super) enum UpstreamState {
    /// A resolver has answered.
    Answered(UpstreamAnswer),
    /// The forwarded query has failed.
    Failed,
    /// No response is there yet.
    Pending,
}

impl Responder {
    /// Answers a query from the zone and from responses of resolvers, which `upstream` looks up.
    pub(super) fn answer(
        &self,
        query: &Query,
        peer: Peer,
        buffer: &mut [u8],
        scratch: &mut Scratch,
        mut upstream: impl FnMut(&Question) -> UpstreamState,
    ) -> AnswerOutcome {
        let mut reply = self.reply(query, peer, buffer);
        if query.edns.is_some_and(|edns| edns.version != 0) {
            return AnswerOutcome::Complete(reply.finish(ResponseCode::BadVersion), Source::Refusal);
        }
        if query.class != CLASS_IN {
            return AnswerOutcome::Complete(reply.finish(ResponseCode::Refused), Source::Refusal);
        }
        match self.zone().resolve(&mut reply, scratch) {
            Resolution::Complete(ResponseCode::NameError) if self.policy().search.is_some() => {
                self.search(peer, reply, scratch, upstream)
            }
            Resolution::Complete(code) => AnswerOutcome::Complete(reply.finish(code), Source::Cluster),
            // Without a resolver, the alias alone is still an answer: the client can have other resolvers.
            Resolution::External(target) if !self.forwarder().has_upstream_for(&target) => {
                AnswerOutcome::Complete(reply.finish(ResponseCode::NoError), Source::Cluster)
            }
            Resolution::External(target) => {
                let question = Question::about(*target, query.kind);
                match upstream(&question) {
                    UpstreamState::Answered(answer) => {
                        let code = add_addresses(&mut reply, &answer);
                        AnswerOutcome::Complete(reply.finish(code), Source::Cluster)
                    }
                    UpstreamState::Failed => {
                        AnswerOutcome::Complete(reply.finish(ResponseCode::ServerFailure), Source::Cluster)
                    }
                    UpstreamState::Pending => AnswerOutcome::NeedsUpstream(Box::new(question)),
                }
            }
            Resolution::OutsideZone if !self.forwarder().has_upstream_for(&query.name) => {
                AnswerOutcome::Complete(reply.finish(ResponseCode::Refused), Source::Refusal)
            }
            Resolution::OutsideZone => {
                let question = Question::of(query);
                match upstream(&question) {
                    UpstreamState::Answered(answer) => {
                        let source = source_of(&answer);
                        let limit = self.limit(query, peer);
                        AnswerOutcome::Complete(answer.write(query, buffer, limit), source)
                    }
                    UpstreamState::Failed => {
                        AnswerOutcome::Complete(reply.finish(ResponseCode::ServerFailure), Source::Upstream)
                    }
                    UpstreamState::Pending => AnswerOutcome::NeedsUpstream(Box::new(question)),
                }
            }
        }
    }

    /// Tries the other names of a Pod's search list if its first name does not exist (DNS-25). `reply` contains the
    /// negative answer.
    fn search(
        &self,
        peer: Peer,
        mut reply: Reply<'_>,
        scratch: &mut Scratch,
        mut upstream: impl FnMut(&Question) -> UpstreamState,
    ) -> AnswerOutcome {
        let query = reply.query();
        let index = self.zone().live();
        let candidates = self.policy().search.as_ref().and_then(|list| {
            let is_address = matches!(query.kind, kind::A | kind::AAAA);
            let pod = index.pod_at(peer.address).filter(|_| is_address)?;
            list.candidates_after(&query.name, index.cluster_domain(), pod.namespace_label())
        });
        let Some(candidates) = candidates else {
            return AnswerOutcome::Complete(reply.finish(ResponseCode::NameError), Source::Cluster);
        };
        for candidate in candidates {
            reply.clear();
            match candidate {
                Candidate::Cluster(name) => match self.zone().answer_with_alias(&mut reply, scratch, &name) {
                    Some(Resolution::Complete(code)) => {
                        return AnswerOutcome::Complete(reply.finish(code), Source::Cluster);
                    }
                    Some(Resolution::External(target)) if self.forwarder().has_upstream_for(&target) => {
                        let question = Question::about(*target, query.kind);
                        let code = match upstream(&question) {
                            UpstreamState::Pending => {
                                return AnswerOutcome::NeedsUpstream(Box::new(question));
                            }
                            UpstreamState::Failed => ResponseCode::ServerFailure,
                            UpstreamState::Answered(answer) => add_addresses(&mut reply, &answer),
                        };
                        return AnswerOutcome::Complete(reply.finish(code), Source::Cluster);
                    }
                    _ => {}
                },
                Candidate::OutsideZone(name) if self.forwarder().has_upstream_for(&name) => {
                    let question = Question::about(name, query.kind);
                    match upstream(&question) {
                        UpstreamState::Answered(answer) if has_code(&answer, ResponseCode::NameError) => {}
                        UpstreamState::Answered(answer) if has_code(&answer, ResponseCode::NoError) => {
                            return finish_with_alias(reply, &name, &answer, index.ttl_seconds());
                        }
                        UpstreamState::Answered(_) | UpstreamState::Failed => {
                            return AnswerOutcome::Complete(
                                reply.finish(ResponseCode::ServerFailure),
                                Source::Upstream,
                            );
                        }
                        UpstreamState::Pending => return AnswerOutcome::NeedsUpstream(Box::new(question)),
                    }
                }
                Candidate::OutsideZone(_) => {}
            }
        }
        reply.clear();
        let code = index.deny(&mut reply, scratch);
        AnswerOutcome::Complete(reply.finish(code), Source::Cluster)
    }

    pub(super) fn reply<'a>(&self, query: &'a Query, peer: Peer, buffer: &'a mut [u8]) -> Reply<'a> {
        let mut reply = Reply::new(query, buffer, self.limit(query, peer));
        if !self.forwarder().is_empty() {
            reply.set_recursion_available();
        }
        reply
    }

    pub(super) fn limit(&self, query: &Query, peer: Peer) -> usize {
        let udp_bytes_max = match self.policy().udp_bytes_max {
            // The loopback interface neither fragments these responses nor carries them to another host.
            _ if peer.address.is_loopback() => UDP_BYTES_MAX,
            0 => UDP_BYTES_MAX,
            configured => configured.min(UDP_BYTES_MAX),
        };
        match peer.transport {
            Transport::Udp => query.udp_limit(udp_bytes_max),
            Transport::Tcp | Transport::Tls => TCP_BYTES_MAX,
        }
    }
}

fn has_code(answer: &UpstreamAnswer, code: ResponseCode) -> bool {
    answer.relayed().code == code as u16
}

/// Finishes a response with an alias to `name` and the addresses in the response of a resolver.
fn finish_with_alias(
    mut reply: Reply<'_>,
    name: &Name,
    answer: &UpstreamAnswer,
    ttl_seconds: u32,
) -> AnswerOutcome {
    let target = NameRef::Whole(name.as_wire());
    let alias = reply.target(
        Section::Answer,
        NameRef::QUESTION,
        kind::CNAME,
        ttl_seconds,
        target,
    );
    if alias.is_err() {
        reply.set_truncated();
    }
    let code = add_addresses(&mut reply, answer);
    AnswerOutcome::Complete(reply.finish(code), source_of(answer))
}

fn source_of(answer: &UpstreamAnswer) -> Source {
    match answer {
        UpstreamAnswer::Cached(_) => Source::Cache,
        UpstreamAnswer::Fresh(_) => Source::Upstream,
    }
}

/// Adds the records of the target of an alias from a resolver, and returns the response code. A failed lookup becomes
/// SERVFAIL, because an alias without addresses means that no addresses exist.
fn add_addresses(reply: &mut Reply<'_>, answer: &UpstreamAnswer) -> ResponseCode {
    if !has_code(answer, ResponseCode::NoError) && !has_code(answer, ResponseCode::NameError) {
        return ResponseCode::ServerFailure;
    }
    for record in Records::of(answer.relayed().message()) {
        let owner = NameRef::Whole(record.owner.as_wire());
        let ttl = answer.ttl(record.ttl_seconds);
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
