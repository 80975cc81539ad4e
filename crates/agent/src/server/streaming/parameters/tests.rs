use super::*;

#[test]
fn parses_a_command_with_escapes() {
    let options = CommandOptions::parse(
        "command=sh&command=-c&command=echo%20%22a%26b%22%20%zz&input=1&output=1&error=1",
    );
    assert_eq!(options.command, ["sh", "-c", "echo \"a&b\" %zz"]);
    let streams: Vec<_> = options.streams().collect();
    assert_eq!(streams, [Stream::Input, Stream::Output, Stream::Error]);
}

#[test]
fn terminals_have_no_separate_error_stream() {
    let options = CommandOptions::parse("command=sh&output=1&error=1&tty=1");
    assert!(options.has_terminal && options.has_output && !options.has_error);
}
