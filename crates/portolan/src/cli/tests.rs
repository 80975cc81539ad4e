use std::collections::BTreeSet;

use super::*;

#[test]
fn command_line_is_consistent() {
    command().debug_assert();
}

#[test]
fn each_subcommand_is_in_one_group() {
    let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let listed: BTreeSet<String> = grouped.iter().map(|name| (*name).to_owned()).collect();
    let command = Cli::command();
    let declared = command.get_subcommands().map(|one| one.get_name().to_owned());
    assert_eq!(listed, declared.collect());
    assert_eq!(listed.len(), grouped.len(), "a name is listed twice: {grouped:?}");
}

#[test]
fn hint_names_the_subcommand() {
    let path = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        subcommand_path(&Cli::command(), &arguments)
    };
    assert_eq!(
        path(&["--log-level=off", "token", "create", "--ttl=x"]),
        "portolan token create"
    );
    assert_eq!(path(&["sail"]), "portolan");
}

#[test]
fn error_message_ends_at_the_first_empty_line() {
    let error =
        "error: the following required arguments were not provided:\n  --from <FILE>\n\nUsage: portolan plan";
    let expected = "the following required arguments were not provided: --from <FILE>";
    assert_eq!(one_line(error), expected);
}
