use super::*;

fn table() -> ImageTable {
    let command = |program: &str| vec![program.to_owned()];
    ImageTable {
        images: BTreeMap::from([
            ("nginx".to_owned(), command("any")),
            ("nginx:1.25".to_owned(), command("exact")),
            ("localhost:5000/own".to_owned(), command("own")),
        ]),
    }
}

#[test]
fn full_reference_precedes_the_name() {
    let program = |image| match table().entrypoint(image) {
        Ok(Entrypoint::Command(command)) => command[0].clone(),
        other => panic!("{image}: {other:?}"),
    };
    assert_eq!(program("nginx:1.25"), "exact");
    assert_eq!(program("nginx:1.26"), "any");
    assert_eq!(program("nginx@sha256:abc"), "any");
    assert_eq!(program("localhost:5000/own"), "own");
    assert_eq!(program("localhost:5000/own:2"), "own");
}

#[test]
fn echo_image_needs_no_table_entry() {
    assert_eq!(
        ImageTable::default().entrypoint("portolan.dev/echo"),
        Ok(Entrypoint::Echo)
    );
    assert_eq!(
        ImageTable::default().entrypoint("portolan.dev/echo:1"),
        Ok(Entrypoint::Echo)
    );
}

#[test]
fn unknown_image_error_names_the_remedy() {
    let message = table().entrypoint("redis:7").unwrap_err().to_string();
    assert!(message.contains("`redis: [program, argument, …]`"), "{message}");
    assert!(message.contains(ECHO_IMAGE));
}
