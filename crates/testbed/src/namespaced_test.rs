//! Tests in an enclosure: in parallel, without root, without effect on the host.

use std::any::type_name;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::enclosure::{self, set_up_enclosure};

/// Marker of the inner process for a completed test. A filter without matches would exit with 0.
const EXIT_PASSED: i32 = 86;
/// Marker of the inner process for a skipped test. The last line of its output is the reason.
const EXIT_SKIPPED: i32 = 87;

/// Runs `test` as root in an enclosure. It is the only statement of a `#[test]`: the test binary is started again
/// for this one test. Where namespaces are forbidden, the test prints `skipped: NAME: reason` and passes.
///
/// ```no_run
/// #[test]
/// fn links_are_listed() {
///     testbed::in_namespace(|| {
///         // root in an empty network namespace
///     });
/// }
/// ```
///
/// # Panics
///
/// Panics with the output of the test if the test fails.
pub fn in_namespace<F: FnOnce()>(test: F) {
    if enclosure::is_inside() {
        if let Err(error) = set_up_enclosure() {
            panic!("settling in the enclosure: {error}");
        }
        test();
        std::process::exit(EXIT_PASSED);
    }
    let name = test_name(type_name::<F>());
    let child = enclosure::this_program().and_then(|mut command| {
        arguments(&mut command, name);
        enclosure::spawn(&mut command)
    });
    let child = match child {
        Ok(child) => child,
        Err(error) => return skip(name, &error.to_string()),
    };
    let output = match child.wait_with_output() {
        Ok(output) => output,
        Err(error) => panic!("waiting for {name} in its enclosure: {error}"),
    };
    if output.status.code() == Some(EXIT_SKIPPED) {
        let text = String::from_utf8_lossy(&output.stdout);
        return skip(name, text.lines().last().unwrap_or_default());
    }
    assert!(
        output.status.code() == Some(EXIT_PASSED),
        "{name} in its enclosure: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// Skips a test that runs by [`in_namespace`], because the kernel or a program lacks something: prints `skipped:
/// NAME: reason` and passes.
pub fn skip_inside(reason: &str) -> ! {
    println!("\n{reason}");
    std::process::exit(EXIT_SKIPPED);
}

/// Prints that a test is skipped, past the test harness, which hides the output of passing tests.
fn skip(name: &str, reason: &str) {
    let line = format!("skipped: {name}: {reason}\n");
    if let Err(error) = std::io::stderr().write_all(line.as_bytes()) {
        panic!("{line}{error}");
    }
}

fn arguments(command: &mut Command, name: &str) {
    command
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

/// `agent::network::tests::works::{{closure}}` is the closure of the test `network::tests::works`.
fn test_name(closure: &'static str) -> &'static str {
    let function = closure.split("::{{closure}}").next().unwrap_or(closure);
    function.split_once("::").map_or(function, |(_, path)| path)
}
