//! Keys of the session in which the agent runs.

use std::ffi::CStr;

use agent::confinement::seccomp::Seccomp;
use agent::sandbox::SELF_EXE;
use agent::sandbox::protocol::{Confinement, Program};

use crate::fixture::{Outcome, Pod, check, default_confinement};

/// Hidden subcommand that searches the key.
pub(crate) const SEARCH_SUBCOMMAND: &str = "search-key";
const KIND: &CStr = c"user";
const NAME: &CStr = c"portolan-probe";
const SESSION_KEYRING: libc::c_long = -3;
const JOIN: libc::c_long = 1;
const SEARCH: libc::c_long = 10;

/// Adds a key to a new session keyring of this process. Returns false if the host forbids it.
pub(crate) fn add_key() -> bool {
    let (no_name, secret): (libc::c_long, &CStr) = (0, c"secret");
    // SAFETY: without a name, the call takes numbers only.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, JOIN, no_name) };
    // SAFETY: the strings live through the call, and the length is that of the secret.
    let added = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            KIND.as_ptr(),
            NAME.as_ptr(),
            secret.as_ptr(),
            secret.to_bytes().len(),
            SESSION_KEYRING,
        )
    };
    joined >= 0 && added >= 0 && finds_key()
}

fn finds_key() -> bool {
    let no_target: libc::c_long = 0;
    // SAFETY: the strings live through the call.
    let serial = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            SEARCH,
            SESSION_KEYRING,
            KIND.as_ptr(),
            NAME.as_ptr(),
            no_target,
        )
    };
    serial >= 0
}

/// Prints the result of a search.
pub(crate) fn search_key() {
    println!("key {}", if finds_key() { "found" } else { "missing" });
}

pub(crate) async fn keys_of_the_agent_are_not_inherited() -> Outcome {
    let mut pod = Pod::start().await?;
    let privileged = Confinement {
        is_privileged: true,
        has_unmasked_proc: true,
        seccomp: Seccomp::Unconfined,
        ..Confinement::default()
    };
    let unconfined = Confinement {
        seccomp: Seccomp::Unconfined,
        ..default_confinement()
    };
    for (name, confinement) in [("privileged", privileged), ("unconfined", unconfined)] {
        let program = Program {
            command: vec![SELF_EXE.to_owned(), SEARCH_SUBCOMMAND.to_owned()],
            confinement,
            ..Program::default()
        };
        pod.start_container(name, program).await?;
        pod.sandbox.next_event().await;
        let output = pod.log_when(name, "key ").await?;
        check(output.contains("key missing"), output)?;
    }
    pod.end().await
}
