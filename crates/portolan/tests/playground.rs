//! `portolan playground --check`.

use std::process::{Command, Stdio};

/// Returns true if the host cannot run the playground.
fn is_impossible(text: &str) -> bool {
    text.contains("user namespaces") || text.contains("the kernel refuses")
}

#[test]
fn playground_examples_respond() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    let output = command
        .args(["playground", "--check"])
        .output()
        .expect("the binary under test");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if is_impossible(&text) {
        println!("skipped: playground_examples_respond: {text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    // The example with a router is skipped without its program.
    let skipped = text.matches("[skipped]").count();
    assert_eq!(text.matches("[ok]").count() + skipped, 14, "{text}");
    assert!(skipped <= 1, "{text}");
}

/// A reader such as `head` closes the pipe before the checks are complete.
#[test]
fn playground_continues_without_a_reader() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command.args(["playground", "--check"]).stdin(Stdio::null());
    let process = command
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary under test");
    let output = process
        .wait_with_output()
        .expect("the exit code of the playground");
    let text = String::from_utf8_lossy(&output.stderr);
    if is_impossible(&text) {
        println!("skipped: playground_continues_without_a_reader: {text}");
        return;
    }
    assert!(output.status.success(), "{text}");
}
