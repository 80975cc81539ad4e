use super::command;

#[test]
fn command_and_args_replace_those_of_the_image() {
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let (entrypoint, image_command) = (words("/ep a"), words("c d"));
    let cases = [
        ("", "", "/ep a c d"),
        ("", "x y", "/ep a x y"),
        ("/own", "", "/own"),
        ("/own z", "x", "/own z x"),
    ];
    for (own, args, expected) in cases {
        let actual = command(&words(own), &words(args), &entrypoint, &image_command);
        assert_eq!(actual, words(expected), "{own:?} {args:?}");
    }
}
