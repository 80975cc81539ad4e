use std::process::Command;

use super::*;

#[test]
fn generated_tokens_differ() {
    let (one, other) = (
        generate().expect("random numbers"),
        generate().expect("random numbers"),
    );
    assert_ne!(one.secret, other.secret);
    assert_eq!(one.to_string().parse::<Token>().as_ref(), Ok(&one));
}

#[test]
fn join_command_passes_the_token_on_standard_input() {
    let token = JoinToken {
        token: "abcdef.0123456789abcdef".parse().expect("a token"),
        hash: None,
    };
    let servers = ["https://192.0.2.1:6443", "https://[2001:db8::1]:6443"].map(str::to_owned);
    // The shell function prints its arguments and its standard input.
    let script = format!(
        "portolan() {{ echo \"$@\"; cat; }}\n{}",
        join_command(&servers, &token)
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    let expected = "join --server https://192.0.2.1:6443,https://[2001:db8::1]:6443 --token-file -\n\
                    abcdef.0123456789abcdef\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
