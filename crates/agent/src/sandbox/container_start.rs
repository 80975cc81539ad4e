//! Start of a container with its standard streams.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use super::attachments::{ContainerInput, ContainerStreams};
use super::container_log::OutputStream;
use super::launch::{LaunchedProgram, SharedNamespaces, Streams, launch_with_streams};
use super::pod_directory::OpenPodDirectory;
use super::protocol::Program;
use super::session::Input;

/// Type of terminals, unless the container sets one.
const TERMINAL_TYPE: &str = "xterm";

/// Container that was started.
pub(super) struct StartedContainer {
    /// First process of the container.
    pub(super) pid: i32,
    pub(super) streams: ContainerStreams,
    /// Ends of the output streams.
    pub(super) ends: BTreeMap<OutputStream, OwnedFd>,
}

/// Starts the program of a container with its standard streams, in the PID namespace of the process `target` if there
/// is one. The program gets its account.
///
/// # Errors
/// Errors of the program's start.
pub(super) fn start(
    program: &mut Program,
    target: Option<i32>,
    directory: &OpenPodDirectory,
) -> io::Result<StartedContainer> {
    let requested = program.streams;
    if requested.has_terminal {
        set_terminal_type(program);
    }
    let input = input_of(program);
    let mut ends = BTreeMap::new();
    let (output, error) = if requested.has_terminal {
        (Stdio::null(), Stdio::null())
    } else {
        let output = open_output(OutputStream::Output, &mut ends)?;
        (output, open_output(OutputStream::Error, &mut ends)?)
    };
    let shared_namespaces = SharedNamespaces {
        mounts_of: None,
        processes_of: target,
    };
    let launched = launch_with_streams(
        program,
        shared_namespaces,
        directory,
        Streams { input, output, error },
    )?;
    let LaunchedProgram {
        pid,
        input: end,
        account,
    } = launched;
    if let Some(account) = account {
        account.apply_to(program);
    }
    let input = match end {
        end if requested.has_terminal => {
            let (input, controller) = terminal_ends(end, requested.has_input).inspect_err(|_| {
                // SAFETY: kill takes numbers; the process was not reaped, because that takes the lock that the caller
                // holds.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            })?;
            ends.insert(OutputStream::Output, controller);
            input
        }
        None => ContainerInput::Null,
        end => ContainerInput::Pipe {
            end,
            is_for_one: requested.is_input_for_one,
        },
    };
    Ok(StartedContainer {
        pid,
        streams: ContainerStreams::new(input),
        ends,
    })
}

fn input_of(program: &Program) -> Input {
    if program.streams.has_terminal {
        Input::Terminal
    } else if program.streams.has_input && !program.closes_stdin_when_serving {
        Input::Pipe
    } else {
        Input::Null
    }
}

/// Opens a pipe for an output stream, and adds its reading end to `ends`. Returns the end of the container.
fn open_output(stream: OutputStream, ends: &mut BTreeMap<OutputStream, OwnedFd>) -> io::Result<Stdio> {
    let (reading, writing) = io::pipe()?;
    ends.insert(stream, OwnedFd::from(reading));
    Ok(writing.into())
}

/// Returns the input of a container with a terminal, and the end of its output.
fn terminal_ends(controller: Option<OwnedFd>, has_input: bool) -> io::Result<(ContainerInput, OwnedFd)> {
    let controller = controller.ok_or_else(|| io::Error::other("the process did not pass its terminal"))?;
    let output = controller.try_clone()?;
    let input = ContainerInput::Terminal {
        controller,
        has_input,
    };
    Ok((input, output))
}

/// Sets the type of the terminal, unless the container sets one.
pub(super) fn set_terminal_type(program: &mut Program) {
    let variables = &mut program.environment;
    variables
        .entry("TERM".to_owned())
        .or_insert_with(|| TERMINAL_TYPE.to_owned());
}
