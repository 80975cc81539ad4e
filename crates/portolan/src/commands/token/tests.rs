use std::process::Command;

use super::*;

#[test]
fn tokens_are_unlike_each_other() {
    let (one, other) = (
        generate().expect("random numbers"),
        generate().expect("random numbers"),
    );
    assert_ne!(one.secret, other.secret);
    assert_eq!(one.to_string().parse::<Token>().as_ref(), Ok(&one));
}

#[test]
fn gives_the_token_to_join_by_standard_input_alone() {
    let token = JoinToken {
        token: "abcdef.0123456789abcdef".parse().expect("a token"),
        hash: None,
    };
    let servers = ["https://192.0.2.1:6443", "https://[2001:db8::1]:6443"].map(str::to_owned);
    // What a shell makes of it: the arguments of `portolan`, and what it reads.
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
