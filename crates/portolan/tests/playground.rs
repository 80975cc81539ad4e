//! `portolan playground --check`.

use std::process::Command;

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
    if text.contains("user namespaces") || text.contains("the kernel refuses") {
        println!("skipped: playground_examples_respond: {text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    // The example with a router is skipped without its program.
    let skipped = text.matches("[skipped]").count();
    assert_eq!(text.matches("[ok]").count() + skipped, 14, "{text}");
    assert!(skipped <= 1, "{text}");
}
