use std::fs::File;
use std::io::{Read, Write};

use super::*;
use crate::sandbox::descriptors;
use crate::sandbox::session::SessionRequest;

/// Agent's side of a session.
struct Agent {
    socket: UnixStream,
    message: SessionMessage,
    descriptors: Vec<OwnedFd>,
}

fn attach(streams: &ContainerStreams, has_input: bool) -> (u64, Agent) {
    attach_with(streams, has_input, false)
}

fn attach_with(streams: &ContainerStreams, has_input: bool, splits_error: bool) -> (u64, Agent) {
    let (socket, of_sandbox) = UnixStream::pair().unwrap();
    let id = streams.attach(&of_sandbox, has_input, splits_error).unwrap();
    let (line, descriptors) = descriptors::receive(&socket).unwrap();
    let message = serde_json::from_slice(&line).unwrap();
    (
        id,
        Agent {
            socket,
            message,
            descriptors,
        },
    )
}

fn read_end(descriptors: &mut Vec<OwnedFd>) -> String {
    let mut text = String::new();
    File::from(descriptors.pop().unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn sessions_receive_later_output_and_the_exit() {
    let streams = ContainerStreams::new(ContainerInput::Null);
    streams.deliver(OutputStream::Output, b"early");
    let (_, mut agent) = attach(&streams, true);
    let (gone, gone_agent) = attach(&streams, true);
    streams.detach(gone);
    streams.deliver(OutputStream::Output, b"later");
    streams.end_output(OutputStream::Output);
    streams.end_output(OutputStream::Error);
    assert_eq!(
        agent.message,
        SessionMessage::Attached {
            has_input: false,
            has_terminal: false,
            has_error: false
        }
    );
    assert_eq!(read_end(&mut agent.descriptors), "later");
    streams.finish(3);
    let (line, _) = descriptors::receive(&agent.socket).unwrap();
    let exit: SessionMessage = serde_json::from_slice(&line).unwrap();
    assert_eq!(exit, SessionMessage::Exited { code: 3 });
    drop(gone_agent);
}

#[test]
fn input_for_one_session_ends_with_it() {
    let (mut reading, writing) = io::pipe().unwrap();
    let streams = ContainerStreams::new(ContainerInput::Pipe {
        end: Some(writing.into()),
        is_for_one: true,
    });
    let (_, watcher) = attach(&streams, false);
    assert_eq!(watcher.descriptors.len(), 1);
    let (_, mut first) = attach(&streams, true);
    let (_, second) = attach(&streams, true);
    assert_eq!(first.descriptors.len(), 2);
    assert_eq!(second.descriptors.len(), 1);
    let mut input = File::from(first.descriptors.remove(0));
    input.write_all(b"hello").unwrap();
    drop(input);
    let mut text = String::new();
    reading.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn shared_input_stays_open_after_a_session() {
    let (reading, writing) = io::pipe().unwrap();
    let streams = ContainerStreams::new(ContainerInput::Pipe {
        end: Some(writing.into()),
        is_for_one: false,
    });
    for _ in 0..2 {
        let (id, agent) = attach(&streams, true);
        assert_eq!(agent.descriptors.len(), 2);
        streams.detach(id);
    }
    rustix::io::ioctl_fionbio(&reading, true).unwrap();
    let read = rustix::io::read(&reading, &mut [0_u8; 1]);
    assert_eq!(read, Err(Errno::AGAIN));
}

#[test]
fn session_whose_reader_is_gone_delays_no_output() {
    let streams = ContainerStreams::new(ContainerInput::Null);
    let (_, agent) = attach(&streams, false);
    drop(agent);
    streams.deliver(OutputStream::Output, b"one");
    let (_, mut other) = attach(&streams, false);
    streams.deliver(OutputStream::Output, b"two");
    streams.deliver(OutputStream::Error, b"three");
    streams.end_output(OutputStream::Error);
    streams.end_output(OutputStream::Output);
    assert_eq!(read_end(&mut other.descriptors), "twothree");
}

#[test]
fn standard_error_has_a_pipe_of_its_own_on_request() {
    let streams = ContainerStreams::new(ContainerInput::Null);
    let (_, mut agent) = attach_with(&streams, false, true);
    assert_eq!(
        agent.message,
        SessionMessage::Attached {
            has_input: false,
            has_terminal: false,
            has_error: true
        }
    );
    assert_eq!(agent.descriptors.len(), 2);
    streams.deliver(OutputStream::Output, b"out");
    streams.deliver(OutputStream::Error, b"err");
    // The end of one stream does not end the other.
    streams.end_output(OutputStream::Error);
    assert_eq!(read_end(&mut agent.descriptors), "err");
    streams.deliver(OutputStream::Output, b"put");
    streams.end_output(OutputStream::Output);
    assert_eq!(read_end(&mut agent.descriptors), "output");
    // A session that begins later finds both streams at their end.
    let (_, mut late) = attach_with(&streams, false, true);
    assert_eq!(read_end(&mut late.descriptors), "");
    assert_eq!(read_end(&mut late.descriptors), "");
}

#[test]
fn sessions_of_earlier_agents_request_one_pipe() {
    let request = r#"{"Attach":{"container":"a","has_input":true}}"#;
    let expected = SessionRequest::Attach {
        container: "a".to_owned(),
        has_input: true,
        splits_error: false,
    };
    assert_eq!(serde_json::from_str::<SessionRequest>(request).unwrap(), expected);
    let message = r#"{"Attached":{"has_input":true,"has_terminal":false}}"#;
    let expected = SessionMessage::Attached {
        has_input: true,
        has_terminal: false,
        has_error: false,
    };
    assert_eq!(serde_json::from_str::<SessionMessage>(message).unwrap(), expected);
}
