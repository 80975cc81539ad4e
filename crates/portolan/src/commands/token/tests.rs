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
