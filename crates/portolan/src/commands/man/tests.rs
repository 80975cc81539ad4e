use super::*;
use crate::cli;

#[test]
fn subcommands_have_pages() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = Flags {
        directory: directory.path().to_owned(),
    };
    run(&flags, cli::command()).expect("the pages");
    for page in [
        "portolan.1",
        "portolan-up.1",
        "portolan-status.1",
        "portolan-service-install.1",
    ] {
        let text = fs::read_to_string(directory.path().join(page)).expect("a page");
        assert!(text.contains(".SH NAME"), "{page}");
    }
}
