use super::*;

#[test]
fn every_subcommand_has_a_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ManualFlags {
        directory: directory.path().to_owned(),
    };
    manual(&flags).expect("the pages");
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
